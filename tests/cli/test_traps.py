#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check
# quick
# forced: landlock
"""Denied reads are told where there is no FUSE (containers, /dev/fuse for root only): traps, and with FUSE the same."""
import json
import os

from harness import FORCED, SECRET, check, contains, equal, fuse, lacks, main, native, need_tier, test, text

PROMISE = "cat ~/.ssh/id_ed25519; echo x >> ~/.bashrc; echo ok > out.txt"


def sh(p, script, *words, without_fuse=True):
	need_tier("namespace")
	forced = [*FORCED, "fuse"] if without_fuse else FORCED
	return p.sh(script, "--tier", "namespace", *words, env={"CROFT_FORCE_FAIL": ",".join(forced)})


def told(p, r):
	"""(operation, path below HOME, who saw it) of each denial."""
	return sorted((d["operation"], d["path"].replace(p.home, "~"), d["seen_by"]) for d in r.receipt["denials"])


@test
def test_promise_without_fuse(p):
	r = sh(p, PROMISE, "--observe", "writes").exits(0)
	lacks(r.out, SECRET.encode(), "stdout")
	contains(r.err, b"Permission denied")
	equal(told(p, r), [("read", "~/.ssh/id_ed25519", "trap"), ("write", "~/.bashrc", "observer")])
	equal((r.receipt["enforced"]["decoys"], r.receipt["enforced"]["traps"]), (False, True), "enforced")
	contains(r.receipt["coverage"]["reads"], "traps")
	equal(p.read("../.bashrc"), b"# mine\n", ".bashrc")
	contains(text(p.croft("why").exits(0).out), "id_ed25519")
	contains(native(p, "sh", "-c", "cat ~/.ssh/id_ed25519").stdout, SECRET.encode(), "control")


@test
def test_by_default_a_start_up_file_is_refused_and_not_told(p):
	"""Nobody waits for a watcher, and a trap cannot tell writing such a file from reading it. The receipt says so."""
	r = sh(p, PROMISE).exits(0)
	equal(told(p, r), [("read", "~/.ssh/id_ed25519", "trap")])
	contains(r.receipt["coverage"]["writes"], "start-up files are not told")
	equal(p.read("../.bashrc"), b"# mine\n", ".bashrc")
	equal(told(p, sh(p, "echo x > ~/.ssh/id_ed25519; true").exits(0)), [("read", "~/.ssh/id_ed25519", "trap")], "a secret is")


@test
def test_same_paths_with_fuse(p):
	r = sh(p, PROMISE, "--observe", "writes", without_fuse=False).exits(0)
	equal([t[:2] for t in told(p, r)], [("read", "~/.ssh/id_ed25519"), ("write", "~/.bashrc")])
	equal(r.receipt["enforced"]["decoys"], fuse(), "decoys serve")
	equal(r.receipt["enforced"]["traps"], not fuse(), "traps stand in for them")


@test
def test_nothing_is_told_without_an_attempt(p):
	"""Walking HOME, reading start-up files and one's own files are no attempts."""
	r = sh(p, "find ~ > /dev/null; ls -laR ~ > /dev/null; cat ~/.bashrc ~/.profile ~/.gitconfig; touch ~/own; cat ~/own; true").exits(0)
	equal(told(p, r), [], "denials")
	equal(r.out, b"", "start-up files read as empty")
	equal(told(p, sh(p, "cat ~/.netrc; true").exits(0)), [("read", "~/.netrc", "trap")], "control")


@test
def test_every_way_to_read(p):
	for way in ("head -c1 ~/.netrc", "stat -L ~/.netrc", "cp ~/.netrc own", ". ~/.netrc", "cat < ~/.netrc", "cat /proc/self/root$HOME/.netrc",
			"ln -s ~/.netrc link; cat link", "cd ~; cat .netrc"):
		r = sh(p, f"({way}); true").exits(0)
		contains(told(p, r), ("read", "~/.netrc", "trap"), way)
	for way in ("ls ~/.aws", "cd ~/.aws", "cat ~/.aws/unlisted", "ls -d ~/.aws/"):
		r = sh(p, f"({way}); true").exits(0)
		equal(told(p, r), [("look", "~/.aws", "trap")], way)
	for path in ("/etc/shadow", "/run/docker.sock"):
		r = sh(p, f"cat {path}; true").exits(0)
		contains(told(p, r), ("read", path, "trap"), path)


