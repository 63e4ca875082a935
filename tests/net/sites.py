# SPDX-License-Identifier: Apache-2.0
"""What there is outside: names and their addresses, listeners, and the static package repositories."""
import base64
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import zipfile

HOST4, HOST6, HOST_LAN = "192.0.2.2", "2001:db8:ffff::2", "10.66.0.5"
ROUTER4, ROUTER6 = "192.0.2.1", "2001:db8:ffff::1"
DNS = "203.0.113.53"
NGINX, NGINX6 = "203.0.113.10", "2001:db8:1::10"
RAW, RAW6 = "203.0.113.11", "2001:db8:1::11"
BADCERT, TCP, WS, GRPC, H2, REGISTRY = ("203.0.113.%d" % n for n in (12, 13, 14, 15, 16, 20))
EVIL, EVIL6 = "203.0.113.66", "2001:db8:1::66"
PRIVATE = "10.77.0.10"
# The same private host as translators would write it: these are its addresses too, so that the way would be open.
PRIVATE_WRAPPED = ("64:ff9b::a4d:a", "64:ff9b:1::a4d:a", "2002:a4d:a::1")
METADATA = ("169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "192.0.0.192")
METADATA6 = ("fd00:ec2::254", "64:ff9b::a9fe:a9fe")
HOST_PORT, HOST_HTTP = 5432, 8099

REGISTRIES = ("registry.npmjs.org", "pypi.org", "files.pythonhosted.org", "deb.debian.org", "security.debian.org",
              "index.crates.io", "static.crates.io", "crates.io", "proxy.golang.org", "sum.golang.org", "github.com")
NAMES = {
    "www.example.com": (NGINX, NGINX6), "api.example.com": (NGINX, NGINX6), "files.example.com": (NGINX,),
    "raw.example.com": (RAW, RAW6), "raw2.example.com": (RAW, RAW6), "secret.example.com": (RAW,),
    "raw6.example.com": (RAW6,), "example.com": (RAW,), "a.wild.example.org": (RAW,), "wild.example.org": (RAW,),
    "a.b.wild.example.org": (RAW,), "evilexample.com": (RAW,),
    "wrongname.example.com": (BADCERT,), "expired.example.com": (BADCERT,), "selfsigned.example.com": (BADCERT,),
    "unknownca.example.com": (BADCERT,),
    "tcp.example.com": (TCP,), "ws.example.com": (WS,), "grpc.example.com": (GRPC,), "h2.example.com": (H2,),
    "evil.example.net": (EVIL, EVIL6), "internal.example.com": (PRIVATE,), "metadata.google.internal": (METADATA[0],),
    "to-private.example.com": (PRIVATE,), "to-loopback.example.com": ("127.0.0.1",), "to-zero.example.com": ("0.0.0.0",),
    "to-loopback6.example.com": ("::1",), "to-meta.example.com": (METADATA[0],), "to-host.example.com": (HOST4,),
    "to-lan.example.com": (HOST_LAN,), "to-mapped.example.com": ("::ffff:" + PRIVATE,),
    "to-mapped-loopback.example.com": ("::ffff:127.0.0.1",), "to-nat64.example.com": (PRIVATE_WRAPPED[0],),
    "to-nat64-local.example.com": (PRIVATE_WRAPPED[1],), "to-6to4.example.com": (PRIVATE_WRAPPED[2],),
    "to-nat64-meta.example.com": (METADATA6[1],), "to-mixed.example.com": (PRIVATE, RAW),
    "to-linklocal6.example.com": ("fe80::1",), "to-alibaba.example.com": ("100.100.100.200",),
    **{name: (REGISTRY,) for name in REGISTRIES},
}
REBINDING = sorted(n for n in NAMES if n.startswith("to-"))
FLIP = "flip.example.com"  # its address is changed while a test runs
CERTIFIED = sorted(NAMES) + [FLIP, "*.attacker.example.net", NGINX, RAW, EVIL, PRIVATE, TCP]


def outside_addresses():
    v4 = [NGINX, RAW, BADCERT, TCP, WS, GRPC, H2, REGISTRY, EVIL, DNS, PRIVATE, *METADATA]
    v6 = [NGINX6, RAW6, EVIL6, *PRIVATE_WRAPPED, *METADATA6]
    return v4, v6


def listeners(cert, key, ipv6):
    """What servers/app.py listens on, outside."""
    found = []

    def add(label, address, port, kind):
        if ipv6 or ":" not in address:
            found.append({"label": label, "address": address, "port": port, "kind": kind, "cert": cert, "key": key})

    add("nginx", "127.0.0.1", 9000, "http")
    for address in (RAW, RAW6):
        for port, kind in ((443, "tls"), (80, "http"), (8080, "http"), (8443, "tls")):
            add("raw", address, port, kind)
    for port, kind in ((7777, "raw"), (22, "ssh"), (443, "ssh"), (25, "greet"), (8083, "sink"), (8084, "source"),
                       (8085, "hush")):
        add("tcp", TCP, port, kind)
    for address in (PRIVATE, *PRIVATE_WRAPPED):
        add("private", address, 80, "http")
        add("private", address, 443, "tls")
        add("private", address, 7777, "raw")
    for address in METADATA + METADATA6:
        add("metadata", address, 80, "http")
        add("metadata", address, 443, "tls")
    for address in (EVIL, EVIL6):
        for port, kind in ((80, "http"), (443, "tls"), (53, "raw"), (853, "raw"), (4444, "raw"), (1, "raw"), (53, "udp"),
                           (443, "udp"), (4444, "udp"), (853, "udp"), (5353, "udp"), (5355, "udp")):
            add("evil", address, port, kind)
    add("dot", DNS, 853, "raw")
    return found


def host_listeners(ipv6):
    """What listens on the machine that croft runs on."""
    addresses = ["127.0.0.1", HOST4, HOST_LAN] + (["::1", HOST6] if ipv6 else [])
    found = [{"label": "host", "address": a, "port": HOST_HTTP, "kind": "http"} for a in addresses]
    found.append({"label": "hostport", "address": "127.0.0.1", "port": HOST_PORT, "kind": "raw"})
    return found


NGINX_CONF = """
daemon off; master_process off; pid {dir}/nginx.pid; error_log {dir}/nginx.err;
events {{ worker_connections 8192; }}
worker_rlimit_nofile 16384;
http {{
  access_log {access}; client_body_temp_path {dir}/nb; proxy_temp_path {dir}/np; fastcgi_temp_path {dir}/nf;
  uwsgi_temp_path {dir}/nu; scgi_temp_path {dir}/ns; client_max_body_size 1g; keepalive_requests 1000000;
  default_type application/octet-stream; server_names_hash_bucket_size 128; sendfile on;
  map $request_uri $plain_uri {{ default $request_uri; }}
  ssl_certificate {good}; ssl_certificate_key {goodkey};
  server {{
    listen {nginx}:80; listen {nginx}:443 ssl http2; {listen6}
    root {www};
    location = /hello {{ return 200 "hello\\n"; }}
    location = /admin {{ return 200 "the admin page\\n"; }}
    location /static/ {{ }}
    location / {{ proxy_pass http://127.0.0.1:9000; proxy_http_version 1.1; proxy_set_header Host $http_host;
      proxy_set_header Connection ""; }}
  }}
  server {{ listen {registry}:80 default_server; listen {registry}:443 ssl http2 default_server; root {sites}/$host;
    types {{ application/json json; text/html html; }} default_type application/octet-stream;
    location / {{ try_files $uri $uri/index.html $uri/index.json =404; }} }}
  server {{ listen {registry}:443 ssl http2; listen {registry}:80; server_name github.com;
    location / {{ proxy_pass http://127.0.0.1:9000; proxy_http_version 1.1; proxy_set_header Host $http_host;
      proxy_set_header Connection ""; }} }}
  server {{ listen {registry}:443 ssl http2; listen {registry}:80; server_name registry.npmjs.org; root {sites}/$host;
    default_type application/json;
    location / {{ try_files $uri $uri/index.json =404; }} }}
{bad}
}}
"""


def nginx_conf(directory, good, bad, ipv6, access="off"):
    """bad: host name -> (certificate, key)."""
    blocks = "".join("  server {{ listen {0}:443 ssl; server_name {1}; ssl_certificate {2}; ssl_certificate_key {3};\n"
                     "    location / {{ return 200 \"reached\\n\"; }} }}\n".format(BADCERT, name, *pair)
                     for name, pair in bad.items())
    listen6 = "listen [%s]:80; listen [%s]:443 ssl http2;" % (NGINX6, NGINX6) if ipv6 else ""
    return NGINX_CONF.format(dir=directory, good=good[0], goodkey=good[1], nginx=NGINX, registry=REGISTRY, bad=blocks,
                             www=os.path.join(directory, "www"), sites=os.path.join(directory, "sites"),
                             listen6=listen6, access=access)


# ---- packages, each with one thing to fetch ----

def put(root, path, data):
    path = os.path.join(root, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data.encode() if isinstance(data, str) else data)


def tarball(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as t:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            t.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


def zipped(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, text in files.items():
            z.writestr(name, text)
    return out.getvalue()


def npm(root):
    data = tarball({"package/package.json": json.dumps({"name": "croft-demo", "version": "1.0.0", "main": "i.js"}),
                    "package/i.js": "module.exports = 'from npm'\n"})
    digest = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    url = "https://registry.npmjs.org/croft-demo/-/croft-demo-1.0.0.tgz"
    version = {"name": "croft-demo", "version": "1.0.0", "main": "i.js",
               "dist": {"tarball": url, "integrity": digest, "shasum": hashlib.sha1(data).hexdigest()}}
    put(root, "registry.npmjs.org/croft-demo/index.json", json.dumps(
        {"name": "croft-demo", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}))
    put(root, "registry.npmjs.org/croft-demo/-/croft-demo-1.0.0.tgz", data)


def pypi(root):
    info = "croft_demo-1.0.dist-info/"
    files = {"croft_demo.py": "VALUE = 'from pypi'\n",
             info + "METADATA": "Metadata-Version: 2.1\nName: croft-demo\nVersion: 1.0\n",
             info + "WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    rows = []
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        rows.append("%s,sha256=%s,%d" % (name, digest, len(text)))
    files[info + "RECORD"] = "\n".join(rows + [info + "RECORD,,"]) + "\n"
    data, name = zipped(files), "croft_demo-1.0-py3-none-any.whl"
    put(root, "files.pythonhosted.org/packages/aa/bb/" + name, data)
    put(root, "pypi.org/simple/croft-demo/index.html",
        "<!DOCTYPE html><html><body><a href=\"https://files.pythonhosted.org/packages/aa/bb/%s#sha256=%s\">%s</a>"
        "</body></html>\n" % (name, hashlib.sha256(data).hexdigest(), name))


def debian(root, scratch):
    if not shutil.which("dpkg-deb"):
        return
    put(scratch, "deb/DEBIAN/control", "Package: croft-demo\nVersion: 1.0\nArchitecture: all\nMaintainer: t <t@t>\n"
        "Description: test\n")
    put(scratch, "deb/usr/share/croft-demo/text", "from debian\n")
    pool = "deb.debian.org/debian/pool/main/c/croft-demo/croft-demo_1.0_all.deb"
    os.makedirs(os.path.dirname(os.path.join(root, pool)), exist_ok=True)
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", os.path.join(scratch, "deb"), os.path.join(root, pool)],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(os.path.join(root, pool), "rb") as f:
        data = f.read()
    index = ("Package: croft-demo\nVersion: 1.0\nArchitecture: all\nMaintainer: t <t@t>\nDescription: test\n"
             "Filename: pool/main/c/croft-demo/croft-demo_1.0_all.deb\nSize: %d\nSHA256: %s\n\n"
             % (len(data), hashlib.sha256(data).hexdigest())).encode()
    arch = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()
    lines = ["Origin: t", "Suite: stable", "Codename: stable", "Architectures: " + arch, "Components: main",
             "Date: Thu, 01 Jan 2026 00:00:00 UTC", "SHA256:"]
    for name, body in (("Packages", index), ("Packages.gz", gzip.compress(index))):
        path = "main/binary-%s/%s" % (arch, name)
        put(root, "deb.debian.org/debian/dists/stable/" + path, body)
        lines.append(" %s %d %s" % (hashlib.sha256(body).hexdigest(), len(body), path))
    put(root, "deb.debian.org/debian/dists/stable/Release", "\n".join(lines) + "\n")


def golang(root):
    at, module = "proxy.golang.org/example.org/demo/@v/", "module example.org/demo\n\ngo 1.16\n"
    prefix = "example.org/demo@v1.0.0/"
    put(root, at + "list", "v1.0.0\n")
    put(root, at + "v1.0.0.info", json.dumps({"Version": "v1.0.0", "Time": "2026-01-01T00:00:00Z"}))
    put(root, at + "v1.0.0.mod", module)
    put(root, at + "v1.0.0.zip", zipped({prefix + "go.mod": module,
                                         prefix + "demo.go": "package demo\n\nconst Value = \"from go\"\n"}))


def crates(root):
    data = tarball({"croft-demo-1.0.0/Cargo.toml": "[package]\nname = \"croft-demo\"\nversion = \"1.0.0\"\n"
                    "edition = \"2018\"\n", "croft-demo-1.0.0/src/lib.rs": "pub const VALUE: &str = \"from crates\";\n"})
    put(root, "index.crates.io/config.json", json.dumps({"dl": "https://static.crates.io/crates",
                                                         "api": "https://crates.io"}))
    put(root, "index.crates.io/cr/of/croft-demo", json.dumps(
        {"name": "croft-demo", "vers": "1.0.0", "deps": [], "cksum": hashlib.sha256(data).hexdigest(),
         "features": {}, "yanked": False}) + "\n")
    put(root, "static.crates.io/crates/croft-demo/1.0.0/download", data)


def git(root):
    """owner/demo.git with one commit, owner/other.git empty; pushes are taken from anyone."""
    env = {"PATH": "/usr/bin:/bin", "HOME": root, "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@t",
           "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@t", "GIT_CONFIG_NOSYSTEM": "1"}

    def run(*argv, cwd=root):
        subprocess.run(["git", *argv], cwd=cwd, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    for name in ("owner/demo.git", "owner/other.git", "stranger/drop.git"):
        run("init", "-q", "--bare", "-b", "main", name)
        run("config", "http.receivepack", "true", cwd=os.path.join(root, name))
    tree = os.path.join(root, "tree")
    run("init", "-q", "-b", "main", tree)
    put(tree, "README", "from git\n")
    run("add", ".", cwd=tree)
    run("commit", "-qm", "first", cwd=tree)
    run("push", "-q", os.path.join(root, "owner/demo.git"), "main", cwd=tree)
    shutil.rmtree(tree)


def build(directory):
    """Everything that is served from files."""
    www, root = os.path.join(directory, "www"), os.path.join(directory, "sites")
    put(www, "static/small", "static file\n")
    put(www, "static/big", b"0123456789abcdef" * (4 << 16))
    for make in (npm, pypi, golang, crates):
        make(root)
    debian(root, os.path.join(directory, "scratch"))
    os.makedirs(os.path.join(directory, "git"))
    git(os.path.join(directory, "git"))
