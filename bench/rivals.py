# SPDX-License-Identifier: Apache-2.0
"""The commands that are compared: how each tool is asked for the same sandbox.

Every rival is tried once before it is measured. One that is not installed, or does not run the
program here, is skipped with the reason; its absence is in the results.
"""

import json
import os
import shutil
import subprocess

SRT_PACKAGE = "@anthropic-ai/sandbox-runtime"


class Skip(Exception):
	"""This rival cannot be measured here, and why."""


class Site:
	"""Where a benchmark runs: an empty workspace with the program, a HOME, and tools."""

	def __init__(self, croft, root, out, program):
		self.croft = croft
		self.root = root
		self.out = out
		self.home = os.path.join(root, "home")
		self.workspace = os.path.join(root, "ws")
		self.program = program
		self.env = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": self.home,
					"LANG": "C.UTF-8"}

	def call(self, argv, timeout=120, **kw):
		return subprocess.run(argv, cwd=self.workspace, env=self.env, timeout=timeout,
							  stdin=subprocess.DEVNULL, capture_output=True, text=True, **kw)


def need(name):
	path = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
	if not path:
		raise Skip(f"{name} is not installed")
	return path


def staged_argv(site, command):
	"""As a person types it: changes kept aside."""
	return [site.croft, "run", "--json", "/dev/null", "--tier", "namespace", "--", *command]


def typed_argv(site, command, *options):
	"""Nothing but what has to be typed."""
	return [site.croft, "run", *options, "--", *command]


def bare_bwrap_argv(site, command, workspace=None):
	"""bubblewrap as people type it: the usual few binds, every namespace, and nothing croft adds to that."""
	ws = workspace or site.workspace
	return [need("bwrap"), "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
			"--symlink", "usr/lib64", "/lib64", "--ro-bind", "/etc", "/etc", "--proc", "/proc", "--dev", "/dev",
			"--tmpfs", "/tmp", "--bind", ws, ws, "--unshare-all", "--die-with-parent", *command]


def croft_argv(site, command, *options):
	# The receipt is asked for as JSON, so that its making is measured whether or not it would be kept.
	return [site.croft, "run", "--direct", "--json", "/dev/null", *options, "--", *command]


def plan(site):
	"""croft's own plan for this workspace, as data; None when it cannot be had."""
	r = site.call(croft_argv(site, [site.program], "--dry-run", "--json", "-"))
	if r.returncode != 0:
		return None
	try:
		document = json.loads(r.stdout)
	except ValueError:
		return None
	return document.get("operations")


def bwrap_argv(site, command):
	"""bubblewrap with every namespace and the binds of croft's plan.

	What bubblewrap has no word for (decoys, Landlock, seccomp, cgroup, receipt), and the few small files
	that croft generates, are left out, which favours bubblewrap. Scratch directories become plain
	directories on its root tmpfs, as in croft.
	"""
	argv = [need("bwrap"), "--unshare-all", "--die-with-parent", "--new-session", "--clearenv",
			"--setenv", "PATH", site.env["PATH"], "--setenv", "HOME", site.home]
	ops = plan(site)
	if ops is None:
		return argv + fallback_binds(site) + ["--chdir", site.workspace, "--", *command]
	dev_done = False
	for op in ops:
		kind, src, dst = op["op"], op.get("source"), op["path"]
		if dst and (dst == "/dev" or dst.startswith("/dev/")):
			if not dev_done:
				argv += ["--dev", "/dev"]
				dev_done = True
			if kind not in ("bind", "copy"):
				continue
		if kind in ("bind", "copy"):
			flag = "--bind" if op.get("access") == "write" else "--ro-bind"
			argv += [flag, src or dst, dst]
		elif kind in ("scratch", "dir"):
			argv += ["--dir", dst]
		elif kind == "symlink":
			argv += ["--symlink", src, dst]
		elif kind == "proc":
			argv += ["--proc", dst]
		elif kind == "mask":
			argv += ["--tmpfs", dst] if os.path.isdir(dst) else ["--ro-bind", "/dev/null", dst]
	return argv + ["--chdir", site.workspace, "--", *command]