@test
def test_changes_below_are_told_by_name(p):
	r = sh(p, "echo > ~/.ssh/new; mkdir ~/.kube/d; ln -s x ~/.aws/l; cd ~/.docker && echo > here; true", "--observe", "writes").exits(0)
	equal({t[1] for t in told(p, r)}, {"~/.ssh/new", "~/.kube/d", "~/.aws/l", "~/.docker/here"}, "paths")
	check(all(t[2] == "observer" for t in told(p, r)), "who saw it", told(p, r))
	r = sh(p, "echo > ~/.ssh/new; mkdir ~/.kube/d; true").exits(0)
	equal(told(p, r), [("look", "~/.kube", "trap"), ("look", "~/.ssh", "trap")], "by default, the directories")


@test
def test_what_the_command_put_in_its_place_is_its_own(p):
	"""Nothing of the host's is there, so removing a decoy and making a file is no denial."""
	for without_fuse in (True, False):
		r = sh(p, "rm ~/.zshrc && echo mine > ~/.zshrc && cat ~/.zshrc; rm ~/.ssh && mkdir ~/.ssh && echo > ~/.ssh/x",
			without_fuse=without_fuse).exits(0)
		equal(r.out, b"mine\n")
		equal(told(p, r), [], "denials")
	check(not os.path.exists(p.home + "/.ssh/x"), "it is the sandbox's own")


@test
def test_traps_hold_nothing_and_cannot_be_changed(p):
	r = sh(p, "ls /.croft/trap; cat /.croft/shut/0 /.croft/trap/16; echo x > /.croft/trap/new; rm -f /.croft/trap/16; "
		"mv /.croft/trap/16 /tmp; chmod 777 /.croft/shut; cat ~/.netrc; true").exits(0)
	lacks(r.out, SECRET.encode(), "stdout")
	equal(r.out, b"", "nothing was listed or read")
	if "landlock" not in FORCED:
		contains({t[1] for t in told(p, r)}, "~/.netrc", "still told")


@test
def test_with_the_broker(p):
	"""A denied name that is not there yet makes the broker take the observer's place."""
	r = sh(p, PROMISE + "; echo > ~/.ssh/new; true", "--deny", p.ws + "/late").exits(0)
	equal(r.receipt["enforced"]["seccomp"]["broker"], True, "broker")
	found = {t[:2] for t in told(p, r)}
	for want in (("read", "~/.ssh/id_ed25519"), ("write", "~/.bashrc"), ("create", "~/.ssh/new")):
		contains(found, want, "denials")
	check(not any("/.croft" in t[1] for t in told(p, r)), "croft's own names are not shown", told(p, r))


@test
def test_with_output_in_a_file(p):
	"""A file of the host's as standard output makes a broker for metadata take the observer's place."""
	script = PROMISE + "; echo > ~/.ssh/new; mkdir ~/.ssh/dir; rm ~/.profile; echo own > ~/.profile; true"
	with open(os.path.join(p.root, "output"), "wb") as output:
		need_tier("namespace")
		r = p.croft("run", "--discard", "--observe", "writes", "--tier", "namespace", "--json", os.path.join(p.root, "receipt.json"), "--", "sh", "-c", script,
			stdout=output, env={"CROFT_FORCE_FAIL": ",".join([*FORCED, "fuse"])}).exits(0)
	r.receipt = json.loads(p.read("../../receipt.json"))
	equal(r.receipt["enforced"]["seccomp"]["metadata_broker"], True, "broker for metadata")
	equal({t[:2] for t in told(p, r)}, {("read", "~/.ssh/id_ed25519"), ("write", "~/.bashrc"), ("write", "~/.ssh/new"), ("create", "~/.ssh/dir")},
		"denials")


@test
def test_observe_off(p):
	p.write("../off.yaml", "version: 1\nobserve: off\n")
	r = sh(p, "cat ~/.ssh/id_ed25519; true", "--policy", p.home + "/off.yaml").exits(0)
	equal(r.receipt["denials"], [])
	equal((r.receipt["enforced"]["traps"], r.receipt["coverage"]["reads"]), (False, "not observed"))
	lacks(r.out, SECRET.encode(), "stdout")


if __name__ == "__main__":
	main()
