#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# serial
# session: user
"""R1 to R8: limits from outside, floods, leftovers."""
import glob
import os
import re
import resource
import subprocess
import time

import harness
from harness import Skip, check

SOON_S = harness.WAIT_S / 2  # far more than it takes, and far less than without the limit
SETTLE_S = harness.WAIT_S  # the kernel takes away a moment after the last process
SH = ("--", "/bin/sh", "-c")
BOMB = "b() { b | b & }; b; b; b; wait # %s"  # whose it is: others may test here, too


BEGAN = int(time.clock_gettime(time.CLOCK_BOOTTIME) * 100)


def ours(p, path):
    """Did a run of this place make it? croft puts its process into the name, and into that of a cgroup the time, for
    numbers of processes come round again."""
    m = re.match(r"croft-(\d+)\b(?:\.[0-9a-f]+\.([0-9a-f]+)-)?", os.path.basename(path))
    return bool(m) and int(m.group(1)) in p.pids and (not m.group(2) or int(m.group(2), 16) >= BEGAN)


def command_lines():
    """Of every process; not by ps, which a small system lacks."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, encoding="utf-8", errors="replace") as f:
                yield f.read().replace("\0", " ")
        except OSError:
            pass


@harness.case("R1-fork-bomb")
def fork_bomb(p):
    """A shell fork bomb ends with the time-out, and the machine can still start processes."""
    t0 = time.monotonic()
    bomb = BOMB % p.token
    r, receipt = p.receipt("--direct", "--pids", "60", "--timeout", "2s", *SH, bomb)
    check(r.rc in (124, 0, 2, 137, 254), r)
    check(time.monotonic() - t0 < SOON_S, "took %.0f s" % (time.monotonic() - t0))
    check(p.plain("/bin/true").rc == 0, "the machine is out of processes")
    held = receipt["enforced"]["limits_held_by"]["pids"]
    if held == "cgroup":
        check("pids" in receipt["limits_hit"], "the limit was not reported: %s" % receipt["limits_hit"])
    check(not any(bomb in line for line in command_lines()), "still running")
    return "held by %s" % held


@harness.case("R2-memory-bomb")
def memory_bomb(p):
    """More memory than allowed: the command fails, croft reports, nothing else is hurt."""
    eat = "x = bytearray(300 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint('ate')"
    r, receipt = p.receipt("--direct", "--memory", "100M", "--", harness.python, "-c", eat)
    check("ate" not in r.out and r.rc != 0, r)
    check(receipt["exit"]["code"] == r.rc, receipt["exit"])
    r = p.run("-q", "--direct", "--memory", "1G", "--", harness.python, "-c", eat)
    check("ate" in r.out, "the control does not get its memory: %s" % r)
    return "held by %s" % receipt["enforced"]["limits_held_by"]["memory"]


@harness.case("R2-tmpfs", tiers=("namespace",))
def tmpfs(p):
    """Scratch directories together hold no more than the disk limit, and not one byte of the host's."""
    r = p.run("-q", "--discard", "--disk", "20M", *SH,
              "for d in /tmp /dev/shm /run \"$HOME\" .; do dd if=/dev/zero of=$d/fill bs=1M count=64 2>/dev/null; done; "
              "du -scm /tmp/fill /dev/shm/fill /run/fill \"$HOME/fill\" ./fill 2>/dev/null | tail -1", timeout=120)
    total = int(r.out.split()[0]) if r.out.split() else 0
    check(0 < total <= 45, "%d MiB written where 20 are allowed: %s" % (total, r))
    check(not os.path.exists(p.path("fill")), "left in the workspace")


@harness.case("R3-timeout")
def timeout(p):
    """A spinning command ends at the time-out with 124, its children with it."""
    t0 = time.monotonic()
    r, receipt = p.receipt("--direct", "--timeout", "700ms", *SH, "while :; do :; done & trap '' TERM; while :; do :; done")
    took = time.monotonic() - t0
    check(r.rc == 124 and receipt["exit"]["timed_out"], r)
    check(took < SOON_S, "took %.1f s" % took)


@harness.case("R3-cpus")
def cpus(p):
    """Half a processor means half the work, where a cgroup can be had."""
    spin = "import time\nt=time.monotonic()\nwhile time.monotonic()-t<1.5: pass\nprint(time.process_time())"
    r, receipt = None, None
    r = p.run("--direct", "--cpus", "0.3", "--", harness.python, "-c", spin)
    if r.rc == 126:
        check("cgroup" in r.err, r)
        raise Skip("no cgroup for this user: refused, as it should be")
    r, receipt = p.receipt("--direct", "--cpus", "0.3", "--", harness.python, "-c", spin)
    check(float(r.out) < 1.5 * 0.6, "used %s s of processor in 1.5 s" % r.out.strip())
    check(receipt["enforced"]["limits_held_by"]["cpus"] == "cgroup", receipt["enforced"])


