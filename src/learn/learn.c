/* SPDX-License-Identifier: Apache-2.0 */
/* Deriving a policy: see learn.h. */
#include "learn/learn.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "policy/runs.h"
#include "session/config/state.h"
#include "engine/plan/decoys.h"

int learn_init(struct learn *l, const struct policy *p, const char *home, const char *workspace)
{
	struct policy_context ctx = {.home = home, .workspace = workspace};

	*l = (struct learn){.policy = p, .home = home, .workspace = workspace};
	l->used = calloc(p->rules_n + 1, sizeof(*l->used));
	l->wanted = calloc(LEARN_PATHS_MAX, sizeof(*l->wanted));
	return learn_net_init(&l->net, p->net, &ctx) == 0 && l->used && l->wanted ? 0 : -ENOMEM;
}

void learn_done(struct learn *l)
{
	for (size_t i = 0; i < l->wanted_n; i++)
		free(l->wanted[i].path);
	free(l->wanted);
	free(l->used);
	learn_net_done(&l->net);
	*l = (struct learn){0};
}

/* Is this one of the places an attacker looks first, or below one? */
static bool is_secret(const struct learn *l, const char *path)
{
	char full[POLICY_PATH_MAX];

	for (size_t i = 0; i < decoy_paths_n; i++) {
		const char *d = decoy_paths[i].path;
		size_t n;

		snprintf(full, sizeof(full), "%s%s", d[0] == '~' ? l->home : "",
			d[0] == '~' ? d + 1 : d);
		n = strlen(full);
		if (strncmp(path, full, n) == 0 && (!path[n] || path[n] == '/'))
			return true;
	}
	return false;
}

/* Between quotes in a policy file it would be something else, or a pattern. */
static bool is_odd(const char *path)
{
	for (const char *s = path; *s; s++)
		if (*s == '"')
			return true;
	for (size_t i = 0, len; path[i]; i += len) {
		len = utf8_len(path + i, strlen(path + i));
		if (len == 0 || str_unsafe(path + i, len))
			return true;
	}
	return policy_has_glob(path);
}

static void want(struct learn *l, const char *path, bool write, bool secret)
{
	struct learn_path *w;

	for (size_t i = 0; i < l->wanted_n; i++) {
		w = &l->wanted[i];
		if (str_eq(w->path, path)) {
			w->write |= write;
			w->count++;
			return;
		}
	}
	if (l->wanted_n == LEARN_PATHS_MAX) {
		l->lost++;
		return;
	}
	w = &l->wanted[l->wanted_n];
	*w = (struct learn_path){.path = strdup(path),
		.write = write,
		.secret = secret,
		.odd = is_odd(path),
		.count = 1};
	if (w->path)
		l->wanted_n++;
	else
		l->lost++;
}

void learn_notice(void *arg, const struct notice *n)
{
	struct learn *l = arg;
	const struct policy_rule *rule = NULL;
	bool write = notice_changes((enum notice_op)n->op);

	l->seen++;
	policy_access(l->policy, n->path, &rule);
	if (!n->denied) {
		if (rule)
			l->used[rule - l->policy->rules]++;
		return;
	}
	if (n->op == NOTICE_CONNECT)
		return;
	want(l, n->path, write,
		is_secret(l, n->path) || (rule && rule->origin.layer == LAYER_FLOOR));
}

/* -1: there is none. A symlink or a device in its place is not it. */
static int open_journal(const char *home, const char *run_id)
{
	char path[POLICY_PATH_MAX];
	struct err e = ERR_INIT;
	struct stat st;
	size_t n;
	cleanup_fd int fd = -1;

	if (state_path(path, sizeof(path) - 64, home, &e) < 0)
		return -1;
	n = strlen(path);
	snprintf(path + n, sizeof(path) - n, "/runs/%.32s.net.jsonl", run_id);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? take_fd(&fd) : -1;
}

void learn_network(struct learn *l, const struct receipt *r)
{
	cleanup_fd int journal = -1;

	learn_net_receipt(&l->net, &r->network);
	if (r->network.state > NETWORK_IDLE) /* else there was no gateway to write one */
		journal = open_journal(l->home, r->id);
	learn_net_journal(&l->net, journal);
	learn_net_settle(&l->net);
}

/* As a policy file would spell it: "~/x", "./x", or absolute. */
static void add_spelling(const struct learn *l, const char *path, struct buf *out)
{
	const struct {
		const char *dir, *word;
	} bases[] = {{l->workspace, "."}, {l->home, "~"}};

	for (size_t i = 0; i < ARRAY_SIZE(bases); i++) {
		size_t n = strlen(bases[i].dir);

		if (strncmp(path, bases[i].dir, n) != 0 || (path[n] && path[n] != '/'))
			continue;
		buf_adds(out, bases[i].word);
		path += n;
		break;
	}
	str_show(out, path, strlen(path));
}

/* A grant that no access needed, and whose denial would not take a needed one with it. */
static bool unused(const struct learn *l, size_t rule)
{
	const struct policy_rule *r = &l->policy->rules[rule];
	size_t n = strlen(r->path);
	struct stat st;

	if (r->access == ACCESS_DENY || r->glob || l->used[rule] || str_eq(r->path, l->workspace) ||
		lstat(r->path, &st) < 0 || S_ISLNK(st.st_mode))
		return false; /* what is absent or another name of something gives nothing to take away */
	for (size_t i = 0; i < l->policy->rules_n; i++)
		if (i != rule && l->used[i] && strncmp(l->policy->rules[i].path, r->path, n) == 0 &&
			l->policy->rules[i].path[n] == '/')
			return false;
	return true;
}

