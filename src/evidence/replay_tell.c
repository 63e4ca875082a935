/* SPDX-License-Identifier: Apache-2.0 */
/* What a replay found: see replay.h. */
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "evidence/replay.h"

#define ARGV_MAX_B (64u << 10)
#define ARGV_SHOWN 100u

static void show_argv(const struct story_command *c, struct buf *out)
{
	cleanup_buf struct buf b = BUF_INIT(ARGV_MAX_B);

	story_argv(c, &b);
	str_show(out, buf_str(&b), MIN_OF(b.len, ARGV_SHOWN));
	if (b.len > ARGV_SHOWN)
		buf_adds(out, "…");
}

static void exit_text(const struct story_command *c, struct buf *out)
{
	if (c->timed_out)
		buf_adds(out, "timed out");
	else if (c->signal)
		buf_addf(out, "signal %" PRId64, c->signal);
	else
		buf_addf(out, "exit %" PRId64, c->exit_code);
}

static void differences(const struct replay_command *c, struct buf *out)
{
	if (!c->exit_same) {
		buf_adds(out, "            ");
		exit_text(c->new, out);
		buf_adds(out, " instead of ");
		exit_text(c->old, out);
		buf_addc(out, '\n');
	}
	if (!c->test_same)
		buf_addf(out, "            the test %s, and had %s\n",
			c->new->passed ? "passed" : "failed", c->old->passed ? "passed" : "failed");
	if (c->tree_known && !c->tree_same)
		buf_addf(out, "            left tree %.12s instead of %.12s\n", c->new->tree,
			c->old->tree);
	if (c->denials_new) {
		const struct story_denial *d = c->first_new;
		const char *what = d->host && *d->host ? d->host : d->path ? d->path : "?";

		buf_addf(out, "            %zu new denial%s, the first: ", c->denials_new,
			c->denials_new == 1 ? "" : "s");
		str_show(out, d->operation ? d->operation : "access",
			strlen(d->operation ? d->operation : "access"));
		buf_addc(out, ' ');
		str_show(out, what, strlen(what));
		buf_addc(out, '\n');
	}
	if (c->denials_gone)
		buf_addf(out, "            %zu denial%s gone\n", c->denials_gone,
			c->denials_gone == 1 ? " is" : "s are");
}

void replay_text(const struct replay *r, struct buf *out)
{
	size_t holds = 0, not_run = 0;

	for (size_t i = 0; i < r->commands_n; i++) {
		const struct replay_command *c = &r->commands[i];

		holds += c->state == REPLAY_HOLDS;
		not_run += c->state == REPLAY_NOT;
		buf_addf(out, "%4s  %-14s ", story_command_name(c->old).s,
			replay_state_names[c->state]);
		show_argv(c->old, out);
		if (c->state == REPLAY_HOLDS) {
			buf_adds(out, "  (");
			exit_text(c->new, out);
			if (c->old->test)
				buf_addf(out, ", test %s", c->new->passed ? "passed" : "failed");
			buf_adds(out, c->tree_known ? ", same tree)" : ")");
		}
		buf_addc(out, '\n');
		if (c->state == REPLAY_DIFFERS)
			differences(c, out);
		if (c->why[0]) {
			buf_adds(out, "            ");
			str_show(out, c->why, strlen(c->why));
			buf_addc(out, '\n');
		}
	}
	for (size_t i = 0; i < r->notes.n; i++) {
		str_show(out, r->notes.v[i], strlen(r->notes.v[i]));
		buf_addc(out, '\n');
	}
	buf_addf(out, "%zu of %zu command%s as recorded%s; %zu not, %zu cannot be run again\n",
		holds, r->commands_n, r->commands_n == 1 ? "" : "s",
		r->candidate ? " under the candidate policy" : "", r->failed, not_run);
	if (r->kept)
		buf_addf(out, "kept as %s\n", r->env_name);
}

static void command_json(struct json *j, const struct replay_command *c)
{
	json_object(j, NULL);
	json_uint(j, "event", c->old->seq);
	if (c->old->entry)
		json_uint(j, "entry", c->old->entry);
	json_array(j, "command");
	for (size_t i = 0; i < jlen(c->old->argv); i++)
		json_str(j, NULL, jstr(jat(c->old->argv, i)));
	json_end(j);
	json_str(j, "state", replay_state_names[c->state]);
	if (c->why[0])
		json_str(j, "why", c->why);
	if (c->new && c->state <= REPLAY_DIFFERS) {
		json_object(j, "exit");
		json_int(j, "recorded", c->old->exit_code);
		json_int(j, "now", c->new->exit_code);
		json_bool(j, "same", c->exit_same);
		json_end(j);
		json_object(j, "tree");
		json_str(j, "recorded", c->old->tree);
		json_str(j, "now", c->new->tree);
		json_bool(j, "same", c->tree_same);
		json_end(j);
		json_object(j, "denials");
		json_uint(j, "new", c->denials_new);
		json_uint(j, "gone", c->denials_gone);
		json_end(j);
		if (c->old->test)
			json_bool(j, "test_holds", c->test_same);
	}
	json_end(j);
}

void replay_json(const struct replay *r, struct buf *out)
{
	struct json j;

	json_init(&j, out, true);
	json_object(&j, NULL);
	json_str(&j, "schema", "croft.replay/v1");
	json_str(&j, "env", r->verdict.env_id);
	json_str(&j, "base", r->old.base_commit);
	json_object(&j, "policy");
	json_str(&j, "digest", r->policy.hex);
	json_str(&j, "recorded", r->old.policy);
	json_bool(&j, "candidate", r->candidate);
	json_end(&j);
	json_bool(&j, "holds", r->failed == 0);
	json_str(&j, "kept", r->kept ? r->env_name : NULL);
	json_array(&j, "notes");
	for (size_t i = 0; i < r->notes.n; i++)
		json_str(&j, NULL, r->notes.v[i]);
	json_end(&j);
	json_array(&j, "commands");
	for (size_t i = 0; i < r->commands_n; i++)
		command_json(&j, &r->commands[i]);
	json_end(&j);
	json_end(&j);
	buf_addc(out, '\n');
}
