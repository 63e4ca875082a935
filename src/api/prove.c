/* SPDX-License-Identifier: Apache-2.0 */
/* croft_prove: the probes (src/prove), each executed by libcroft's own public calls. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api_impl.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "os/cgroup.h"
#include "os/starter.h"
#include "prove/prove.h"

#define PROVE_ENVIRONMENT "prove"
#define PATHS_MAX 16

/* The limits that the receipt calls degraded: per process only, or not at all. */
static void name_unheld(const struct receipt *r, char *why, size_t why_size)
{
	bool pids =
		(r->cgroup_has & CGROUP_HAS_PIDS) || (r->enforced.rlimit_pids && geteuid() != 0);

	snprintf(why, why_size, "%s%s%s", r->cgroup_has & CGROUP_HAS_MEMORY ? "" : "memory ",
		pids ? "" : "pids ", r->enforced.ns_mount ? "" : "disk ");
}

/* What a made environment adds to the policy, as `croft exec` reads it. */
struct added {
	char *dir, **args;
	const char *read[PATHS_MAX], *write[PATHS_MAX];
};

static void added_done(struct added *d)
{
	for (size_t i = 0; d->args && d->args[i]; i++)
		free(d->args[i]);
	free(d->args);
	free(d->dir);
}

/* The list with what follows each `option` in args; false when it has no room. */
static bool collect(
	const char *ret[PATHS_MAX], const char *const *list, char **args, const char *option)
{
	size_t n = 0;

	for (; list && *list && n < PATHS_MAX; list++)
		ret[n++] = *list;
	for (; args[0] && args[1] && n < PATHS_MAX; args += 2)
		if (str_eq(args[0], option))
			ret[n++] = args[1];
	if (n < PATHS_MAX)
		ret[n] = NULL;
	return n < PATHS_MAX;
}

/*
 * As `croft new` does it. The policy is then loaded again, for an environment may be a copy: with a
 * directory of its own, and objects that it has to read.
 */
static int make_environment(struct croft *c, struct croft_policy_options *po,
	struct croft_policy **p, struct added *ret)
{
	struct croft_new_options no = {0};
	cleanup_free char *report = NULL;

	if (croft_env_new(c, PROVE_ENVIRONMENT, *p, &no, CROFT_TEXT, &report) < 0 ||
		croft_env_args(c, PROVE_ENVIRONMENT, &ret->dir, &ret->args) < 0)
		return -1;
	if (!collect(ret->read, po->read, ret->args, "--read") ||
		!collect(ret->write, po->write, ret->args, "--write"))
		return err_set(&c->err, E2BIG, "use the options of an environment");
	po->directory = ret->dir;
	po->read = ret->read;
	po->write = ret->write;
	croft_policy_free(*p);
	*p = NULL;
	return croft_policy_load(c, po, p);
}

/* The same steps as `croft run`: policy, environment, execute. In a process of its own. */
static int execute_cell(void *arg, const struct prove_cell *cell, char *why, size_t why_size)
{
	struct croft_policy_options po = {.directory = cell->workspace,
		.tier = cell->tier,
		.read = cell->read,
		.write = cell->write,
		.deny = cell->deny,
		.set = cell->set};
	struct croft_env_options eo = {.staged = cell->place == PLACE_STAGED};
	const char *name = cell->place == PLACE_ENVIRONMENT ? PROVE_ENVIRONMENT : NULL;
	struct added added = {0};
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
	if (croft_policy_load(c, &po, &p) < 0 ||
		(name && make_environment(c, &po, &p, &added) < 0) ||
		croft_env_open(c, name, p, &eo, &e) < 0 || croft_execute(e, "exec", &in, &r) < 0) {
		snprintf(why, why_size, "%s", croft_error(c));
		code = croft_error_exit(c);
	} else {
		code = croft_receipt_exit(r);
		name_unheld(&r->receipt, why, why_size);
	}
	croft_receipt_free(r);
	croft_env_close(e);
	croft_policy_free(p);
	added_done(&added);
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
