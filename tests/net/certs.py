# SPDX-License-Identifier: Apache-2.0
"""A certificate authority for the test world, made with the openssl program."""
import os
import subprocess

GOOD_DAYS = "30"


def openssl(*argv, cwd):
    r = subprocess.run(["openssl", *argv], cwd=cwd, capture_output=True, text=True, check=False)
    if r.returncode:
        raise RuntimeError("openssl %s: %s" % (argv[0], r.stderr.strip()))


class Authority:
    """Certificates by name; files are NAME.pem (with the chain) and NAME.key in one directory."""

    def __init__(self, directory, name="croft test authority"):
        self.dir = directory
        os.makedirs(directory)
        self.ca = os.path.join(directory, "ca.pem")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", GOOD_DAYS,
                "-subj", "/CN=" + name, "-keyout", "ca.key", "-out", "ca.pem",
                "-addext", "keyUsage=critical,keyCertSign,cRLSign", cwd=directory)
        for file in ("index.txt", "serial"):
            with open(os.path.join(directory, file), "w", encoding="ascii") as f:
                f.write("01\n" if file == "serial" else "")

    def _request(self, name, hosts):
        alternatives = ",".join(("IP:" if h.replace(".", "").isdigit() or ":" in h else "DNS:") + h for h in hosts)
        with open(os.path.join(self.dir, name + ".cnf"), "w", encoding="ascii") as f:
            f.write("[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\nserial=serial\nnew_certs_dir=.\ndefault_md=sha256\n"
                    "policy=p\ncopy_extensions=none\nx509_extensions=v\nunique_subject=no\n[p]\ncommonName=optional\n"
                    "[req]\ndistinguished_name=n\n[n]\n[v]\nbasicConstraints=critical,CA:FALSE\n"
                    "extendedKeyUsage=serverAuth\nsubjectAltName=" + alternatives + "\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-config", name + ".cnf",
                "-subj", "/CN=" + name, "-keyout", name + ".key", "-out", name + ".csr", cwd=self.dir)
        return os.path.join(self.dir, name + ".pem"), os.path.join(self.dir, name + ".key")

    def issue(self, name, hosts, expired=False):
        """(certificate, key) for these host names."""
        pem, key = self._request(name, hosts)
        when = ["-startdate", "20200101000000Z", "-enddate", "20210101000000Z"] if expired else ["-days", GOOD_DAYS]
        openssl("ca", "-batch", "-notext", "-config", name + ".cnf", "-cert", "ca.pem", "-keyfile", "ca.key",
                "-in", name + ".csr", "-out", name + ".pem", *when, cwd=self.dir)
        return pem, key

    def self_signed(self, name, hosts):
        pem, key = self._request(name, hosts)
        openssl("req", "-x509", "-config", name + ".cnf", "-extensions", "v", "-key", name + ".key",
                "-subj", "/CN=" + hosts[0], "-days", GOOD_DAYS, "-out", name + ".pem", cwd=self.dir)
        return pem, key
