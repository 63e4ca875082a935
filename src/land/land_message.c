/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commit messages: the user's words, the agent's made printable, or made up; and trailers that lead from
 * the commit to its evidence. Nobody is signed off here: that is for a person to say.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "land/land_impl.h"
#include "git/program.h"

#define TITLE_MAX 72
#define MESSAGE_LINE_MAX 2000u

/* One line, printable. */
static void add_line(struct buf *out, const char *s, size_t n)
{
	str_show(out, s, n > MESSAGE_LINE_MAX ? MESSAGE_LINE_MAX : n);
}

static void add_trailers(struct land_job *j, struct buf *out)
{
	const struct env *v = j->v;

	buf_addf(out, "Croft-Env: %s\n", v->id);
	if (v->tip_known && v->tip.envelope.hex[0])
		buf_addf(out, "Croft-Evidence: %s\n", v->tip.envelope.hex);
	if (v->agent && v->agent[0]) {
		buf_adds(out, "Assisted-by: ");
		add_line(out, v->agent, strcspn(v->agent, "\n"));
		if (v->model && v->model[0]) {
			buf_addc(out, ':');
			add_line(out, v->model, strcspn(v->model, "\n"));
		}
		buf_addc(out, '\n');
	}
}

static void add_stat(
	struct land_job *j, const struct oid *from, const struct oid *to, struct buf *out)
{
	cleanup_buf struct buf stat = BUF_INIT(256u << 10);
	struct oid_hex a = oid_hex(from), b = oid_hex(to);
	const char *argv[] = {"-c", "core.bigFileThreshold=8m", "diff-tree", "--stat=72",
		"--stat-count=40", a.s, b.s, NULL};
	struct git_run run = {.argv = argv,
		.git_dir = j->v->repo.store,
		.out = &stat,
		.data_max_b = GIT_SHOW_DATA_MAX_B};
	struct err ignored = ERR_INIT;
	const char *p = "";

	if (git_run(&run, &ignored) == 0)
		p = buf_str(&stat);
	while (*p) {
		size_t n = strcspn(p, "\n");

		add_line(out, p, n);
		buf_addc(out, '\n');
		p += n + (p[n] == '\n');
	}
}

static void end_body(struct buf *out)
{
	while (out->len > 0 && out->data[out->len - 1] == '\n')
		out->data[--out->len] = '\0';
	buf_adds(out, "\n\n");
}

void land_message(struct land_job *j, const char *given, const struct oid *from,
	const struct oid *to, struct buf *out)
{
	const struct env *v = j->v;

	if (given) {
		buf_adds(out, given);
	} else {
		size_t n = v->task ? strcspn(v->task, "\n") : 0;

		if (n > 0) {
			add_line(out, v->task, n > TITLE_MAX ? TITLE_MAX : n);
			buf_adds(out, n > TITLE_MAX ? "…\n\n" : "\n\n");
		} else {
			buf_addf(out, "Apply croft env %s\n\n", v->name);
		}
		add_stat(j, from, to, out);
	}
	end_body(out);
	add_trailers(j, out);
}

/* Trailers that are not the sandbox's to write. */
static bool is_ours(const char *line, size_t n)
{
	static const char *const names[] = {
		"Signed-off-by:", "Croft-Env:", "Croft-Evidence:", "Assisted-by:"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (n >= strlen(names[i]) && strncasecmp(line, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

void land_message_of(struct land_job *j, const char *theirs, struct buf *out)
{
	bool any = false;

	while (*theirs) {
		size_t n = strcspn(theirs, "\n");

		if (!is_ours(theirs, n)) {
			any |= n > 0;
			add_line(out, theirs, n);
			buf_addc(out, '\n');
		}
		theirs += n + (theirs[n] == '\n');
	}
	if (!any)
		buf_addf(out, "Apply croft env %s", j->v->name);
	end_body(out);
	add_trailers(j, out);
}
