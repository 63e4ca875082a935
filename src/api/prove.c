/* SPDX-License-Identifier: Apache-2.0 */
/* croft_prove: the probes (src/prove), each executed by libcroft's own public calls. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/internal.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "os/cgroup.h"
#include "os/starter.h"
#include "prove/prove.h"

/* The limits that the receipt calls degraded: per process only, or not at all. */
static void name_unheld(const struct receipt *r, char *why, size_t why_size)
{
	bool pids =
		(r->cgroup_has & CGROUP_HAS_PIDS) || (r->enforced.rlimit_pids && geteuid() != 0);

	snprintf(why, why_size, "%s%s%s", r->cgroup_has & CGROUP_HAS_MEMORY ? "" : "memory ",
		pids ? "" : "pids ", r->enforced.ns_mount ? "" : "disk ");
}

/* The same steps as `croft run`: policy, environment, execute. In a process of its own. */
static int execute_cell(void *arg, const struct prove_cell *cell, char *why, size_t why_size)
{
	struct croft_policy_options po = {.directory = cell->workspace,
		.tier = cell->tier,
		.read = cell->read,
		.deny = cell->deny,
		.set = cell->set};
	struct croft_env_options eo = {0};
	struct croft_input in = {
		.argv = cell->argv, .fd = {cell->stdin_fd, cell->stdout_fd, -1}, .label = "prove"};
	struct croft *c = croft_new();
	struct croft_policy *p = NULL;
	struct croft_env *e = NULL;
	struct croft_receipt *r = NULL;
	int code;

	(void)arg;
	/* Forked from the process that proves: that one is who started this run. */
	starter_bind(getppid());
	if (!c)
		return CROFT_EXIT_FAILED;
	if (croft_policy_load(c, &po, &p) < 0 || croft_env_open(c, NULL, p, &eo, &e) < 0 ||
		croft_execute(e, "exec", &in, &r) < 0) {
		snprintf(why, why_size, "%s", croft_error(c));
		code = croft_error_exit(c);
	} else {
		code = croft_receipt_exit(r);
		name_unheld(&r->receipt, why, why_size);
	}
	croft_receipt_free(r);
	croft_env_close(e);
	croft_policy_free(p);
	croft_free(c);
	return code;
}

int croft_prove(
	struct croft *c, const char *tier, const char *only, enum croft_format f, char **ret)
{
	struct prove_options o = {
		.tier = tier && *tier && !str_eq(tier, "auto") ? tier : "namespace",
		.only = only,
		.json = f == CROFT_JSON,
		.execute = execute_cell};
	cleanup_buf struct buf out = BUF_INIT(PROVE_REPORT_MAX);
	int n;

	c->err = ERR_INIT;
	if (!str_eq(o.tier, "namespace") && !str_eq(o.tier, "process") && !str_eq(o.tier, "none"))
		return err_invalid(&c->err,
			"no probes for tier \"%.32s\"; try namespace, process, or none for the "
			"controls",
			o.tier);
	n = prove_run(&o, &out, &c->err);
	if (n < 0)
		return n;
	*ret = buf_take(&out);
	return *ret ? n : err_set(&c->err, ENOMEM, "write the report");
}

int croft_probe_main(int argc, char **argv)
{
	return probe_main(argc, argv);
}
