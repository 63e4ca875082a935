#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the gateway costs: bulk bytes, inspected requests, latency, start-up, memory, many connections.

Everything runs in a network of its own (tests/net/world.py): a host namespace, where croft and its rivals run, and
servers outside, joined by one veth pair. Proxies are held to one core, clients and servers to another, whoever they are.
Runs are interleaved and reported as ratios. The script moves into new namespaces, so others run it as a child: measure().
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "tests", "net"), os.path.join(HERE, "..", "tests", "escape")]
sys.dont_write_bytecode = True

import memory  # noqa: E402
import rivals  # noqa: E402
import stats  # noqa: E402

OUT = os.path.join(HERE, "out")
PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
SERVER = "tcp.example.com"
SINK, ECHO, SOURCE = 9001, 9002, 9003
HAPROXY_SINK, HAPROXY_SOURCE, NGINX_PORT, MITM_PORT = 9101, 9103, 9443, 9444
ANSWERS, LATENCY_PORT = 9004, 9445
CORES = sorted(os.sched_getaffinity(0))
PROXY_CORE, LOAD_CORE = {CORES[0]}, {CORES[-1]}
MIB = 1 << 20


def say(text=""):
	print(text, flush=True)


def progress(text):
	if sys.stderr.isatty():
		print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def pin(pid, cores):
	try:
		os.sched_setaffinity(pid, cores)
	except OSError:
		pass  # ended meanwhile, or not ours: the measurement shows it


def status_kib(pid, key):
	with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
		for line in f:
			if line.startswith(key + ":"):
				return int(line.split()[1])
	return None


def gateways(root):
	"""Gateway processes below a croft, the one that meets the sandbox first."""
	found = []
	for pid in memory.tree(root):
		try:
			with open(f"/proc/{pid}/cmdline", "rb") as f:
				words = f.read().split(b"\0")
		except OSError:
			continue
		if words and os.path.basename(words[0]) == b"croft-gateway":
			found.append((b"--keeper" in words, pid))
	return [pid for _, pid in sorted(found)]


class Bench:
	"""One world, one workspace, and how to start a command in each way that is compared."""

	def __init__(self, world, site, quick):
		self.world, self.site, self.quick = world, site, quick
		self.skipped, self.children = {}, []

	def policy(self, name, allow):
		path = os.path.join(self.site.root, name + ".yaml")
		with open(path, "w", encoding="utf-8") as f:
			f.write("version: 1\nnetwork: " + json.dumps(
				{"allow": allow, "dns": [self.sites.DNS], "trust": [self.world.ca]}) + "\n")
		return path

	def croft(self, policy, *command, tier="namespace"):
		return [self.site.croft, "run", "--direct", "--json", "/dev/null", "--tier", tier, "--policy", policy,
				"--", *command]

	def spawn_proxy(self, argv, port, **kw):
		"""A rival's proxy in the host namespace, on the proxies' core."""
		child = self.world.spawn(["taskset", "-c", str(min(PROXY_CORE)), *argv], outside=False, stdout=subprocess.DEVNULL,
								 stderr=subprocess.DEVNULL, **kw)
		self.world.wait_port("127.0.0.1", port, child)
		return child


