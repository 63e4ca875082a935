#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gRPC to a host with a secret (S3): HTTP/2 all the way, trailers included, and the value comes back in none of it."""
import json
import subprocess

import place  # first: it finds the harness
from place import PYTHON, Skip, case, check, need_service

VALUE = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
HOST = "grpc.example.com"
CLIENT = r'''
import json, os, sys, grpc
def plain(x): return x
ca = open(os.environ["SSL_CERT_FILE"], "rb").read()
c = grpc.secure_channel("grpc.example.com:%s" % sys.argv[1], grpc.ssl_channel_credentials(ca))
auth = (("authorization", "Bearer " + os.environ["TOKEN"]),)
out = {}
def unary(name, data, **kw):
    return c.unary_unary("/croft.Echo/" + name, plain, plain).with_call(data, timeout=20, **kw)
out["say"] = [unary("Say", b"%d" % i, metadata=auth)[0].decode() for i in range(3)]
answer, call = unary("Who", b"", metadata=auth)
out["who"] = [answer.decode(), dict(call.initial_metadata()).get("x-head"), dict(call.trailing_metadata())]
out["big"] = len(unary("Say", b"z" * 900000, metadata=auth)[0])
try:
    unary("Fail", b"", metadata=auth)
except grpc.RpcError as e:
    out["fail"] = [e.code().name, e.details()]
try:
    unary("None", b"", metadata=auth)
except grpc.RpcError as e:
    out["none"] = e.code().name
out["chat"] = [m.decode() for m in c.stream_stream("/croft.Echo/Chat", plain, plain)(iter([b"a", b"b", b"c"]), timeout=30, metadata=auth)]
try:
    unary("Say", os.environ["TOKEN"].encode(), metadata=auth)
except grpc.RpcError as e:
    out["body"] = e.code().name
print(json.dumps(out))
'''


@case("S3-grpc")
def grpc(p):
    need_service("grpc")
    if subprocess.run([PYTHON, "-c", "import grpc"], capture_output=True, check=False).returncode:
        raise Skip("python3-grpcio is not installed")
    r = p.croft("secret", "set", "TOKEN", stdin=VALUE)
    if r.rc:
        raise Skip("no secrets here: %s" % r.err)
    p.write("client.py", CLIENT)
    policy = {"allow": [{"host": HOST, "ports": [PORT], "mode": "http"}], "secrets": [{"name": "TOKEN", "host": HOST, "port": PORT, "place": "bearer"}]}
    r, _ = p.croft_run(policy, PYTHON, "client.py", str(PORT), timeout=90)
    check(r.rc == 0, r)
    out = json.loads(r.out)
    hidden = "Bearer " + "*" * len(VALUE)
    check(VALUE not in r.out + r.err, "the value came back: %s" % r)
    check(out["say"] == ["echo 0", "echo 1", "echo 2"] and out["big"] == 900005, out)
    check(out["who"][:2] == ["<%s>" % hidden, hidden], out)
    check(out["who"][2]["x-end"] == hidden and out["who"][2]["x-length"] == str(7 + len(VALUE)), "the server did not see the value: %s" % out)
    check(out["fail"] == ["PERMISSION_DENIED", "not " + hidden] and out["none"] == "UNIMPLEMENTED", out)
    check(out["chat"] == ["echo a", "echo b", "echo c"], out)
    check(out["body"] == "PERMISSION_DENIED", out)  # a placeholder where it does not belong: 403


PORT = 443

if __name__ == "__main__":
    place.main()
