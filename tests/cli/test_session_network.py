#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""The network of a session: rules, questions, and rules that are changed while it is up."""
import http.server
import json
import os
import shutil
import threading

import envs
import sessions
from harness import CROFT, Skip, check, contains, equal, fuse, lacks, main, need, test, text, wait_for

GATEWAY = os.path.join(os.path.dirname(os.path.realpath(CROFT)), "croft-gateway")
# Says what came of one request to a port of the host.
ASK = 'curl -sS -o /tmp/answer -w "%{http_code}\\n" http://host.croft.internal:PORT/ 2>&1 || true'


def server():
	"""On this machine's loopback: what the sandbox reaches only through the gateway."""
	class H(http.server.BaseHTTPRequestHandler):
		def do_GET(self):
			self.send_response(200)
			self.end_headers()
			self.wfile.write(b"from the host\n")

		def log_message(self, *_):
			pass
	s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), H)
	threading.Thread(target=s.serve_forever, daemon=True).start()
	return s


def need_gateway():
	need("curl")
	if not os.access(GATEWAY, os.X_OK):
		raise Skip("croft-gateway is not built")


def request(p, port, **kw):
	return sessions.sh(p, ASK.replace("PORT", str(port)), **kw)


def policy(p, name, rules):
	return p.write(os.path.join(p.home, name), "version: 1\n" + rules)


@test
def test_rules_are_changed_while_it_is_up(p):
	need_gateway()
	s = server()
	port = s.server_address[1]
	open_, closed = policy(p, "open.yaml", f"network:\n  host-ports: [{port}]\n"), policy(p, "closed.yaml", "network:\n  host-ports: [1]\n")
	with sessions.up(p, "fix", "--host-port", str(port)):
		equal(request(p, port), "200\n", "with its rules")
		stays = sessions.detach(p, "sleep", "100001")
		p.croft("policy", "set", "fix", closed).exits(0)
		lacks(request(p, port), "200", "after they were taken away")
		p.croft("policy", "set", "fix", open_).exits(0)
		equal(request(p, port), "200\n", "after they were given back")
		equal(sessions.process(p, stays)["state"], "running", "what ran meanwhile")
		p.croft("policy", "set", "nope", open_).exits(125).one_sentence()
		r = p.croft("exec", "--host-port", "1", "fix", "--", "true").exits(126)
		contains(r.one_sentence(), "croft down fix", "another port with exec")
		p.croft("exec", "-q", "--host-port", str(port), "fix", "--", "true").exits(0)
		p.croft("down", "-q", "fix").exits(0)
	s.shutdown()
	envs.verify(p, "fix")


@test
def test_without_rules_nothing_is_reached(p):
	need_gateway()
	s = server()
	with sessions.up(p):
		lacks(request(p, s.server_address[1]), "200", "without rules")
		r = p.croft("policy", "set", "fix", policy(p, "open.yaml", f"network:\n  host-ports: [{s.server_address[1]}]\n"))
		contains(r.exits(126).one_sentence(), "without network rules", "why rules cannot come later")
	s.shutdown()


@test
def test_questions_wait_for_an_answer(p):
	need_gateway()
	with sessions.up(p, "fix", "--set", "network.default=ask", "--set", "network.ask-timeout=60s"):
		c = p.start("exec", "-q", "fix", "--", "sh", "-c", "curl -sS -m 50 http://asked.example/ >/dev/null 2>&1; echo done")
		wait_for(lambda: json.loads(p.croft("pending", "--json").exits(0).out), "a question")
		ask = json.loads(p.croft("pending", "--json").out)[0]
		contains(ask["host"], "asked.example", "what is asked")
		p.croft("deny", ask["id"]).exits(0)
		out, _ = c.communicate(timeout=60)
		equal(out, b"done\n", "it goes on")


def refused(r):
	return {(d.get("host") or d["path"]): d for d in r.denials()}


def exec_(p, script, **kw):
	file = os.path.join(p.root, "receipt.json")
	r = p.croft("exec", "--json", file, "fix", "--", "sh", "-c", script, **kw)
	with open(file, encoding="utf-8") as f:
		r.receipt = json.load(f)
	return r


@test
def test_a_receipt_has_what_the_network_refused_meanwhile(p):
	"""Each time it is refused, with a gateway and without one; who shares the sandbox is told so."""
	need_gateway()
	ask = "curl -sS -m 20 https://refused.example/ 2>&1; true"
	for options in ((), ("--allow-host", "other.example")):
		with sessions.up(p, "fix", *options):
			for _ in range(2):
				r = exec_(p, ask)
				contains(text(r.err), "refused.example", "the summary")
				d = refused(r)["refused.example"]
				check("shared" not in d and d["count"] >= 1, "its own denial", d)
			equal(refused(exec_(p, "true")), {}, "the denials of a command that asks nothing (the control)")
			sessions.detach(p, "sleep", "100003")
			r = exec_(p, ask)
			contains(text(r.err), "by this or another command", "the summary")
			check(refused(r)["refused.example"]["shared"], "who it was is not known", r.receipt["denials"])
			p.croft("down", "-q", "fix").exits(0)
		p.croft("rm", "--force", "fix").exits(0)
		shutil.rmtree(p.ws)


@test
def test_a_receipt_has_what_was_denied_beside_another_command(p):
	if not fuse():
		raise Skip("without FUSE only the end of a session tells who followed a trap")
	with sessions.up(p):
		secret = os.path.join(p.home, ".ssh/id_ed25519")
		d = refused(exec_(p, f"cat {secret}; true"))[secret]
		check("shared" not in d, "its own denial", d)
		sessions.detach(p, "sleep", "100004")
		d = refused(exec_(p, f"cat {secret}; true"))[secret]
		check(d.get("shared"), "a denial that may be another's", d)
		equal(refused(exec_(p, "true")), {}, "the denials of a command that reads nothing (the control)")


main()
