#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real clients, unchanged and without configuration, do their work through the boundary and nothing beside it.

Each case runs one script three times: under a policy that allows it, under one that allows something else, and without
a sandbox as control. Skipped where the client is not installed.
"""
import os
import shutil
import subprocess

import place  # first: it finds the harness
from place import BOTH, NAMESPACE, PYTHON, Skip, case, check, need_program, need_service

SYSTEM = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
# Programs outside the sandbox know the test authority by these; inside, croft has to see to it.
CONTROL_TRUST = ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "PIP_CERT",
                 "CARGO_HTTP_CAINFO", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH")
OTHER = {"allow": ["raw2.example.com"]}


def fresh(script):
    """In a directory of its own, which is HOME, too."""
    return "rm -rf run && mkdir run && cd run && export HOME=$PWD && (%s)" % script


def works(p, policy, script, want, options=(), control=True):
    """Allowed: the text comes; denied: it does not; control: it does."""
    r, _ = p.croft_run(policy, "/bin/sh", "-c", fresh(script), options=options, timeout=180)
    check(want in r.out, "allowed, but: %s\n%s" % (r, p.denied()))
    r, _ = p.croft_run(OTHER, "/bin/sh", "-c", fresh(script), options=options, timeout=180)
    check(want not in r.out or "denied by croft policy" in r.out, "not allowed, but: %s" % r)
    if control:
        env = dict.fromkeys(CONTROL_TRUST, p.world.ca)
        r = p.finish(p.popen(["/bin/sh", "-c", fresh(script)], env=env), 180)
        check(want in r.out, "the control does not work: %s" % r)


def python_module(name):
    if subprocess.run([PYTHON, "-c", "import " + name], capture_output=True, check=False).returncode:
        raise Skip("python3 has no " + name)


@case("curl-http1", tiers=BOTH)
def curl_http1(p):
    need_program("curl")
    works(p, {"allow": ["raw.example.com"]}, "curl -sS -m 20 --http1.1 -w '%{http_version}' https://raw.example.com/curl", '"/curl"')
    check(p.world.opened("raw"), "nothing seen")


@case("curl-http2")
def curl_http2(p):
    need_program("curl")
    need_service("nginx")
    need_service("h2")
    works(p, {"allow": ["www.example.com", "h2.example.com"]},
          "curl -sS -m 20 --http2 -w '%{http_version}\\n' https://www.example.com/hello https://h2.example.com/static/small", "static file")
    r, _ = p.croft_run({"allow": ["www.example.com"]}, "curl", "-sS", "-o", "/dev/null", "-w", "%{http_version}", "https://www.example.com/hello")
    check(r.out == "2", r)


@case("curl-big", tiers=BOTH)
def curl_big(p):
    need_program("curl")
    need_service("nginx")
    works(p, {"allow": ["files.example.com"]}, "curl -sS -m 60 https://files.example.com/static/big | sha256sum",
          subprocess.run("sha256sum", stdin=open(os.path.join(p.world.dir, "www/static/big"), "rb"), capture_output=True, text=True,
                         check=True).stdout.strip())


@case("git-clone", tiers=BOTH)
def git_clone(p):
    need_program("git")
    need_service("nginx")
    works(p, {"use": ["github-read"]}, "git clone -q https://github.com/owner/demo.git && cat demo/README", "from git")


@case("git-push", tiers=BOTH)
def git_push(p):
    need_program("git")
    need_service("nginx")
    branch = "agent/clients-%s-%s" % (p.tier, p.user.label)
    rule = {"host": "github.com", "ports": [443], "mode": "git", "repos": ["owner/demo"], "push": True, "refs": ["refs/heads/agent/*"]}
    works(p, {"allow": [rule]}, "git clone -q https://github.com/owner/demo.git && cd demo && echo $$ > f && git add f && "
          "git -c user.name=t -c user.email=t@t commit -qm x && git push -q -f origin HEAD:refs/heads/%s && echo pushed" % branch, "pushed")


@case("pip", tiers=BOTH)
def pip(p):
    if subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True, check=False).returncode:
        raise Skip("pip is not installed")
    need_service("nginx")
    works(p, {"use": ["pypi"]}, "%s -m pip install -q --disable-pip-version-check --no-cache-dir --retries 0 --target t croft-demo && "
          "PYTHONPATH=t %s -c 'import croft_demo; print(croft_demo.VALUE)'" % (PYTHON, PYTHON), "from pypi")


@case("npm", tiers=BOTH)
def npm(p):
    need_program("npm")
    need_service("nginx")
    works(p, {"use": ["npm"]}, "npm_config_globalconfig=/dev/null npm install --silent --no-audit --no-fund --fetch-retries=0 croft-demo && "
          "node -e \"console.log(require('croft-demo'))\"", "from npm")


@case("apt", tiers=BOTH)
def apt(p):
    need_program("apt-get")
    need_service("nginx")
    options = ("-o Dir::State=$PWD/s -o Dir::State::status=$PWD/s/status -o Dir::Cache=$PWD/c -o Dir::Etc::SourceList=$PWD/list "
               "-o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::Parts=/dev/null -o Dir::Etc::Main=/dev/null -o Debug::NoLocking=1 "
               "-o APT::Sandbox::User= -o Dir::Log=$PWD -o Acquire::Retries=0 -o Acquire::Languages=none")
    works(p, {"use": ["debian"]}, "mkdir -p s/lists/partial c/archives/partial && : > s/status && "
          "echo 'deb [trusted=yes] http://deb.debian.org/debian stable main' > list && "
          "apt-get %s -q update && apt-get %s -q download croft-demo && dpkg-deb --fsys-tarfile croft-demo_1.0_all.deb | "
          "tar xOf - ./usr/share/croft-demo/text" % (options, options), "from debian")


@case("go", tiers=BOTH)
def go(p):
    need_program("go")
    need_service("nginx")
    works(p, {"use": ["go"]}, "GOSUMDB=off GOFLAGS=-modcacherw GOPATH=$PWD/go GOCACHE=$PWD/gc GOTOOLCHAIN=local "
          "go mod download -json example.org/demo@v1.0.0 && cat go/pkg/mod/example.org/demo@v1.0.0/demo.go", "from go")


@case("cargo", tiers=BOTH)
def cargo(p):
    cargo_program = shutil.which("cargo", path=SYSTEM)
    options = []
    if not cargo_program:
        found = shutil.which("rustc")
        r = subprocess.run([found, "--print", "sysroot"], capture_output=True, text=True, check=False) if found else None
        if not r or r.returncode or p.user.uid != os.getuid():
            raise Skip("cargo is not installed for every user")
        root = r.stdout.strip()
        cargo_program, options = "PATH=%s/bin:$PATH cargo" % root, ["--read", root]
    need_service("nginx")
    works(p, {"use": ["crates"]}, "mkdir -p p/src && cd p && printf '[package]\\nname=\"p\"\\nversion=\"0.1.0\"\\nedition=\"2018\"\\n"
          "[dependencies]\\ncroft-demo=\"1\"\\n' > Cargo.toml && : > src/lib.rs && CARGO_HOME=$PWD/ch CARGO_NET_RETRY=0 %s fetch -q && "
          "cat ch/registry/src/*/croft-demo-1.0.0/src/lib.rs" % cargo_program, "from crates", options=options)


JAVA = """import java.net.*; import java.io.*;
public class Get { public static void main(String[] a) throws Exception {
 URLConnection c = new URL(a[0]).openConnection(); c.setConnectTimeout(20000); c.setReadTimeout(20000);
 System.out.println(new BufferedReader(new InputStreamReader(c.getInputStream())).readLine()); } }
