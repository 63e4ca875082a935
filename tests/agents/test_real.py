#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 3000
# serial
"""Real coding agents, as npm installs them, through `croft agent` against a model server: each mends one file, runs
a check and commits, with its own tools. Its key is put in on the way. `make test-agents`; never part of `make test`."""
import json
import os
import pwd
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "net"))
sys.dont_write_bytecode = True

import model  # noqa: E402
import place  # noqa: E402
import sites  # noqa: E402
from harness import Fail, Skip, case, check  # noqa: E402
from world import PYTHON, World  # noqa: E402

CACHE = os.environ.get("CROFT_TEST_AGENTS") or "/var/tmp/croft-agents"
BIN = os.path.join(CACHE, "node_modules", ".bin")
AGENTS = os.path.join(os.path.dirname(os.path.dirname(HERE)), "share", "croft", "agents")
KEY = "sk-test-0123456789abcdefghijklmnop"
RUN_MAX_S = 400
TASK = "please " + model.MARK + " in %s"
HOSTS = ("api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com", "models.dev", "models.opencode.ai",
         "platform.claude.com", "chatgpt.com")


class Real:
    """How one agent is asked to do a task and go, and what its installation left in the home directory."""

    def __init__(self, words, env, home):
        self.words, self.env, self.home = words, env, home


