#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gRPC echo over TLS, without generated code: grpc_echo.py ADDRESS:PORT CERTIFICATE KEY.

Methods of croft.Echo: Say (unary), Chat (a stream both ways), Who and Fail (what the caller's metadata was); messages are plain bytes.
"""
import sys
from concurrent import futures

import grpc


def who(_request, context):
    """Whom the server takes the caller for; said in the answer, in its head and in its trailers."""
    value = dict(context.invocation_metadata()).get("authorization", "")
    context.send_initial_metadata((("x-head", value),))
    context.set_trailing_metadata((("x-end", value), ("x-length", str(len(value)))))
    return b"<" + value.encode() + b">"


def fail(_request, context):
    context.abort(grpc.StatusCode.PERMISSION_DENIED, "not " + dict(context.invocation_metadata()).get("authorization", ""))


class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        if details.method == "/croft.Echo/Say":
            return grpc.unary_unary_rpc_method_handler(lambda request, _context: b"echo " + request)
        if details.method == "/croft.Echo/Chat":
            return grpc.stream_stream_rpc_method_handler(lambda requests, _context: (b"echo " + r for r in requests))
        if details.method == "/croft.Echo/Who":
            return grpc.unary_unary_rpc_method_handler(who)
        if details.method == "/croft.Echo/Fail":
            return grpc.unary_unary_rpc_method_handler(fail)
        return None


def read(path):
    with open(path, "rb") as f:
        return f.read()


def main():
    where, cert, key = sys.argv[1:]
    server = grpc.server(futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers((Echo(),))
    server.add_secure_port(where, grpc.ssl_server_credentials([(read(key), read(cert))]))
    server.start()
    print("ready", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
