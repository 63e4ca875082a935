/* SPDX-License-Identifier: Apache-2.0 */
/* A1, A3, S7: widening one's own policy, a sandbox in the sandbox, the caller's environment. */
#include "prove/prove.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define OUTPUT_MAX 16384

static int try_append(const char *path)
{
	cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

	return fd < 0 ? -1 : (int)write(fd, "\n", 1);
}

/* Where croft reads policy, keeps approvals and writes receipts. */
static enum probe_result a1_policy(const struct probe_args *a, struct buf *detail)
{
	static const char *const dirs[] = {"home/.config", "home/.config/croft", "home/.local",
		"home/.local/state", "home/.local/state/croft", "home/.local/share",
		"home/.local/share/croft", "home/.cache", "home/.cache/croft"};
	static const char *const files[] = {"home/.config/croft/policy.yaml",
		"home/.local/state/croft/trust", "home/.local/state/croft/runs",
		"home/.local/share/croft/trust", "home/.cache/croft/x"};
	struct probe_tally t = tally_start(a, detail);

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		mkdir(probe_path(a, dirs[i]), 0700);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		tally_try(&t, try_append(probe_path(a, files[i])), "%s", files[i]);
	mkdir("/etc/croft", 0755);
	/* Not as the control: it would be the machine's own policy. */
	if (!a->control)
		tally_try(&t, try_append("/etc/croft/policy.yaml"), "/etc/croft/policy.yaml");
	return tally_end(&t);
}

/* A croft started inside may not give more than the one around it. */
static enum probe_result a3_nested(const struct probe_args *a, struct buf *detail)
{
	static const char *const tiers[] = {"process", "namespace"};
	const char *exe = probe_arg(a, "exe"), *outside = probe_path(a, "outside");
	struct probe_tally t = tally_start(a, detail);

	if (!*exe)
		return probe_skip(detail, "the launcher's path was not given");
	for (size_t i = 0; i < ARRAY_SIZE(tiers); i++) {
		char bait[4200], token[128], out[OUTPUT_MAX] = "";
		const char *const argv[] = {exe, "run", "-q", "--tier", tiers[i], "--direct",
			"--allow-degraded", "--read", outside, "--read", exe, "--", exe, "probe",
			"F1-outside", bait, token, NULL};

		snprintf(bait, sizeof(bait), "bait=%s", probe_arg(a, "bait"));
		snprintf(token, sizeof(token), "token=%s", a->token);
		probe_spawn(argv, -1, out, sizeof(out));
		errno = EACCES;
		tally_try(
			&t, strstr(out, "ESCAPED ") ? 0 : -1, "a croft inside, %s tier", tiers[i]);
	}
	return tally_end(&t);
}

static enum probe_result s7_environment(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	const char *leaked = NULL;

	for (char **e = environ; *e; e++)
		if (strstr(*e, a->token))
			leaked = *e;
	errno = ENODATA;
	tally_try(&t, leaked ? 0 : -1, "a variable of the caller with a secret");
	return tally_end(&t);
}

static const struct probe probes[] = {
	{"A1", "A1-policy", "edit policy, approvals or receipts", PROBE_BOTH, a1_policy,
		.outside = true, .rules = RULES_EITHER},
	{"A3", "A3-nested", "widen by a croft inside croft", PROBE_BOTH, a3_nested},
	{"S7", "S7-environment", "read the caller's environment variables", PROBE_BOTH,
		s7_environment},
};
const struct probe_family probes_agents = {probes, ARRAY_SIZE(probes)};