class Client:
	"""net/client.py under something, told what to do line by line."""

	def __init__(self, bench, name, argv, env=None):
		self.name = name
		command = ["taskset", "-c", str(min(LOAD_CORE)), *argv]
		self.child = subprocess.Popen(command, cwd=bench.site.workspace, env={**bench.site.env, **(env or {})},
									  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
		if self.child.stdout.readline() != b"ready\n":
			error = self.child.stderr.read().decode("utf-8", "replace").strip()
			self.close()
			raise rivals.Skip(f"{name} does not start: {error[-200:]}")

	def ask(self, *words):
		self.child.stdin.write((" ".join(map(str, words)) + "\n").encode())
		self.child.stdin.flush()
		line = self.child.stdout.readline().decode().strip()
		if not line.isdigit():
			raise rivals.Skip(f"{self.name}: {line or 'ended'}")
		return int(line)

	def pin_gateway(self):
		"""After the first connection: the gateway runs where the other proxies do."""
		for pid in gateways(self.child.pid):
			pin(pid, PROXY_CORE)

	def close(self):
		for f in (self.child.stdin, self.child.stdout, self.child.stderr):
			try:
				f.close()
			except OSError:
				pass
		try:
			self.child.wait(30)
		except subprocess.TimeoutExpired:
			self.child.kill()
			self.child.wait()


# ---- (a) bulk ----

HAPROXY = """global
  maxconn 4096
  nbthread 1
defaults
  mode tcp
  timeout connect 10s
  timeout client 300s
  timeout server 300s
  option splice-auto
listen sink
  bind 127.0.0.1:{sink}
  server s {address}:9001
listen source
  bind 127.0.0.1:{source}
  server s {address}:9003
"""


def srt_client(bench):
	argv = rivals.srt_argv(bench.site, [PYTHON, bench.client])
	settings = os.path.join(bench.site.root, "srt.json")
	with open(settings, "w", encoding="utf-8") as f:
		json.dump({"network": {"allowedDomains": [SERVER], "deniedDomains": []},
				   "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []}}, f)
	return Client(bench, "srt", argv)


def bulk_clients(bench):
	"""name -> (client, sink address, source address)."""
	far = ((SERVER, SINK), (SERVER, SOURCE))
	found = {"plain": (Client(bench, "plain", [PYTHON, bench.client]), *far)}

	def add(name, make, *where):
		try:
			client = make()
			client.ask("send", *where[0], 1)
			found[name] = (client, *where)
		except (rivals.Skip, OSError) as e:
			bench.skipped["bulk: " + name] = str(e)

	rule = bench.policy("tcp", [{"host": SERVER, "ports": [SINK, ECHO, SOURCE], "mode": "tcp"}])
	for tier in ("namespace", "process"):
		add("croft " + tier, lambda t=tier: Client(bench, "croft " + t, bench.croft(rule, PYTHON, bench.client, tier=t)), *far)
	if shutil.which("haproxy", path=bench.site.env["PATH"]):
		conf = os.path.join(bench.site.root, "haproxy.cfg")
		with open(conf, "w", encoding="ascii") as f:
			f.write(HAPROXY.format(sink=HAPROXY_SINK, source=HAPROXY_SOURCE, address=bench.sites.TCP))
		bench.spawn_proxy(["haproxy", "-db", "-f", conf], HAPROXY_SINK)
		add("haproxy", lambda: Client(bench, "haproxy", [PYTHON, bench.client]), ("127.0.0.1", HAPROXY_SINK),
			("127.0.0.1", HAPROXY_SOURCE))
	else:
		bench.skipped["bulk: haproxy"] = "haproxy is not installed"
	add("srt", lambda: srt_client(bench), *far)
	return found


def bulk_rounds(bench, clients, direction, size, rounds):
	rates = {n: [] for n in clients}
	for i in range(rounds):
		order = list(rates)
		for name in order[i % len(order):] + order[:i % len(order)]:
			client, sink, source = clients[name]
			progress(f"bulk {direction}: {name}, {i + 1}/{rounds}")
			part = size // 8 if name == "srt" else size
			try:
				ns = client.ask(direction, *(sink if direction == "send" else source), part)
			except rivals.Skip as e:
				bench.skipped[f"bulk {direction}: {name}"] = str(e)
				del rates[name]
				continue
			rates[name].append(part * 1e9 / ns / MIB)
	ours = rates.get("croft namespace")
	return {"mib_per_s": {n: stats.summary(v) for n, v in rates.items()},
			"ratio": {f"croft namespace / {n}": stats.paired_ratio(ours, v) for n, v in rates.items()
					  if ours and n != "croft namespace"}}


def measure_bulk(bench):
	size = (128 if bench.quick else 1024) * MIB
	rounds = 3 if bench.quick else 9
	clients = bulk_clients(bench)
	results = {}
	try:
		for client, *_ in clients.values():
			client.pin_gateway()
		for direction in ("send", "fetch"):
			results[direction] = bulk_rounds(bench, clients, direction, size, rounds)
	finally:
		for client, *_ in clients.values():
			client.close()
	return results


# ---- (b) inspected requests ----

REENCRYPT = """daemon off; master_process off; pid {dir}/re.pid; error_log {dir}/re.err;
events {{ worker_connections 4096; }}
http {{ access_log off; client_body_temp_path {dir}/rb; proxy_temp_path {dir}/rp; fastcgi_temp_path {dir}/rf;
  uwsgi_temp_path {dir}/ru; scgi_temp_path {dir}/rs; keepalive_requests 10000000;
  upstream far {{ server {address}:443; keepalive 128; keepalive_requests 10000000; }}
  server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {cert}; ssl_certificate_key {key};
    location / {{ proxy_pass https://far; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header Host www.example.com; proxy_ssl_server_name on; proxy_ssl_name www.example.com;
      proxy_ssl_verify on; proxy_ssl_trusted_certificate {ca}; }} }} }}
"""


def wrk(url, seconds, connections):
	return ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-H", "Host: www.example.com", url]


def parse_wrk(text):
	rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
	if not rate or not float(rate.group(1)) or "Non-2xx" in text or re.search(r"Socket errors: (?!connect 0, read 0, write 0, timeout 0)", text):
		raise rivals.Skip("wrk: " + (text.strip().splitlines() or ["no output"])[-1])
	units = {"us": 1, "ms": 1000, "s": 1e6}
	latency = {f"p{p}": float(v) * units[u] for p, v, u in re.findall(r"^\s+(50|90|99)%\s+([\d.]+)(us|ms|s)$", text, re.M)}
	return float(rate.group(1)), latency


def pin_when_there(child):
	"""The gateway is started by the first connection: wait for it, then hold it to the proxies' core."""
	end = time.monotonic() + 10
	while child.poll() is None and time.monotonic() < end:
		found = gateways(child.pid)
		if found:
			for pid in found:
				pin(pid, PROXY_CORE)
			return
		time.sleep(0.005)


def run_wrk(bench, argv, is_croft):
	child = subprocess.Popen(["taskset", "-c", str(min(LOAD_CORE)), *argv], cwd=bench.site.workspace, env=bench.site.env,
							 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
	if is_croft:
		pin_when_there(child)
	out, err = child.communicate(timeout=120)
	if child.returncode:
		raise rivals.Skip(f"exit {child.returncode}: {(err.strip().splitlines() or ['?'])[-1][:200]}")
	return parse_wrk(out)


def start_rivals(bench):
	"""Proxies that terminate TLS and encrypt again, with the upstream verified, as the gateway does."""
	path = bench.site.env["PATH"]
	urls = {}
	conf = os.path.join(bench.site.root, "re.conf")
	with open(conf, "w", encoding="ascii") as f:
		f.write(REENCRYPT.format(dir=bench.site.root, address=bench.sites.NGINX, port=NGINX_PORT, cert=bench.world.good[0],
								 key=bench.world.good[1], ca=bench.world.ca))
	bench.spawn_proxy([shutil.which("nginx", path=path), "-p", bench.site.root, "-c", conf, "-e", conf + ".err"], NGINX_PORT)
	urls["nginx"] = f"https://127.0.0.1:{NGINX_PORT}/hello"
	mitm = shutil.which("mitmdump", path=path)
	if mitm:
		bench.spawn_proxy([mitm, "-q", "--mode", f"reverse:https://{bench.sites.NGINX}:443/", "-p", str(MITM_PORT), "--set",
						   f"confdir={bench.site.root}/mitm", "--set", f"ssl_verify_upstream_trusted_ca={bench.world.ca}",
						   "--set", "keep_host_header=true"], MITM_PORT)
		urls["mitmproxy"] = f"https://127.0.0.1:{MITM_PORT}/hello"
	else:
		bench.skipped["requests: mitmproxy"] = "mitmdump is not installed"
	return urls


def measure_requests(bench):
	if not shutil.which("wrk", path=bench.site.env["PATH"]):
		bench.skipped["requests"] = "wrk is not installed"
		return {}
	if "nginx" in bench.world.missing:
		bench.skipped["requests"] = bench.world.missing["nginx"]
		return {}
	seconds, rounds, connections = (2, 2, 32) if bench.quick else (3, 7, 32)
	rule = bench.policy("http", [{"host": "www.example.com", "ports": [443], "methods": ["GET"], "paths": ["/hello"]}])
	far = "https://www.example.com/hello"
	variants = {"plain": (wrk(far, seconds, connections), False),
				"croft namespace": (bench.croft(rule, *wrk(far, seconds, connections)), True)}
	for name, url in start_rivals(bench).items():
		variants[name] = (wrk(url, seconds, connections), False)
		subprocess.run(wrk(url, 2, connections), stdout=subprocess.DEVNULL, check=False)  # certificates, connections
	rates, latency = {}, {}
	for i in range(rounds):
		order = [n for n in variants if "requests: " + n not in bench.skipped]
		for name in order[i % len(order):] + order[:i % len(order)]:
			progress(f"requests: {name}, {i + 1}/{rounds}")
			try:
				rate, lat = run_wrk(bench, *variants[name])
			except rivals.Skip as e:
				bench.skipped["requests: " + name] = str(e)
				rates.pop(name, None)
				continue
			rates.setdefault(name, []).append(rate)
			for key, value in lat.items():
				latency.setdefault(name, {}).setdefault(key, []).append(value)
	ours = rates.get("croft namespace", [])
	return {"connections": connections, "per_second": {n: stats.summary(v) for n, v in rates.items()},
			"latency_us": {n: {k: stats.percentile(v, 50) for k, v in d.items()} for n, d in latency.items()},
			"ratio": {f"croft namespace / {n}": stats.paired_ratio(ours, v) for n, v in rates.items()
					  if ours and n != "croft namespace" and len(v) == len(ours)}}


# ---- latency: what one client waits for ----

LATENCY_NGINX = """daemon off; master_process off; worker_processes 1; pid {dir}/lat.pid; error_log {dir}/lat.err;
events {{ worker_connections 512; }}
http {{ access_log off; client_body_temp_path {dir}/lb; proxy_temp_path {dir}/lp; fastcgi_temp_path {dir}/lf; uwsgi_temp_path {dir}/lu;
  scgi_temp_path {dir}/ls; ssl_certificate {cert}; ssl_certificate_key {key};
  map $http_upgrade $way {{ default upgrade; "" ""; }}
  upstream far {{ server {address}:{far}; keepalive 16; }}
  server {{ listen 127.0.0.1:{port} ssl;
    location / {{ proxy_pass https://far; proxy_http_version 1.1; proxy_buffering off; proxy_set_header Host tcp.example.com;
      proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $way; proxy_ssl_verify on; proxy_ssl_trusted_certificate {ca};
      proxy_ssl_name tcp.example.com; proxy_ssl_server_name on; }} }} }}
"""


def measure_latency(bench):
	"""Waiting times of one client at a time: direct, through the gateway, through nginx. The rest of the machine is idle."""
	count, rounds = (30, 2) if bench.quick else (300, 5)
	waits = shutil.copy(os.path.join(HERE, "net", "waits.py"), bench.site.workspace)
	bench.world.spawn_ready([PYTHON, os.path.join(HERE, "net", "answers.py"), bench.sites.TCP, str(ANSWERS), *bench.world.good])
	rule = bench.policy("latency", [{"host": SERVER, "ports": [ANSWERS], "mode": "ws"}])
	command = [PYTHON, waits, SERVER, str(ANSWERS), str(count)]
	variants = {"plain": command, "croft namespace": bench.croft(rule, *command)}
	nginx = shutil.which("nginx", path=bench.site.env["PATH"] + ":/usr/sbin")
	if nginx:
		conf = os.path.join(bench.site.root, "latency.conf")
		with open(conf, "w", encoding="ascii") as f:
			f.write(LATENCY_NGINX.format(dir=bench.site.root, address=bench.sites.TCP, far=ANSWERS, port=LATENCY_PORT,
				cert=bench.world.good[0], key=bench.world.good[1], ca=bench.world.ca))
		bench.spawn_proxy([nginx, "-p", bench.site.root, "-c", conf, "-e", conf + ".err"], LATENCY_PORT)
		variants["nginx"] = [PYTHON, waits, "127.0.0.1", str(LATENCY_PORT), str(count)]
	else:
		bench.skipped["latency: nginx"] = "nginx is not installed"
	found = {}
	for i in range(rounds):
		order = list(variants)
		for name in order[i % len(order):] + order[:i % len(order)]:
			progress(f"latency: {name}, {i + 1}/{rounds}")
			r = subprocess.run(["taskset", "-c", str(min(LOAD_CORE)), *variants[name]], cwd=bench.site.workspace, env=bench.site.env,
				capture_output=True, check=False, timeout=300)
			if r.returncode:
				raise rivals.Skip(f"{name}: {r.stderr.decode('utf-8', 'replace').strip()[-200:]}")
			for kind, values in json.loads(r.stdout).items():
				found.setdefault(kind, {}).setdefault(name, []).extend(values)
	return {kind: {name: {"p50": stats.percentile(v, 50), "p99": stats.percentile(v, 99), "n": len(v)} for name, v in names.items()}
		for kind, names in found.items()}


# ---- (c) start-up ----

def timed(argv, bench):
	begun = time.monotonic_ns()
	pid = os.posix_spawn(argv[0], argv, bench.site.env, file_actions=[
		(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0), (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
		(os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0)])
	_, code = os.waitpid(pid, 0)
	if code:
		raise rivals.Skip(f"{' '.join(argv[-3:])}: status {code}")
	return time.monotonic_ns() - begun


def measure_startup(bench):
	"""A rule that is not used: what every command pays for being allowed a host."""
	rounds = 20 if bench.quick else 300
	os.chdir(bench.site.workspace)
	base = [bench.site.croft, "run", "--direct", "--json", "/dev/null", "--tier", "namespace"]
	variants = {"without": [*base, "--", bench.site.program],
				"with a rule": [*base, "--allow-host", "example.com", "--", bench.site.program]}
	times = {n: [] for n in variants}
	order = list(variants)
	for i in range(rounds + 3):
		progress(f"start-up {i}/{rounds}")
		for name in order if i % 2 else order[::-1]:
			ns = timed(variants[name], bench)
			if i >= 3:  # the first ones fill caches
				times[name].append(ns)
	more = [b - a for a, b in zip(times["without"], times["with a rule"])]
	return {"runs": {n: stats.summary(v) for n, v in times.items()}, "difference_ns": stats.summary(more),
			"ratio": stats.median_ratio(times["with a rule"], times["without"])}


# ---- (d), (e) memory ----

def measure_memory(bench):
	"""An idle gateway; then one with many connections; then one that has carried a long stream."""
	many = 500 if bench.quick else 2000
	stream = (1 if bench.quick else bench.gib) << 30
	rule = bench.policy("mem", [{"host": SERVER, "ports": [SINK, ECHO, SOURCE], "mode": "tcp"}])
	result = {}
	client = Client(bench, "croft namespace", bench.croft(rule, PYTHON, bench.client))
	try:
		client.ask("send", SERVER, SINK, 1)
		pids = gateways(client.child.pid)
		if not pids:
			raise rivals.Skip("no gateway process was found")
		result["idle"] = memory.weigh(pids[0])
		progress(f"memory: {many} connections")
		begun = time.monotonic_ns()
		result["connections"] = client.ask("hold", SERVER, ECHO, many)
		result["connections_ns"] = time.monotonic_ns() - begun
		result["holding"] = memory.weigh(pids[0])
		result["holding_peak_rss_b"] = status_kib(pids[0], "VmHWM") * 1024
		client.ask("drop")
	finally:
		client.close()
	client = Client(bench, "croft namespace", bench.croft(rule, PYTHON, bench.client))
	try:
		client.ask("send", SERVER, SINK, 1)
		pid = gateways(client.child.pid)[0]
		progress(f"memory: a stream of {stream >> 30} GiB")
		ns = client.ask("fetch", SERVER, SOURCE, stream)
		result["stream"] = {"bytes": stream, "mib_per_s": stream * 1e9 / ns / MIB, "peak_rss_b": status_kib(pid, "VmHWM") * 1024}
	finally:
		client.close()
	return result


# ---- report ----

def report(results):
	for direction, r in results.get("bulk", {}).items():
		say(f"\nOne TCP connection, {direction} (MiB/s)")
		for name, s in sorted(r["mib_per_s"].items(), key=lambda kv: -kv[1]["p50"]):
			say(f"  {name:18}{s['p50']:9.0f}  (p10 {s['p10']:.0f}, p90 {s['p90']:.0f}, {s['n']} runs)")
		for name, x in r["ratio"].items():
			say(f"  {name:36} {x['p50']:7.3f}   (p90 {x['p90']:.3f}, 95 % {x['low']:.3f}–{x['high']:.3f})")
	r = results.get("requests")
	if r:
		say(f"\nHTTPS requests per second, {r['connections']} connections, decrypted and encrypted again")
		for name, s in sorted(r["per_second"].items(), key=lambda kv: -kv[1]["p50"]):
			lat = r["latency_us"].get(name, {})
			say(f"  {name:18}{s['p50']:9.0f}  (latency p50 {lat.get('p50', 0):.0f} µs, p90 {lat.get('p90', 0):.0f}, "
				f"p99 {lat.get('p99', 0):.0f})")
		for name, x in r["ratio"].items():
			say(f"  {name:36} {x['p50']:7.3f}   (p90 {x['p90']:.3f}, 95 % {x['low']:.3f}–{x['high']:.3f})")
	for kind, names in (results.get("latency") or {}).items():
		say(f"\nLatency, {kind} (µs)")
		for name, s in names.items():
			say(f"  {name:18}{s['p50'] / 1e3:9.0f}  (p99 {s['p99'] / 1e3:.0f}, {s['n']} samples)")
	r = results.get("startup")
	if r:
		say("\nStart-up with a network rule that is not used (ms)")
		for name, s in r["runs"].items():
			say(f"  {name:18}{s['p50'] / 1e6:9.3f}  (p90 {s['p90'] / 1e6:.3f}, {s['n']} runs)")
		d = r["difference_ns"]
		say(f"  {'difference':18}{d['p50'] / 1e6:9.3f}  (p90 {d['p90'] / 1e6:.3f}); ratio {r['ratio']['p50']:.3f}")
	r = results.get("memory")
	if r:
		say("\nMemory of the gateway (KiB)")
		if r.get("idle"):
			say(f"  idle              {r['idle']['pss_b'] // 1024:9} proportional, {r['idle']['private_b'] // 1024} private")
		say(f"  {r['connections']} connections{r['holding_peak_rss_b'] // 1024:11} peak resident")
		s = r["stream"]
		say(f"  {s['bytes'] >> 30} GiB stream {s['peak_rss_b'] // 1024:12} peak resident, at {s['mib_per_s']:.0f} MiB/s")
	for name, reason in results["skipped"].items():
		say(f"\nskipped {name}: {reason}")


def bars(results):
	"""The promises about the network, as bench/run prints them: (text, value, met or None when not measured)."""
	def line(text, value, limit, at_least):
		return text, value, None if value is None else value >= limit if at_least else value <= limit

	def ratio(part, name):
		r = part.get("ratio", {}).get(f"croft namespace / {name}")
		return r and r["p50"]

	for direction, r in results.get("bulk", {}).items():
		yield line(f"bulk TCP, {direction}, croft namespace / HAProxy ≥ 1.0", ratio(r, "haproxy"), 1.0, True)
		yield line(f"bulk TCP, {direction}, croft namespace / srt ≥ 1.5", ratio(r, "srt"), 1.5, True)
	r = results.get("requests") or {}
	yield line("inspected HTTPS requests, croft namespace / mitmproxy ≥ 20", ratio(r, "mitmproxy"), 20, True)
	yield line("inspected HTTPS requests, croft namespace / nginx ≥ 0.7", ratio(r, "nginx"), 0.7, True)
	for kind, names in (results.get("latency") or {}).items():
		ours, direct = names.get("croft namespace"), names.get("plain")
		yield line(f"latency, {kind}, ms more than direct at p50 ≤ 5", ours and direct and (ours["p50"] - direct["p50"]) / 1e6, 5, False)
	d = (results.get("startup") or {}).get("difference_ns")
	yield line("start-up with network rules, ms more ≤ 0.5", d and d["p50"] / 1e6, 0.5, False)
	idle = (results.get("memory") or {}).get("idle")
	yield line("idle gateway, MiB proportional ≤ 4", idle and idle["pss_b"] / 2**20, 4, False)


def parse():
	p = argparse.ArgumentParser(prog="bench/net.py", description=__doc__.splitlines()[0])
	p.add_argument("--quick", action="store_true", help="few runs: does everything work, not how fast")
	p.add_argument("--only", default="bulk,requests,latency,startup,memory", help="comma-separated measures")
	p.add_argument("--gib", type=int, default=10, help="length of the stream whose memory is watched")
	p.add_argument("--json", metavar="FILE", help="write the results here, too")
	return p.parse_args()


def run(options, site, world, sites):
	bench = Bench(world, site, options.quick)
	bench.sites, bench.gib = sites, options.gib
	bench.client = shutil.copy(os.path.join(HERE, "net", "client.py"), site.workspace)
	peer = world.spawn_ready([PYTHON, os.path.join(HERE, "net", "peer.py"), sites.TCP])
	for child in [peer, *world.children]:
		pin(child.pid, LOAD_CORE)
	results = {"schema": 1, "quick": options.quick, "skipped": bench.skipped}
	measures = {"startup": measure_startup, "bulk": measure_bulk, "requests": measure_requests, "latency": measure_latency, "memory": measure_memory}
	for name, function in measures.items():
		if name in options.only.split(","):
			try:
				results[name] = function(bench)
			except rivals.Skip as e:
				bench.skipped[name] = str(e)
	progress("")
	return results


def measure(site, options, skipped):
	"""For bench/run: the results as a dict, from a child that may leave our namespaces. Prints its own report."""
	path = os.path.join(site.root, "net.json")
	argv = [sys.executable, os.path.abspath(__file__), "--json", path] + (["--quick"] if options.quick else [])
	r = subprocess.run(argv, env={**os.environ, "CROFT": site.croft}, check=False)
	if r.returncode or not os.path.exists(path):
		skipped["net"] = f"exit {r.returncode}"
		return {}
	with open(path, encoding="utf-8") as f:
		return json.load(f)


def main():
	import sites
	import world as worlds
	options = parse()
	croft = os.path.abspath(os.environ.get("CROFT") or os.path.join(HERE, "..", "build", "croft"))
	if not os.access(croft, os.X_OK):
		sys.exit(f"bench: {croft} is not there; run make first")
	signal.signal(signal.SIGTERM, lambda n, _f: sys.exit(128 + n))
	os.makedirs(OUT, exist_ok=True)
	cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
	os.makedirs(cache, exist_ok=True)
	root = tempfile.mkdtemp(prefix="croft-bench-", dir=cache)
	world = worlds.World(("nginx", "app", "dns"))
	try:
		os.chmod(root, 0o755)
		for name in ("home", "ws"):
			os.mkdir(os.path.join(root, name))
		site = rivals.Site(croft, root, OUT, os.path.join(root, "ws", "trivial"))
		compiler = ["musl-gcc", "-static"] if shutil.which("musl-gcc") else ["cc", "-static"]
		subprocess.run([*compiler, "-O2", "-o", site.program, os.path.join(HERE, "trivial.c")], check=True)
		world.start()
		results = run(options, site, world, sites)
	except worlds.Unavailable as e:
		print(f"bench: {e}", file=sys.stderr)
		return 1
	finally:
		world.stop()
		shutil.rmtree(root, ignore_errors=True)
	report(results)
	if options.json:
		with open(options.json, "w", encoding="utf-8") as f:
			json.dump(results, f, indent=1)
			f.write("\n")
	return 0


if __name__ == "__main__":
	sys.exit(main())