def fallback_binds(site):
	"""The binds of the default policy, when croft's plan cannot be read."""
	argv = ["--proc", "/proc", "--dev", "/dev", "--dir", "/tmp", "--dir", "/run", "--dir", "/var/tmp",
			"--dir", site.home, "--ro-bind", "/usr", "/usr"]
	for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
		path = "/" + name
		if os.path.islink(path):
			argv += ["--symlink", os.readlink(path), path]
		elif os.path.isdir(path):
			argv += ["--ro-bind", path, path]
	for path in ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
				 "/etc/ssl", "/etc/ca-certificates", "/etc/localtime", "/etc/nsswitch.conf",
				 "/etc/mime.types", "/etc/services", "/etc/protocols", "/etc/os-release"):
		if os.path.exists(path):
			argv += ["--ro-bind", path, path]
	return argv + ["--bind", site.workspace, site.workspace]


def srt_argv(site, command):
	"""sandbox-runtime's command line, with its own strict defaults and a writable workspace."""
	node, npm = need("node"), need("npm")
	for tool in ("bwrap", "socat", "rg"):
		need(tool)
	cli = os.path.join(site.out, "node_modules", ".bin", "srt")
	if not os.path.exists(cli):
		r = subprocess.run([npm, "install", "--no-audit", "--no-fund", "--no-save", "--prefix", site.out,
							SRT_PACKAGE], capture_output=True, text=True, timeout=300, check=False)
		if r.returncode or not os.path.exists(cli):
			raise Skip(f"npm could not install {SRT_PACKAGE}")
	settings = os.path.join(site.root, "srt.json")
	with open(settings, "w", encoding="utf-8") as f:
		json.dump({"network": {"allowedDomains": [], "deniedDomains": []},
				   "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []}}, f)
	return [node, os.path.realpath(cli), "-s", settings, *command]


def firejail_argv(site, command):
	"""firejail (a setuid program) with no profile, a private /dev and /tmp, and no network."""
	return [need("firejail"), "--quiet", "--noprofile", "--net=none", "--private-dev", "--private-tmp",
			"--caps.drop=all",
			"--nonewprivs", "--seccomp", "--", *command]


def runsc_argv(site, command):
	"""gVisor's one-command mode: a user-space kernel, a stronger boundary than the others here."""
	return [need("runsc"), "--rootless", "--network=none", "do", *command]


def engine_argv(site, command, name):
	"""docker or podman, on an image made of the one static program (nothing is pulled)."""
	engine = need(name)
	if site.call([engine, "info"]).returncode:
		raise Skip(f"{name}: no working engine")
	context = os.path.join(site.root, "image")
	os.makedirs(context, exist_ok=True)
	shutil.copy(site.program, os.path.join(context, "program"))
	with open(os.path.join(context, "Dockerfile"), "w", encoding="utf-8") as f:
		f.write("FROM scratch\nCOPY program /program\n")
	if site.call([engine, "build", "-q", "-t", "croft-bench", context]).returncode:
		raise Skip(f"{name}: cannot build the image")
	return [engine, "run", "--rm", "--network=none", "-v", f"{site.workspace}:{site.workspace}", "-w",
			site.workspace, "croft-bench", "/program"]


def version(site, argv):
	try:
		r = site.call(argv, timeout=30)
	except (OSError, subprocess.TimeoutExpired):
		return None
	lines = (r.stdout + r.stderr).strip().splitlines()
	return lines[0] if lines else None


def trial(site, name, make, command):
	"""argv of a rival that was seen to work, or Skip."""
	argv = make(site, command)
	try:
		r = site.call(argv)
	except subprocess.TimeoutExpired:
		raise Skip(f"{name} did not finish in two minutes") from None
	except OSError as e:
		raise Skip(f"{name}: {e.strerror}") from None
	if r.returncode:
		lines = (r.stderr or r.stdout).strip().splitlines()
		raise Skip(f"{name} exited {r.returncode}: {lines[-1][:160] if lines else 'no message'}")
	return argv


RIVALS = {
	"plain": lambda s, c: list(c),
	"croft namespace": lambda s, c: croft_argv(s, c, "--tier", "namespace"),
	"croft process": lambda s, c: croft_argv(s, c, "--tier", "process"),
	"croft staged": staged_argv,
	"croft run": typed_argv,
	"croft run --direct": lambda s, c: typed_argv(s, c, "--direct"),
	"bare bwrap": bare_bwrap_argv,
	"bwrap": bwrap_argv,
	"firejail": firejail_argv,
	"srt": srt_argv,
	"runsc do": runsc_argv,
	"docker run": lambda s, c: engine_argv(s, c, "docker"),
	"podman run": lambda s, c: engine_argv(s, c, "podman"),
}
