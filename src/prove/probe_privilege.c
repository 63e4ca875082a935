/* SPDX-License-Identifier: Apache-2.0 */
/* K8 and K11: privilege left over, and programs started by another door. */
#include "prove/prove.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "os/uapi.h"

#define OUTPUT_MAX 16384
#ifndef PR_CAP_AMBIENT
#define PR_CAP_AMBIENT 47
#define PR_CAP_AMBIENT_RAISE 2
#endif

/* ---- K8 ---- */

static enum probe_result k8_capabilities(const struct probe_args *a, struct buf *detail)
{
	static const char *const sets[] = {"CapInh:", "CapPrm:", "CapEff:", "CapAmb:", "CapBnd:"};
	cleanup_file FILE *f = fopen("/proc/self/status", "re");
	struct probe_tally t = tally_start(a, detail);
	char line[256];

	if (!f)
		return probe_skip(detail, "/proc/self/status cannot be read");
	errno = EPERM;
	while (fgets(line, sizeof(line), f)) {
		if (str_starts(line, "NoNewPrivs:"))
			tally_try(&t, strchr(line, '1') ? -1 : 0, "no_new_privs is off");
		for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
			unsigned long long v;

			if (!str_starts(line, sets[i]))
				continue;
			v = strtoull(line + strlen(sets[i]), NULL, 16);
			/*
			 * Only root may empty the bounding set; without new privileges it gives
			 * nothing. Inheritable and ambient sets are empty for most callers.
			 */
			if ((i == 4 && !a->namespaced && geteuid() != 0) || (a->control && !v))
				tally_na(&t);
			else
				tally_root(&t, v ? 0 : -1, "%.6s is %llx", sets[i], v);
			errno = EPERM;
		}
	}
	return tally_end(&t);
}

static long become_other(void *arg)
{
	(void)arg;
	return syscall(SYS_setresuid, 65534, 65534, 65534);
}

static long other_group(void *arg)
{
	(void)arg;
	return syscall(SYS_setresgid, 65534, 65534, 65534);
}

static long other_groups(void *arg)
{
	gid_t groups[1] = {65534};

	(void)arg;
	return syscall(SYS_setgroups, 1L, groups);
}

static long raise_all(void *arg)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2] = {{~0u, ~0u, 0}, {0x1ff, 0x1ff, 0}};

	(void)arg;
	return syscall(SYS_capset, &h, d);
}

static enum probe_result k8_regain(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);

	tally_root(&t, probe_in_child(become_other, NULL), "setresuid to another user");
	tally_root(&t, probe_in_child(other_group, NULL), "setresgid to another group");
	tally_root(&t, probe_in_child(other_groups, NULL), "setgroups");
	if (!a->control) /* what can be had outside differs with the container around */
		tally_try(&t, probe_in_child(raise_all, NULL), "capset");
	return tally_end(&t);
}

/* `croft probe --ids` by a planted copy of ourselves prints "effective-uid effective-capabilities".
 */
static void planted(struct probe_tally *t, const char *file, const char *what)
{
	const char *const argv[] = {file, "probe", "--ids", NULL};
	char out[128] = "";
	unsigned long long caps = 0;
	unsigned uid = 0;

	errno = EACCES;
	if (probe_spawn(argv, -1, out, sizeof(out)) != 0 ||
		sscanf(out, "%u %llx", &uid, &caps) != 2) {
		tally_try(t, -1, "run a %s program", what);
		return;
	}
	errno = EPERM;
	tally_try(t, uid != getuid() || caps ? 0 : -1, "a %s program ran as user %u with %llx",
		what, uid, caps);
}

static enum probe_result k8_setuid(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);

	if (access("suid", F_OK) < 0)
		return probe_skip(detail, "only root can plant a setuid program");
	planted(&t, "./suid", "setuid");
	if (access("fcap", F_OK) == 0)
		planted(&t, "./fcap", "file capability");
	return tally_end(&t);
}

/* ---- K11 ---- */

static int copy_self(int to)
{
	cleanup_fd int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	char chunk[65536];
	ssize_t n;

	if (from < 0)
		return -1;
	while ((n = read(from, chunk, sizeof(chunk))) > 0)
		if (write(to, chunk, (size_t)n) != n)
			return -1;
	return n < 0 ? -1 : 0;
}

/* Run the simplest probe by whatever argv says; its answer tells where that program stood. */
static void same_boundary(struct probe_tally *t, const char *file, int exec_fd, const char *what)
{
	char bait[4200], token[128];
	const char *const argv[] = {file, "probe", "F1-outside", bait, token, NULL};
	char out[OUTPUT_MAX] = "";
	int rc;

	snprintf(bait, sizeof(bait), "bait=%s", probe_arg(t->a, "bait"));
	snprintf(token, sizeof(token), "token=%s", t->a->token);
	rc = probe_spawn(argv, exec_fd, out, sizeof(out));
	errno = EACCES;
	tally_try(t, rc == PROBE_EXIT_ESCAPED && str_starts(out, "ESCAPED") ? 0 : -1, "%s", what);
}

/* Programs of the system, told to print the secret. */
static void prints_secret(struct probe_tally *t, const char *const *argv, const char *what)
{
	char out[OUTPUT_MAX] = "";

	if (access(argv[0], F_OK) < 0) {
		tally_na(t);
		return;
	}
	probe_spawn(argv, -1, out, sizeof(out));
	errno = EACCES;
	tally_try(t, strstr(out, t->a->token) ? 0 : -1, "%s", what);
}

static enum probe_result k11_doors(const struct probe_args *a, struct buf *detail)
{
	static const char *const loaders[] = {
		"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"};
	const char *secret = probe_path(a, "outside/.env");
	struct probe_tally t = tally_start(a, detail);
	int fd;

	fd = open("copy", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	if (fd >= 0 && copy_self(fd) == 0) {
		close(fd);
		same_boundary(&t, "./copy", -1, "a renamed copy");
	}
	fd = (int)syscall(SYS_memfd_create, "croft", 1u);
	if (fd >= 0 && copy_self(fd) == 0) {
		same_boundary(&t, "memfd", fd, "a program in memory");
		close(fd);
	}
	for (size_t i = 0; i < ARRAY_SIZE(loaders); i++) {
		const char *const argv[] = {loaders[i], "/bin/cat", secret, NULL};

		if (access(loaders[i], F_OK) == 0)
			prints_secret(&t, argv, "the dynamic loader");
	}
	fd = open("script", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	if (fd >= 0) {
		const char *const argv[] = {"./script", NULL};

		dprintf(fd, "#!/bin/cat %s\n", secret);
		close(fd);
		prints_secret(&t, argv, "a script's first line");
	}
	prints_secret(&t, (const char *const[]){"/bin/busybox", "cat", secret, NULL}, "busybox");
	return tally_end(&t);
}

static const struct probe probes[] = {
	{"K8", "K8-capabilities", "capabilities left, new privileges possible", PROBE_BOTH,
		k8_capabilities},
	{"K8", "K8-regain", "become another user, raise capabilities", PROBE_BOTH, k8_regain},
	{"K8", "K8-setuid", "run setuid and file-capability programs", PROBE_BOTH, k8_setuid},
	{"K11", "K11-doors", "start programs as copy, memfd, loader, script", PROBE_BOTH,
		k11_doors},
};
const struct probe_family probes_privilege = {probes, ARRAY_SIZE(probes)};