REAL = {
    "claude": Real(["-p", TASK, "--dangerously-skip-permissions"], {"ANTHROPIC_API_KEY": KEY},
                   {".claude/settings.json": "{}\n", ".claude.json": '{"hasCompletedOnboarding": true}\n'}),
    "codex": Real(["exec", "--skip-git-repo-check", TASK], {"CODEX_API_KEY": KEY},
                  {".codex/config.toml": 'model_reasoning_effort = "low"\n'}),
    "gemini": Real(["--yolo", "--skip-trust", "-p", TASK], {"GEMINI_API_KEY": KEY},
                   {".gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}}}\n'}),
    "opencode": Real(["run", "-m", "anthropic/claude-sonnet-4-5", TASK], {"ANTHROPIC_API_KEY": KEY},
                     {".config/opencode/opencode.json": '{"$schema": "https://opencode.ai/config.json"}\n'}),
    "copilot": Real(["--allow-all-tools", "-p", TASK], {
        "COPILOT_PROVIDER_API_KEY": KEY, "COPILOT_PROVIDER_BASE_URL": "https://api.openai.com/v1", "COPILOT_MODEL": "gpt-4.1",
        "COPILOT_OFFLINE": "true"}, {".copilot/config.json": "{}\n"}),
    "qwen": Real(["--yolo", "-p", TASK], {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "https://api.openai.com/v1",
                                          "OPENAI_MODEL": "qwen3-coder-plus"},
                 {".qwen/settings.json": '{"security": {"auth": {"selectedType": "openai"}}}\n'}),
}


class AgentWorld(World):
    """The world, in which the model's hosts are one server of ours."""

    def _start_model(self):
        self.model_log = os.path.join(self.dir, "model.log")
        self.spawn_ready([PYTHON, os.path.join(HERE, "model.py"), sites.RAW, "443", self.model_log, *self.good])

    def asked(self):
        """What the model was asked since the last forget()."""
        if not os.path.exists(self.model_log):
            return []
        return [json.loads(line) for line in self._since(self.model_log).splitlines()]

    def forget(self):
        super().forget()
        if os.path.exists(self.model_log):
            self.marks[self.model_log] = os.path.getsize(self.model_log)


def git(p, *words):
    r = p.plain("git", *words)
    check(r.rc == 0, r)
    return r.out


def project(p):
    p.write("greet.sh", "#!/bin/sh\n%s\n" % model.WRONG)
    p.write("check.sh", "#!/bin/sh\n[ \"$(sh greet.sh)\" = \"hello, world\" ] && echo passed\n")
    git(p, "init", "-q", ".")
    git(p, "config", "user.name", "Ann")
    git(p, "config", "user.email", "ann@example.com")
    git(p, "add", "greet.sh", "check.sh")
    git(p, "commit", "-q", "-m", "start")


def agent(p, name, *options, words=None, **kw):
    """(result, receipt) of croft agent, for the task unless other words are given."""
    real = REAL[name]
    if not os.path.exists(os.path.join(BIN, name)):
        raise Skip("%s is not installed in %s; tools/deps agents" % (name, CACHE))
    env = {k: v for k, v in p.env.items() if k not in ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO")}
    env.update(real.env, PATH=BIN + ":" + env["PATH"], TERM="xterm-256color")
    receipt = os.path.join(p.dir, "receipt.json")
    words = [w % p.work if w == TASK else w for w in (real.words if words is None else words)]
    argv = [place.harness.croft, "agent", "--tier", p.tier, "--json", receipt, "--set", "network.trust=" + place.world.ca,
            "--set", "network.dns=" + sites.DNS, *options, name, *words]
    child = subprocess.Popen(argv, env=env, cwd=p.work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, **p.user.drop(), **kw)
    place.started.append(child)
    result = p.finish(child, RUN_MAX_S)
    if not os.path.exists(receipt):
        raise Fail("no receipt: %s" % result)
    with open(receipt, encoding="utf-8") as f:
        return result, json.load(f)


def known(p, name):
    r = p.croft("agent", "add", os.path.join(AGENTS, name + ".yaml"))
    check(r.rc == 0, r)


def does_the_task(p, name):
    place.signal.alarm(RUN_MAX_S + 100)
    if p.tier == "process" and name == "qwen" and p.user.uid not in {u.pw_uid for u in pwd.getpwall()}:
        raise Skip("it asks for the name of a user who has none")
    known(p, name)
    project(p)
    for path, content in REAL[name].home.items():
        p.write(os.path.join(p.home, path), content)
    # In the world of a plain user nobody owns git, so croft does not take it, and nothing can be recorded.
    r, receipt = agent(p, name, *(["--direct"] if place.world.rootless and p.tier == "namespace" else []))
    if os.environ.get("CROFT_TEST_SHOW"):
        print("#", r.out[-3000:].replace("\n", "\n# "), "\n#", r.err[-3000:].replace("\n", "\n# "))
        print("#", json.dumps(receipt["network"]["hosts"])[:1500], [(d.get("host") or d["path"]) for d in receipt["denials"]])
    check(r.rc == 0 and model.DONE in r.out, r)
    asked = [a for a in place.world.asked() if a.get("tools")]
    keys = {v for a in asked for k, v in a["headers"].items() if k in ("authorization", "x-api-key", "x-goog-api-key")}
    check(keys and keys <= {KEY, "Bearer " + KEY}, "the key that came with the requests: %s" % keys)
    if "changes are staged as" in r.err:
        check(model.WRONG in p.read("greet.sh"), "the project was changed before it was reviewed")
        r = p.croft("diff", name)
        check("+" + model.RIGHT in r.out, r)
        r = p.croft("apply", name)
        check(r.rc == 0, r)
    check(model.RIGHT in p.read("greet.sh"), "the work did not land: %s" % r)
    for path, content in REAL[name].home.items():
        check(p.read(os.path.join(p.home, path)) == content, "%s was changed" % path)
    left = {n for n in os.listdir(p.home) if n not in (".config", ".npm")} - {path.split("/")[0] for path in REAL[name].home}
    check(not left, "left in the home directory: %s" % left)


for _name in REAL:
    case(_name, place.BOTH)(lambda p, name=_name: does_the_task(p, name))


if __name__ == "__main__":
    for _host in HOSTS:
        sites.NAMES[_host] = (sites.RAW,)
    sites.CERTIFIED.extend(HOSTS)
    place.World = AgentWorld
    place.main(("model", "dns"))