@harness.case("R4-flood")
def flood(p):
    """Endless output into a reader that goes away: the end comes at once, memory stays small."""
    child = p.popen(p.argv("-q", "--direct", "--", "/usr/bin/yes", "0123456789abcdef"))
    got = 0
    while got < 5_000_000:
        piece = os.read(child.stdout.fileno(), 65536)
        check(piece, "it ended: %s" % child.returncode)
        got += len(piece)
    with open("/proc/%d/status" % p.supervisor(child), encoding="ascii") as f:
        rss = next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))
    child.stdout.close()
    try:
        child.wait(harness.WAIT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        raise harness.Fail("does not end when its reader is gone") from None
    check(child.returncode in (141, 1), "exit %d" % child.returncode)
    child.stderr.close()
    check(rss < 20000, "the supervisor used %d KiB" % rss)


# A path that lies in a page of a file that the supervisor serves, and that nobody has read yet.
SELF = """
import ctypes, mmap, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
f = os.open(sys.argv[1], os.O_RDONLY)
n = os.fstat(f).st_size
os.posix_fadvise(f, 0, 0, os.POSIX_FADV_RANDOM)
os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)
page = ctypes.c_void_p(libc.mmap(None, n, mmap.PROT_READ, mmap.MAP_PRIVATE, f, 0) + (n // 4096 - 1) * 4096)
there = (ctypes.c_ubyte * 1)()
libc.mincore(page, ctypes.c_size_t(4096), there)
served = os.path.islink(sys.argv[1]) and os.readlink(sys.argv[1]).startswith("/.croft/")
print("served" if served else "plain", "cached" if there[0] & 1 else "absent")
for i in range(20):
    os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)
    libc.mkdir(page, 0o755)
print("went on", flush=True)
os.mkdir("/etc/seen")
"""


@harness.case("R4-waiting-for-itself", tiers=("namespace",))
def waiting_for_itself(p):
    """A call whose path is in a page that the supervisor must serve: it looks at the path and does not freeze."""
    bundle = "/etc/ssl/certs/ca-certificates.crt"
    if not os.path.exists(bundle):
        raise Skip("no list of authorities here")
    r, receipt = p.receipt("--direct", "--observe", "writes", "--timeout", "40s", "--allow-host", "example.org", "--",
                           harness.python, "-c", SELF, bundle, timeout=120)
    check("went on" in r.out, r)
    check("/etc/seen" in str(receipt["denials"]), "the observer is gone: %s" % receipt["denials"])
    if not r.out.startswith("served absent"):
        raise Skip("the list is not served here, or the page was read ahead: %s" % r.out.split())
    r = p.run("-q", "--direct", "--observe", "writes", "--allow-host", "example.org", "--", "/bin/cat", bundle,
              env={"CROFT_FORCE_FAIL": "observer_thread"})
    check(r.rc != 0 and not r.out, "handed out although the observer could not be another thread")


@harness.case("R4-denial-flood")
def denial_flood(p):
    """Tens of thousands of refused attempts, all different: bounded memory, bounded receipt, exact end."""
    flood_it = "import os\n" \
        "for i in range(30000):\n" \
        "  try: os.open('%s/' + 'n' * 200 + str(i), os.O_CREAT | os.O_WRONLY)\n" \
        "  except OSError: pass\n" \
        "print('done', flush=True)\n" \
        "input()" % p.home
    name = os.path.join(p.dir, "receipt.json")
    child = p.popen(p.argv("-q", "--direct", "--observe", "writes", "--json", name, "--", harness.python, "-c", flood_it),
                    stdin=subprocess.PIPE)
    harness.read_until(child.stdout.fileno(), b"done")
    with open("/proc/%d/status" % p.supervisor(child), encoding="ascii") as f:
        peak = next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))
    child.communicate(b"\n", timeout=harness.WAIT_S)
    check(child.returncode == 0, "exit %d" % child.returncode)
    check(os.path.getsize(name) < 16 << 20, "a receipt of %d bytes" % os.path.getsize(name))
    check(peak < 40000, "the supervisor used %d KiB" % peak)


