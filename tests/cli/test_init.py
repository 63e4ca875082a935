#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""croft init: the file it writes is taken by croft as it is, says what was found, and copies nothing of the project."""
import os
import re

from harness import check, contains, equal, lacks, main, test, text

PROJECTS = (
	((), "default", ()),
	(("package.json", "pnpm-lock.yaml"), "node", ("npm",)),
	(("requirements.txt",), "python", ("pypi",)),
	(("Cargo.toml",), "rust", ("crates",)),
	(("go.mod",), "go", ("go",)),
	(("meson.build",), "c", ()),
	(("Gemfile",), "default", ("rubygems",)),
	(("pom.xml",), "default", ("maven",)),
	(("package.json", "pyproject.toml", "Cargo.toml", "go.mod", "CMakeLists.txt", "Gemfile", "build.gradle"), "default",
		("npm", "pypi", "crates", "go", "rubygems", "maven")),
)


def project(p, n, files):
	top = os.path.join(p.root, f"project{n}")
	os.makedirs(os.path.join(top, ".git"))
	for name in files:
		p.write(os.path.join(top, name), "x\n")
	return top


@test
def test_every_project_gets_a_policy_that_works(p):
	for n, (files, profile, bundles) in enumerate(PROJECTS):
		top = project(p, n, files)
		out = text(p.croft("init", cwd=top).exits(0).out)
		for name in files[:1]:
			contains(out, f"({name})", "what was found")
		check(files or "found no language" in out, "nothing was found", out)
		yaml = text(p.read(os.path.join(top, "croft.yaml")))
		contains(yaml, f"\nprofile: {profile}\n")
		if bundles:
			contains(yaml, "\n  use: [" + ", ".join(bundles) + "]\n")
		check(("croft policy trust" in out) == bool(bundles), "what is to be approved", out)
		p.croft("policy", "check", "croft.yaml", cwd=top).exits(0)
		if bundles:
			r = p.croft("policy", "show", cwd=top)
			check(r.rc != 0 or bundles[0] + "/" not in text(r.out), "it grants before it is approved", r)
			p.croft("policy", "trust", cwd=top).exits(0)
		shown = text(p.croft("policy", "show", cwd=top).exits(0).out)
		for name in bundles:
			contains(shown, name + "/", "the policy that applies")


@test
def test_every_commented_line_works_too(p):
	"""Whoever takes the # away gets a policy that croft takes."""
	top = project(p, 0, ("package.json", ".env", ".env.local"))
	p.write(os.path.join(top, "compose.yaml"), "services:\n  db: {image: 'postgres:16'}\n  cache: {image: redis}\n")
	p.write(os.path.join(top, ".gitmodules"), "[submodule \"x\"]\n\turl = https://github.com/x/y\n")
	out = text(p.croft("init", cwd=os.path.join(top)).exits(0).out)
	for word in ("PostgreSQL (compose.yaml)", "Redis (compose.yaml)", "GitHub"):
		contains(out, word)
	yaml = text(p.read(os.path.join(top, "croft.yaml")))
	contains(yaml, "use: [npm, github-read]")
	for word in ("#host-ports: [5432]", "#host-ports: [6379]", "- ./.env ", "- ./.env.local "):
		contains(yaml, word)
	for line in [l for l in yaml.splitlines() if l.lstrip().startswith("#") and not l.lstrip().startswith("# ")]:
		p.write(os.path.join(top, "croft.yaml"), yaml.replace(line + "\n", line.replace("#", "", 1) + "\n"))
		p.croft("policy", "check", "croft.yaml", cwd=top).exits(0)
	empty = project(p, 1, ())
	lines = text(p.croft("init", "--print", cwd=empty).exits(0).out)
	check(not os.path.exists(os.path.join(empty, "croft.yaml")), "--print wrote a file")
	bare = re.sub(r"(?m)^#(?! [^ ])", "", lines)
	check("\nnetwork:\n  use: [npm]" in bare and "\nfilesystem:\n  deny: [./secrets]" in bare, "the commented keys", bare)
	p.write(os.path.join(empty, "croft.yaml"), bare)
	p.croft("policy", "check", "croft.yaml", cwd=empty).exits(0)


@test
def test_a_file_that_is_there_is_left_alone(p):
	top = project(p, 0, ("package.json",))
	target = p.write(os.path.join(p.root, "target"), "mine\n")
	for make in (lambda path: p.write(path, "version: 1\n"), lambda path: os.symlink(target, path), lambda path: os.symlink(p.root + "/nowhere", path)):
		path = os.path.join(top, "croft.yaml")
		make(path)
		contains(p.croft("init", cwd=top).exits(126).one_sentence(), "croft.yaml", "left alone")
		os.unlink(path)
	equal((text(p.read(target)), os.path.exists(p.root + "/nowhere")), ("mine\n", False), "what the links led to")
	p.croft("init", "-x", cwd=top).exits(125)
	p.croft("init", cwd=top).exits(0)  # control


@test
def test_a_project_puts_no_words_into_its_policy(p):
	"""Names and contents decide, and are not copied; what is no plain file is nothing."""
	top = project(p, 0, ())
	p.write(os.path.join(p.root, "elsewhere.yaml"), "postgres\n")
	os.symlink(os.path.join(p.root, "elsewhere.yaml"), os.path.join(top, "compose.yaml"))
	os.mkfifo(os.path.join(top, "docker-compose.yml"))
	os.makedirs(os.path.join(top, "package.json"))
	p.write(os.path.join(top, "compose.yml"), "postgres\nnetwork: {allow: [evil.example]}\n")
	p.write(os.path.join(top, "evil.example"), "x")
	out = text(p.croft("init", "--print", cwd=top).exits(0).out)
	lacks(out, "evil", "the policy")
	contains(out, "PostgreSQL")
	contains(text(p.croft("init", cwd=top).exits(0).out), "(compose.yml)")
	lacks(text(p.read(os.path.join(top, "croft.yaml"))), "profile: node", "a directory is no mark")


if __name__ == "__main__":
	main()