/* NULL: it is proposed. A grant of a path that is not there would be an error in the file. */
static const char *not_proposed(const struct learn_path *w)
{
	struct stat st;

	return w->secret                    ? "a secret or croft's own"
	       : w->odd                     ? "not a plain path"
	       : lstat(w->path, &st) < 0    ? "not there, so no rule can grant it"
	       : w->write && runs_inside(w->path, getenv("HOME"), NULL)
		       ? "what is in it runs on your machine: --write-runs, if that is meant"
					    : NULL;
}

/* A section without entries would be an error in the file. */
static void section(struct buf *out, bool *has_section, bool *has_head, const char *key)
{
	if (!*has_section)
		buf_adds(out, "+filesystem:\n");
	if (!*has_head)
		buf_addf(out, "+  %s:\n", key);
	*has_section = *has_head = true;
}

static void diff_wanted(const struct learn *l, struct buf *out, bool write, bool *has_section)
{
	bool head = false;

	for (size_t i = 0; i < l->wanted_n; i++) {
		const struct learn_path *w = &l->wanted[i];

		if (w->write != write || not_proposed(w))
			continue;
		section(out, has_section, &head, write ? "write" : "read");
		buf_adds(out, "+    - \"");
		add_spelling(l, w->path, out);
		buf_addf(out, "\"  # asked for %" PRIu64 " time%s, refused\n", w->count,
			w->count == 1 ? "" : "s");
	}
}

/*
 * As comments: another run may need them, and a deny of a directory that every program looks into would
 * stop the next one.
 */
static void diff_unused(const struct learn *l, struct buf *out)
{
	bool head = false;

	for (size_t i = 0; i < l->policy->rules_n; i++) {
		const struct policy_rule *r = &l->policy->rules[i];

		if (!unused(l, i) || is_odd(r->path))
			continue;
		if (r->origin.layer != LAYER_PROFILE) {
			buf_addf(out, "# never used, take it out: %s ", policy_access_names[r->access]);
			add_spelling(l, r->path, out);
			buf_adds(out, " (");
			str_show_all(out, r->origin.file ? r->origin.file
							 : policy_layer_names[r->origin.layer]);
			buf_addf(out, r->origin.line ? ":%u)\n" : ")\n", r->origin.line);
			continue;
		}
		buf_adds(out, head ? ", " : "# never used of what the profile grants: ");
		add_spelling(l, r->path, out);
		head = true;
	}
	if (head)
		buf_addc(out, '\n');
}

static void diff_not_proposed(const struct learn *l, struct buf *out)
{
	for (size_t i = 0; i < l->wanted_n; i++) {
		const struct learn_path *w = &l->wanted[i];
		const char *why = not_proposed(w);

		if (!why)
			continue;
		buf_addf(out, "# refused and not proposed (%s): ", why);
		str_show(out, w->path, strlen(w->path));
		buf_addc(out, '\n');
	}
	if (l->lost)
		buf_addf(out, "# %" PRIu64 " further paths were not kept\n", l->lost);
}

/* The lines of `text` that begin with c; returns how many. */
static size_t lines_with(const struct buf *text, char c, struct buf *out)
{
	size_t lines = 0;

	for (const char *p = buf_str(text), *end; (end = strchr(p, '\n')); p = end + 1)
		if (*p == c) {
			buf_add(out, p, (size_t)(end + 1 - p));
			lines++;
		}
	return lines;
}

/* What patch and git apply take: the comments, and one file that was not there. */
void learn_diff(const struct learn *l, struct buf *out)
{
	cleanup_buf struct buf text = BUF_INIT(out->max), added = BUF_INIT(out->max);
	bool has_section = false;
	size_t lines;

	buf_addf(out,
		"# %" PRIu64
		" accesses seen. Nothing was applied. What follows is a patch for a project without a\n"
		"# croft.yaml (git apply); else put what you accept into that file. Then:\n"
		"# croft policy check croft.yaml && croft policy trust\n",
		l->seen);
	buf_adds(&text, "+version: 1\n");
	diff_wanted(l, &text, false, &has_section);
	diff_wanted(l, &text, true, &has_section);
	diff_unused(l, &text);
	diff_not_proposed(l, &text);
	learn_net_diff(&l->net, &text);
	lines_with(&text, '#', out);
	lines = lines_with(&text, '+', &added);
	buf_addf(out, "--- /dev/null\n+++ b/croft.yaml\n@@ -0,0 +1,%zu @@\n", lines);
	buf_add(out, added.data, added.len);
	if (text.failed || added.failed)
		out->failed = true;
}

void learn_json(const struct learn *l, struct buf *out)
{
	struct json j;

	json_init(&j, out, true);
	json_object(&j, NULL);
	json_str(&j, "schema", "croft.learn/v1");
	json_uint(&j, "accesses", l->seen);
	json_array(&j, "wanted");
	for (size_t i = 0; i < l->wanted_n; i++) {
		json_object(&j, NULL);
		json_str(&j, "path", l->wanted[i].path);
		json_str(&j, "access", l->wanted[i].write ? "write" : "read");
		json_uint(&j, "count", l->wanted[i].count);
		json_bool(&j, "proposed", !not_proposed(&l->wanted[i]));
		json_end(&j);
	}
	json_end(&j);
	json_array(&j, "unused");
	for (size_t i = 0; i < l->policy->rules_n; i++)
		if (unused(l, i))
			json_str(&j, NULL, l->policy->rules[i].path);
	json_end(&j);
	json_uint(&j, "lost", l->lost);
	learn_net_json(&l->net, &j, "network");
	json_end(&j);
	buf_addc(out, '\n');
}
