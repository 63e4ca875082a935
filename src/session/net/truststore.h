/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is trusted inside a sandbox: the host's authorities and the sandbox's own.
 *
 * Purpose: the bytes of the files (a PEM bundle, the own certificate alone, a Java key store), the
 *          places on the host that programs read without asking, and the variables that name such
 *          files.
 * Trust:   the host's bundle is the host's; still it is read within bounds, and one that is cut off
 *          in the middle of a certificate is refused, because it would swallow ours.
 * Limits:  programs with a store of their own (browsers' NSS, Electron) and OpenSSL's directory of
 *          hashed names are not reached by files; variables reach the latter.
 */
#ifndef CROFT_SESSION_NET_TRUSTSTORE_H
#define CROFT_SESSION_NET_TRUSTSTORE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "ipc/gateway_message.h"
#include "policy/policy.h"

#define TRUSTSTORE_HOST_MAX ((size_t)4 << 20)              /* bytes of the host's bundle */
#define TRUSTSTORE_BUNDLE_MAX (TRUSTSTORE_HOST_MAX + 4096) /* with ours */
#define TRUSTSTORE_JAVA_MAX TRUSTSTORE_BUNDLE_MAX          /* DER is shorter than base64 */
#define TRUSTSTORE_CERTS_MAX 4096
#define TRUSTSTORE_CERT_MAX 65536 /* bytes of one certificate */

/*
 * Where the files stand in a private root. Elsewhere they are in a directory that the caller names.
 */
#define TRUSTSTORE_DIR "/.croft/trust"
#define TRUSTSTORE_BUNDLE_FILE "bundle.pem"
#define TRUSTSTORE_CA_FILE "ca.pem"
#define TRUSTSTORE_JAVA_FILE "cacerts"
#define TRUSTSTORE_JAVA_PASSWORD "changeit" /* public: it is in every JDK, and protects nothing */

/*
 * The host's bundle, a newline and our certificate. host_fd: a regular file, read from its start
 * whatever its offset is; -1 when the host has none. `out` wants a maximum of
 * TRUSTSTORE_BUNDLE_MAX.
 */
int truststore_bundle(struct buf *out, const struct gateway_ca *ca, int host_fd, struct err *e);
/*
 * Does this list of the host's end with a certificate? One that was cut off in the middle of one
 * would swallow ours. path: for the reason only.
 */
int truststore_check(int fd, const char *path, struct err *e);
/*
 * The certificates of a PEM bundle as a Java key store (JKS), which every JVM since 1.2 reads, with
 * the password or without. `out` wants a maximum of TRUSTSTORE_JAVA_MAX.
 */
int truststore_java(struct buf *out, const char *bundle, size_t n, struct err *e);

/*
 * The same, sooner: the host's own key store with our certificate added, in parts. The new store is
 * `head`, the host's file without its first TRUSTSTORE_JAVA_CUT_HEAD and last
 * TRUSTSTORE_JAVA_CUT_TAIL bytes, `tail`. 1 when done; 0 when the host's is of another format.
 * cache_dir: a directory of the user's own, in which a sum over the host's file is kept; -1: none.
 */
#define TRUSTSTORE_JAVA_CUT_HEAD 12
#define TRUSTSTORE_JAVA_CUT_TAIL 20
int truststore_java_parts(struct buf *head, struct buf *tail, const struct gateway_ca *ca,
	int host_fd, int cache_dir, struct err *e);

/*
 * Files of the host that programs read by themselves. Whichever exist get the merged file mounted
 * over what they resolve to: several are symlinks to one. The first that exists is the host's
 * bundle. Both lists end with NULL.
 */
extern const char *const truststore_bundle_paths[];
extern const char *const truststore_java_paths[];

enum truststore_what {
	TRUSTSTORE_BUNDLE, /* replaces what the program trusts: the merged bundle */
	TRUSTSTORE_CA,     /* is added to what the program trusts: our certificate alone */
	TRUSTSTORE_JAVA,   /* options of a JVM: the Java key store */
	TRUSTSTORE_WHAT_NUM
};

struct truststore_var {
	const char *name;
	enum truststore_what what;
};
extern const struct truststore_var truststore_vars[];
extern const size_t truststore_vars_n;

/*
 * Put the variables into env (NAME=VALUE, as environ_build() left it; v[n] is NULL again
 * afterwards). What the policy sets (set, set_n) is left as it is, except that options of a JVM are
 * added to it unless they name a trust store; what merely came from the caller's environment is
 * replaced, since a file of the host's does not hold our certificate. dir: absolute. java: there is
 * a TRUSTSTORE_JAVA_FILE in it.
 */
int truststore_env(struct strlist *env, const char *dir, bool java, const struct policy_var *set,
	size_t set_n, struct err *e);

#endif