@harness.case("R5-trees")
def trees(p):
    """Deep trees, long names and many files in scratch and in a discarded workspace are gone after."""
    make = "import os\n" \
           "for base in (os.environ.get('TMPDIR', '/tmp'), os.environ['HOME'], '.'):\n" \
           "  here = os.open(base, os.O_RDONLY)\n" \
           "  for i in range(600):\n" \
           "    try: os.mkdir('d' * 200, dir_fd=here)\n" \
           "    except OSError as e:\n" \
           "      if e.errno == 36 and i > 10: break\n" \
           "      raise\n" \
           "    here, old = os.open('d' * 200, os.O_RDONLY, dir_fd=here), here\n" \
           "    os.close(old)\n" \
           "  os.close(here)\n" \
           "  os.mkdir(base + '/many')\n" \
           "  for i in range(3000): os.close(os.open(base + '/many/' + str(i), os.O_CREAT | os.O_WRONLY))\n" \
           "print('made')"
    before = set(glob.glob("/tmp/croft*") + glob.glob("/var/tmp/croft-*") + glob.glob("/run/croft*"))
    mode = "--discard" if p.tier == "namespace" else "--direct"
    r = p.run("-q", mode, "--disk", "256M", "--", harness.python, "-c", make, timeout=120)
    check("made" in r.out, r)
    if mode == "--discard":
        check(os.listdir(p.work) == [], "left in the workspace: %s" % os.listdir(p.work)[:5])
    left = set(glob.glob("/tmp/croft*") + glob.glob("/var/tmp/croft-*") + glob.glob("/run/croft*")) - before
    mine = [path for path in left if ours(p, path)]
    check(not mine, "left: %s" % mine)
    private = [n for n in os.listdir(p.home) + os.listdir(p.dir)]
    check(set(private) <= {"work", "home", "outside", "state"}, "left: %s" % private)


@harness.case("R6-descriptors")
def descriptors(p):
    """File descriptors and inotify watches have an end inside."""
    r = p.run("-q", "--direct", "--", harness.python, "-c",
              "import os\nn=0\ntry:\n  while n < 200000: os.open('/dev/null', 0); n+=1\nexcept OSError: pass\nprint(n)")
    check(0 < int(r.out) < 200000, r)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    check(int(r.out) <= hard or hard == resource.RLIM_INFINITY, "more than the caller may: %s" % r.out)


@harness.case("R7-background-holds-output")
def background_holds_output(p):
    """A child that keeps stdout open does not keep croft alive after the command ended."""
    t0 = time.monotonic()
    r = p.run("-q", "--direct", *SH, "sleep 300 & echo started; exit 7")
    check(r.rc == 7 and "started" in r.out and time.monotonic() - t0 < SOON_S, r)


@harness.case("R7-zombies")
def zombies(p):
    """pid 1 reaps what loses its parents: a thousand orphans leave no zombie behind."""
    r = p.run("-q", "--direct", *SH, "i=0; while [ $i -lt 300 ]; do (true &) ; i=$((i+1)); done; "
              "n=1; k=0; while [ $n -gt 0 ] && [ $k -lt 400 ]; do n=$(grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | "
              "xargs -r grep -h '^PPid:.[12]$' 2>/dev/null | wc -l); k=$((k+1)); done; echo zombies $n")
    if p.tier == "process":
        raise Skip("the process tier has no pid 1 of its own")
    check("zombies 0" in r.out, r)


def state_of_machine(p):
    """What a run could leave: mounts, cgroups, croft's files, keys."""
    def lines(path):
        try:
            with open(path, encoding="utf-8", errors="replace") as f:
                return [line for line in f.read().splitlines() if "croft" in line]
        except OSError:
            return []
    groups = [d for d, _, _ in os.walk("/sys/fs/cgroup") if ours(p, d)]
    files = glob.glob("/run/croft*") + glob.glob("/run/user/*/croft*") + glob.glob("/dev/shm/croft*")
    return {"mounts": lines("/proc/self/mountinfo"), "cgroups": groups, "files": [f for f in files if ours(p, f)],
            "keys": [k for k in lines("/proc/keys") if "bait" not in k]}


@harness.case("R8-nothing-left")
def nothing_left(p):
    """Runs of all kinds, ended in all ways, leave the machine as it was."""
    attempts = [["--direct", "--", "true"], ["--direct", "--", "/bin/sh", "-c", "kill -9 $$"],
                ["--direct", "--", "/no/such/program"], ["--direct", "--timeout", "50ms", "--", "sleep", "100"],
                ["--direct", "--deny", "./x", "--memory", "64M", "--pids", "20", "--", "true"],
                ["--direct", "--", "/bin/sh", "-c", "sleep 100 & setsid sleep 100 & true"]]
    if p.tier == "namespace":
        attempts.append(["--discard", "--", "/bin/sh", "-c", "echo x > f"])
    fds = len(os.listdir("/proc/self/fd"))
    before = state_of_machine(p)
    for _ in range(6):
        for words in attempts:
            p.run("-q", *words)
    # Others may test at the same time: what is ours is what stays.
    left = {kind: set(found) - set(before[kind]) for kind, found in state_of_machine(p).items()}
    end = time.monotonic() + SETTLE_S
    while any(left.values()) and time.monotonic() < end:
        now = state_of_machine(p)
        left = {kind: found & set(now[kind]) for kind, found in left.items()}
    for kind, found in left.items():
        check(not found, "left %s: %s" % (kind, sorted(found)[:4]))
    check(len(os.listdir("/proc/self/fd")) == fds, "descriptors left in the driver")
    check(os.listdir(p.work) == [] and os.listdir(p.home) in ([], [".local"]), "files left: %s %s" % (
        os.listdir(p.work), os.listdir(p.home)))


if __name__ == "__main__":
    harness.main()
