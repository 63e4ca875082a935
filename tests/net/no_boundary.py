#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A croft that keeps nothing in: the command runs as it is, with a receipt that says all is well.

The control of the controls, by hand: with CROFT set to this file every case about a refusal has to fail.
    CROFT=tests/net/no_boundary.py tests/net/test_reach.py
"""
import glob
import json
import os
import subprocess
import sys

TRUST = ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "PIP_CERT")


def main():
    words = sys.argv[1:]
    if "--help" in words or words[:1] != ["run"]:
        print("--publish")
        return 0
    end = words.index("--")
    env = dict(os.environ)
    for ca in glob.glob("/var/tmp/croft-world.*/ca/ca.pem"):
        env.update(dict.fromkeys(TRUST, ca))
    status = subprocess.run(words[end + 1:], env=env, check=False).returncode
    if "--json" in words[:end]:
        with open(words[words.index("--json") + 1], "w", encoding="utf-8") as f:
            json.dump({"denials": [], "network": {"gateway": "served", "mode": "transparent", "hosts": []}}, f)
    return status


if __name__ == "__main__":
    sys.exit(main())