"""


@case("N25-java")
def java(p):
    """The JVM reads no proxy variables."""
    need_program("javac")
    p.write("Get.java", JAVA)
    works(p, {"allow": ["raw.example.com"]}, "java -XX:TieredStopAtLevel=1 ../Get.java http://raw.example.com/java", '"/java"')
    r, _ = p.croft_run({"allow": ["raw.example.com"]}, "java", "-XX:TieredStopAtLevel=1", "Get.java", "https://raw.example.com/java-tls")
    check('"/java-tls"' in r.out, "Java does not trust the sandbox's authority: %s" % r)


@case("N25-node-fetch")
def node_fetch(p):
    need_program("node")
    works(p, {"allow": ["raw.example.com"]}, "node -e \"fetch('https://raw.example.com/node').then(r => r.text()).then(console.log)"
          ".catch(e => console.log('failed', e.cause && e.cause.code))\"", '"/node"')


@case("N25-go-static")
def go_static(p):
    """Go's own resolver and TLS in a static program."""
    need_program("go")
    p.write("m/main.go", "package main\n\nimport (\n\t\"fmt\"\n\t\"io\"\n\t\"net/http\"\n\t\"os\"\n)\n\nfunc main() {\n"
            "\tr, err := http.Get(os.Args[1])\n\tif err != nil {\n\t\tfmt.Println(\"failed\", err)\n\t\treturn\n\t}\n"
            "\tb, _ := io.ReadAll(r.Body)\n\tfmt.Println(string(b))\n}\n")
    # Built outside and once: compiling the library is not what is tested.
    cache = os.path.join(p.world.dir, "go-cache")
    r = subprocess.run(["go", "build", "-o", p.path("get"), "main.go"], cwd=p.path("m"), capture_output=True, text=True, check=False,
                       env={"PATH": SYSTEM, "HOME": p.world.dir, "GOCACHE": cache, "CGO_ENABLED": "0", "GO111MODULE": "off",
                            "GOTOOLCHAIN": "local"}, timeout=240)
    if r.returncode:
        raise Skip("go cannot build: " + (r.stderr.strip().splitlines() or ["?"])[-1])
    p.user.own(p.path("get"))
    works(p, {"allow": ["raw.example.com"]}, "unset http_proxy https_proxy HTTPS_PROXY HTTP_PROXY; ../get https://raw.example.com/go", '"/go"')


