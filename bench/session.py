# SPDX-License-Identifier: Apache-2.0
"""What a session costs: commands in one that is up, by the command line and through the library, and at rest.

Recording is on in every one of them. A command is counted when its exit was told, which is after its record was
written to the session's journal. Each round of a comparison runs every variant once.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time

import memory
import rivals
import stats

REST_S = 3  # a session, its first process and its reapers give back what they can within 1.5 s
GATEWAY_REST_MS = 1000  # instead of 30 s
ENOUGH = 500  # sessions, for MemAvailable to mean something
LIBRARIES = ("yaml", "md", "hogweed", "nettle", "gmp")


class Missing(Exception):
	"""This measure cannot be made here, and why."""


def call(site, argv, check=True, env=None, timeout=120):
	r = subprocess.run(argv, cwd=site.repo, env=env or site.env, stdin=subprocess.DEVNULL, capture_output=True,
		text=True, timeout=timeout, check=False)
	if check and r.returncode:
		raise RuntimeError(f"{' '.join(argv[:4])}: {r.stderr.strip()[-400:]}")
	return r.stdout


def croft(site, *words, **kw):
	return call(site, [site.croft, *words], **kw)


# ---- docker ----

class Docker:
	"""A daemon of our own with one container that is up, made of two static programs."""

	def __init__(self, site):
		for name in ("docker", "dockerd"):
			rivals.need(name)
		if os.geteuid():
			raise Missing("only root can start dockerd")
		self.root = tempfile.mkdtemp(prefix="croft-bench-docker-")
		self.client = [rivals.need("docker"), "-H", f"unix://{self.root}/sock"]
		self.log = os.path.join(self.root, "log")
		with open(self.log, "wb") as out:
			self.daemon = subprocess.Popen([rivals.need("dockerd"), "-H", f"unix://{self.root}/sock", "--data-root",
				f"{self.root}/data", "--exec-root", f"{self.root}/exec", "-p", f"{self.root}/pid", "--bridge=none",
				"--iptables=false"], env=site.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
		try:
			self.start(site)
		except BaseException:
			self.end()
			raise

	def start(self, site):
		until = time.monotonic() + 60
		while subprocess.run([*self.client, "info"], capture_output=True, check=False).returncode:
			if self.daemon.poll() is not None or time.monotonic() > until:
				raise Missing(f"dockerd does not start: {self.last_words()}")
			time.sleep(0.2)
		image = os.path.join(self.root, "image")
		os.mkdir(image)
		for path in (site.hold, site.program):
			shutil.copy(path, image)
		tar = subprocess.run(["tar", "-C", image, "-c", "."], capture_output=True, check=True).stdout
		for argv, given in ((["import", "-", "croft-bench"], tar),
				(["run", "-d", "-i", "--name", "croft-bench", "--network=none", "croft-bench", "/hold"], b"")):
			r = subprocess.run([*self.client, *argv], input=given, capture_output=True, check=False)
			if r.returncode:
				raise Missing(f"docker {argv[0]}: {r.stderr.decode().strip()[-200:]}")

	def last_words(self):
		with open(self.log, encoding="utf-8", errors="replace") as f:
			lines = f.read().strip().splitlines()
		return lines[-1][-200:] if lines else "no message"

	def argv(self, program):
		return [*self.client, "exec", "croft-bench", "/" + os.path.basename(program)]

	def end(self):
		subprocess.run([*self.client, "rm", "-f", "croft-bench"], capture_output=True, check=False)
		self.daemon.terminate()
		try:
			self.daemon.wait(30)
		except subprocess.TimeoutExpired:
			self.daemon.kill()
			self.daemon.wait()
		shutil.rmtree(self.root, ignore_errors=True)


# ---- processes ----

def session_pid(site, name):
	return json.loads(croft(site, "ps", "--json", name))["pid"]


def cpu_s(pid):
	"""Of all its threads, so far."""
	with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
		fields = f.read().rpartition(")")[2].split()
	return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def weigh(pid):
	"""PSS of the session and of everything below it."""
	rows = []
	for one in memory.tree(pid):
		weight = memory.weigh(one)
		if weight:
			rows.append({"name": memory.comm(one), **weight})
	return {"processes": len(rows), "pss_b": sum(r["pss_b"] for r in rows), "private_b": sum(r["private_b"] for r in rows),
		"names": sorted({r["name"] for r in rows})}


def kernel_b():
	"""What the kernel itself holds, of the kinds that sandboxes are made of; files in memory are among them."""
	kinds = ("SUnreclaim", "KernelStack", "PageTables", "Percpu", "Shmem")
	with open("/proc/meminfo", encoding="ascii") as f:
		return sum(int(line.split()[1]) * 1024 for line in f if line.partition(":")[0] in kinds)


def available_b():
	"""The median of a few readings: others on the machine come and go."""
	values = []
	for _ in range(9):
		with open("/proc/meminfo", encoding="ascii") as f:
			values += [int(line.split()[1]) * 1024 for line in f if line.startswith("MemAvailable")]
		time.sleep(0.1)
	return stats.percentile(values, 50)


# ---- measures ----

def build_client(site):
	target, source = os.path.join(site.out, "session"), os.path.join(os.path.dirname(__file__), "session.c")
	top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
	build = os.path.dirname(os.path.realpath(site.croft))
	found = [p for p in (os.path.join(build, "..", "gateway", "src", "libcroft.a"), os.path.join(build, "libcroft.a"))
		if os.path.exists(p)]
	if not found:
		raise Missing("libcroft.a is not beside croft")
	r = subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-I", os.path.join(top, "include"), "-o", target, source, found[0],
		*("-l" + x for x in LIBRARIES), "-pthread"], capture_output=True, text=True, check=False)
	if r.returncode:
		raise Missing(f"the client does not compile: {r.stderr.strip().splitlines()[-1][-200:]}")
	return target


def measure_command_line(site, options, spawn, found, skipped):
	variants = {"plain": (None, [site.program]), "croft exec": (None, [site.croft, "exec", "-q", "bench-up", "--", site.program])}
	docker = None
	try:
		variants["bare bwrap"] = (None, rivals.bare_bwrap_argv(site, [site.program], site.repo))
	except rivals.Skip as e:
		skipped["bare bwrap"] = str(e)
	try:
		docker = Docker(site)
	except (Missing, rivals.Skip, OSError, subprocess.SubprocessError) as e:
		skipped["docker exec"] = str(e)
	try:
		runs = {}
		groups = [(variants, 20 if options.quick else 300)]
		if docker:
			slow = {"croft exec": variants["croft exec"], "docker exec": (None, docker.argv(site.program))}
			groups.append((slow, 5 if options.quick else 30))
		for group, rounds in groups:
			spawn(site, "sequence", [3], group, cwd=site.repo)
			wall = {n: [w for w, _ in v] for n, v in spawn(site, "sequence", [rounds], group, cwd=site.repo).items()}
			for name, values in wall.items():
				runs.setdefault(name, stats.summary(values))
				if name not in ("plain", "croft exec"):
					found.setdefault("ratio", {})[f"croft exec / {name}"] = stats.median_ratio(wall["croft exec"], values)
		found["runs"] = runs
	finally:
		if docker:
			docker.end()
	rate = spawn(site, "rate", [1 if options.quick else 5, 4, 500 if options.quick else 1500],
		{"croft exec": variants["croft exec"]}, cwd=site.repo)["croft exec"]
	found["cli_per_second"] = stats.summary([1e9 * n / ns for n, ns in rate])


def measure_library(site, options, client, found):
	pid = session_pid(site, "bench-up")
	rows = [list(map(int, line.split())) for line in
		call(site, [client, "latency", "bench-up", site.program, str(100 if options.quick else 2000)]).splitlines()]
	plain, ours = [r[0] for r in rows], [r[1] for r in rows]
	found["library"] = {"plain": stats.summary(plain), "session": stats.summary(ours), "ratio": stats.median_ratio(ours, plain)}
	rates, commands, spent, begun = [], 0, 0.0, None
	for _ in range(1 if options.quick else 5):
		begun = cpu_s(pid)
		n, ns = map(int, call(site, [client, "rate", "bench-up", site.program, "4", "500" if options.quick else "2000"]).split())
		rates.append(1e9 * n / ns)
		commands += n
		spent += cpu_s(pid) - begun
	found["per_second"] = stats.summary(rates)
	# Whatever it does for a command besides recording it is in here as well.
	found["session_cpu_ms"] = 1000 * spent / commands


def measure_rest(site, options, found):
	"""One session: fresh, after many commands, after it has used the network."""
	rest = {}
	croft(site, "new", "-q", "bench-rest", "--allow-host", "example.com")
	env = {**site.env, "CROFT_GATEWAY_REST_MS": str(GATEWAY_REST_MS)}
	croft(site, "up", "-q", "bench-rest", env=env)
	try:
		pid = session_pid(site, "bench-rest")
		time.sleep(REST_S)
		rest["fresh"] = weigh(pid)
		for _ in range(10 if options.quick else 200):
			croft(site, "exec", "-q", "bench-rest", "--", site.program)
		time.sleep(REST_S)
		rest["used"] = weigh(pid)
		croft(site, "exec", "-q", "bench-rest", "--", "/bin/sh", "-c", "getent hosts example.com >/dev/null")
		rest["gateway"] = weigh(pid)
		until = time.monotonic() + 30
		while "croft-gateway" in weigh(pid)["names"] and time.monotonic() < until:
			time.sleep(0.1)
		time.sleep(REST_S)
		rest["network"] = weigh(pid)
		croft(site, "exec", "-q", "bench-rest", "--", "/bin/sh", "-c", "getent hosts example.com >/dev/null")
	finally:
		croft(site, "down", "-q", "bench-rest", check=False)
	found["rest"] = rest


def measure_many(site, options, progress, found):
	"""Sessions that are up at once, and all answer."""
	count = 20 if options.quick else int(os.environ.get("CROFT_BENCH_SESSIONS", "1000"))
	names = [f"bench-many-{i}" for i in range(count)]
	for i, name in enumerate(names):
		progress(f"sessions: made {i} of {count}")
		croft(site, "new", "-q", name)
	before, kernel, up = available_b(), kernel_b(), []
	try:
		for i, name in enumerate(names):
			progress(f"sessions: up {i} of {count}")
			croft(site, "up", "-q", name)
			up.append(name)
		for i, name in enumerate(names):
			progress(f"sessions: asked {i} of {count}")
			croft(site, "exec", "-q", name, "--", site.program)
		time.sleep(REST_S)
		after, kernel = available_b(), kernel_b() - kernel
		sample = [weigh(session_pid(site, n)) for n in names[:: max(1, count // 20)]]
	finally:
		for i, name in enumerate(up):
			progress(f"sessions: down {i} of {count}")
			croft(site, "down", "-q", "--now", name, check=False)
		for name in names:
			croft(site, "rm", "-q", name, check=False)
	found["many"] = {"sessions": count, "available_b_each": (before - after) / count,
		"kernel_b_each": kernel / count, "pss_b_each": stats.percentile([s["pss_b"] for s in sample], 50), "processes": sample[0]["processes"]}


def prepare(site):
	site.repo = os.path.join(site.root, "session")
	os.mkdir(site.repo)
	shutil.copy(site.program, site.repo)
	site.program = os.path.join(site.repo, os.path.basename(site.program))
	for words in (["init", "-q", "-b", "main"], ["config", "user.name", "Bench"], ["config", "user.email", "bench@example.com"],
			["add", "-A"], ["commit", "-q", "-m", "base"]):
		call(site, ["git", *words])


def measure(site, options, spawn, progress, skipped):
	found, program = {}, site.program
	try:
		prepare(site)
		croft(site, "new", "-q", "bench-up")
		croft(site, "up", "-q", "bench-up")
	except (RuntimeError, OSError) as e:
		skipped["session"] = str(e)
		return found
	try:
		progress("session: by the command line")
		measure_command_line(site, options, spawn, found, skipped)
		progress("session: through the library")
		try:
			measure_library(site, options, build_client(site), found)
		except Missing as e:
			skipped["session: library"] = str(e)
		progress("session: at rest")
		measure_rest(site, options, found)
		measure_many(site, options, progress, found)
	except (RuntimeError, subprocess.TimeoutExpired) as e:
		skipped["session: the rest"] = str(e)
	finally:
		croft(site, "down", "-q", "bench-up", check=False)
		site.program = program
	return found


# ---- told ----

def bars(found):
	def at_most(text, value, limit):
		return text, value, None if value is None else value <= limit

	def at_least(text, value, limit):
		return text, value, None if value is None else value >= limit

	def mib(group, key):
		b = found.get(group, {}).get(key)
		return b if b is None else (b["pss_b"] if isinstance(b, dict) else b) / 2**20

	if not found:
		return
	ratio = found.get("ratio", {})
	docker = ratio.get("croft exec / docker exec")
	yield at_most("croft exec into a live session / bare bwrap ≤ 0.35", ratio.get("croft exec / bare bwrap", {}).get("p50"), 0.35)
	yield at_least("docker exec / croft exec ≥ 50", docker and 1 / docker["p50"], 50)
	yield at_most("library, on an open session / fork, exec and wait ≤ 2", found.get("library", {}).get("ratio", {}).get("p50"), 2)
	yield at_least("recorded execs per second, library, four in flight ≥ 500", found.get("per_second", {}).get("p50"), 500)
	yield at_most("processor time of the session per recorded command, ms ≤ 1", found.get("session_cpu_ms"), 1)
	for key, words in (("fresh", "fresh"), ("used", "after many commands"), ("network", "after it has used the network")):
		yield at_most(f"a session at rest, {words}, MiB of PSS ≤ 1.5", mib("rest", key), 1.5)
	many = found.get("many", {}).get("sessions", "many")
	whole = found.get("many") and (found["many"]["pss_b_each"] + found["many"]["kernel_b_each"]) / 2**20
	yield at_most(f"{many} sessions that are up, MiB of PSS and kernel memory each ≤ 1.5", whole, 1.5)
	# A few sessions are less than what others on the machine take and give back meanwhile.
	available = mib("many", "available_b_each") if many != "many" and many >= ENOUGH else None
	yield at_most(f"{many} sessions that are up, MiB of MemAvailable each ≤ 1.5", available, 1.5)


def report(found, say):
	if found.get("runs"):
		say("\nA command in a session that is up (ms)")
		say(f"  {'':18}{'p10':>9}{'p50':>9}{'p90':>9}{'runs':>6}")
		for name, s in sorted(found["runs"].items(), key=lambda kv: kv[1]["p50"]):
			say(f"  {name:18}{s['p10'] / 1e6:9.2f}{s['p50'] / 1e6:9.2f}{s['p90'] / 1e6:9.2f}{s['n']:6}")
		for name, r in found.get("ratio", {}).items():
			say(f"  {name:36} {r['p50']:7.4f}   (p90 {r['p90']:.4f}, 95 % {r['low']:.4f}–{r['high']:.4f})")
		say(f"  croft exec, four at once, per second {found['cli_per_second']['p50']:9.0f}")
	if found.get("library"):
		lib = found["library"]
		say(f"  library, p10 of each (neighbours disturb it least): {lib['session']['p10'] / 1e6:.3f} and "
			f"{lib['plain']['p10'] / 1e6:.3f}, ratio {lib['session']['p10'] / lib['plain']['p10']:.3f}")
		say(f"  library: {lib['session']['p50'] / 1e6:.3f} (p90 {lib['session']['p90'] / 1e6:.3f}), plain "
			f"{lib['plain']['p50'] / 1e6:.3f} (p90 {lib['plain']['p90'] / 1e6:.3f}), ratio {lib['ratio']['p50']:.3f} "
			f"(95 % {lib['ratio']['low']:.3f}–{lib['ratio']['high']:.3f})")
		say(f"  library, four in flight, per second {found['per_second']['p50']:9.0f}")
	for key, row in found.get("rest", {}).items():
		say(f"  at rest, {key:10} {row['processes']} processes, PSS {row['pss_b'] / 2**20:.2f} MiB, private {row['private_b'] / 2**20:.2f} MiB")
	if found.get("many"):
		m = found["many"]
		say(f"  {m['sessions']} sessions: PSS {m['pss_b_each'] / 2**20:.2f} MiB each, kernel {m['kernel_b_each'] / 2**20:.2f} MiB each, "
			f"MemAvailable {m['available_b_each'] / 2**20:.2f} MiB each")

