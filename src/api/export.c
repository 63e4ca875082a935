/* SPDX-License-Identifier: Apache-2.0 */
/* libcroft: evidence for others. Bundles, gates, replays. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "api/api_impl.h"
#include "base/cleanup.h"
#include "evidence/export.h"
#include "evidence/gate.h"
#include "evidence/replay.h"
#include "os/path.h"

#define REPORT_MAX (256u << 20)

extern char **environ;

int croft_evidence_export(
	struct croft *c, const char *name, const struct croft_export_options *o, char **ret)
{
	const struct export_request q = {.what = name,
		.directory = o->directory,
		.output = o->output,
		.git_ai = o->git_ai,
		.agent_trace = o->agent_trace};
	cleanup_buf struct buf b = BUF_INIT(1u << 20);
	int r;

	c->err = ERR_INIT;
	if (!o->directory || !*o->directory)
		return err_invalid(&c->err, "a bundle needs a directory to be written to");
	r = export_bundle(&q, &b, &c->err);
	return api_give(c, r, &b, ret);
}

/* Whole or not at all, in place of what was there. */
static int write_file(const char *path, const struct buf *b, struct err *e)
{
	cleanup_free char *copy = strdup(path);
	char *slash = copy ? strrchr(copy, '/') : NULL;
	cleanup_fd int dir = -1;
	int r;

	if (!copy || b->failed)
		return err_set(e, ENOMEM, "write %.512s", path);
	if (slash)
		*slash = '\0';
	dir = open(!slash ? "." : slash == copy ? "/" : copy, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_set(e, errno, "write %.512s", path);
	r = file_replace_at(dir, slash ? slash + 1 : copy, buf_str(b), b->len, 0644);
	return r < 0 ? err_set(e, -r, "write %.512s", path) : 0;
}

int croft_evidence_check(struct croft *c, const char *gate_file, const char *range,
	const char *sarif_file, enum croft_format f, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX), sarif = BUF_INIT(REPORT_MAX);
	struct gate_result g = {0};
	int r, bad;

	c->err = ERR_INIT;
	r = gate_check(&g, gate_file, range, &c->err);
	if (r < 0)
		return r;
	if (f == CROFT_JSON)
		gate_json(&g, &b);
	else
		gate_text(&g, &b);
	if (sarif_file) {
		gate_sarif(&g, &sarif);
		r = write_file(sarif_file, &sarif, &c->err);
	}
	bad = g.bad > 0;
	gate_result_done(&g);
	if (r == 0)
		r = api_give(c, 0, &b, ret);
	return r < 0 ? r : bad;
}

int croft_replay(struct croft *c, const char *name, const struct croft_replay_options *o,
	enum croft_format f, char **ret)
{
	const struct replay_request q = {.name = name,
		.event = o->event,
		.policy = o->policy ? &o->policy->policy : NULL,
		.keep = o->keep,
		.verbose = o->verbose,
		.environ = environ};
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX);
	cleanup_replay struct replay r = {0};
	int rc;

	c->err = ERR_INIT;
	rc = replay(&r, &q, &c->err);
	if (rc < 0)
		return rc;
	if (f == CROFT_JSON)
		replay_json(&r, &b);
	else
		replay_text(&r, &b);
	rc = api_give(c, 0, &b, ret);
	return rc < 0 ? rc : r.failed > 0;
}