@case("python-urllib", tiers=BOTH)
def python_urllib(p):
    works(p, {"allow": ["raw.example.com"]}, "%s -c \"import urllib.request as u; print(u.urlopen('https://raw.example.com/py').read())\""
          % PYTHON, '"/py"')


@case("python-requests", tiers=BOTH)
def python_requests(p):
    python_module("requests")
    works(p, {"allow": ["raw.example.com"]}, "%s -c \"import requests; print(requests.get('https://raw.example.com/rq', timeout=20).text)\""
          % PYTHON, '"/rq"')


@case("python-httpx", tiers=BOTH)
def python_httpx(p):
    python_module("httpx")
    works(p, {"allow": ["www.example.com"]}, "%s -c \"import httpx; c = httpx.Client(http2=True, timeout=20); "
          "r = c.get('https://www.example.com/hello'); print(r.http_version, r.text)\"" % PYTHON, "hello")


GRPC = """
import grpc, os
roots = os.environ.get('GRPC_DEFAULT_SSL_ROOTS_FILE_PATH') or os.environ.get('SSL_CERT_FILE') or '/etc/ssl/certs/ca-certificates.crt'
c = grpc.secure_channel('grpc.example.com:443', grpc.ssl_channel_credentials(open(roots, 'rb').read()))
print(c.unary_unary('/croft.Echo/Say')(b'one', timeout=20))
print(list(c.stream_stream('/croft.Echo/Chat')(iter([b'a', b'b', b'c']), timeout=20)))
"""


@case("N25-grpc")
def grpc(p):
    """HTTP/2 with trailers and streams both ways, by a client with a resolver of its own."""
    python_module("grpc")
    need_service("grpc")
    p.write("g.py", GRPC)
    works(p, {"allow": ["grpc.example.com"]}, "%s ../g.py" % PYTHON, "[b'echo a', b'echo b', b'echo c']")
    rule = {"host": "grpc.example.com", "ports": [443], "methods": ["POST"], "paths": ["/croft.Echo/Say"]}
    r, _ = p.croft_run({"allow": [rule]}, PYTHON, "g.py")
    check("echo one" in r.out and "echo a" not in r.out, "one method was allowed: %s" % r)


@case("websockets", tiers=NAMESPACE)
def websockets(p):
    python_module("websockets")
    need_service("ws")
    works(p, {"allow": [{"host": "ws.example.com", "ports": [443], "mode": "ws"}]}, "%s -c \"\nimport asyncio, ssl, websockets\n"
          "async def go():\n  async with websockets.connect('wss://ws.example.com/', ssl=ssl.create_default_context()) as s:\n"
          "    await s.send('over ws'); print(await s.recv())\nasyncio.run(go())\"" % PYTHON, "over ws")


@case("ssh-refused", tiers=BOTH)
def ssh_refused(p):
    """Not a name, not a port, not on 443."""
    need_program("ssh")
    ask = "ssh -v -o BatchMode=yes -o StrictHostKeyChecking=no -o ConnectTimeout=5 -p %d tcp.example.com true 2>&1; true"
    r, _ = p.croft_run({"allow": ["tcp.example.com"]}, "/bin/sh", "-c", ask % 22 + ";" + ask % 443)
    check("remote software version OpenSSH_9.2" not in r.out, r)
    check(not [d for d in p.world.received("tcp") if "SSH" in d], p.world.received("tcp"))
    r = p.plain("/bin/sh", "-c", ask % 22)
    if "No user exists" in r.out:
        raise Skip("ssh does not run for a user without an account")
    check("remote software version OpenSSH_9.2" in r.out, "the control does not reach: %s" % r)


if __name__ == "__main__":
    place.main()
