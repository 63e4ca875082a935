/* SPDX-License-Identifier: Apache-2.0 */
/* A comparison as a table, and as JSON (croft.compare/v1): see compare.h. */
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "review/compare.h"

#define PATHS_SHOWN 40u
#define PATHS_JSON_MAX 100000u

static const char *test_word(const struct deeds *d)
{
	return !d->tested ? "none" : d->passed ? "passed" : "FAILED";
}

static void show_env(const struct compare_env *x, int width, struct buf *out)
{
	char lines[64] = "?";

	if (x->counted)
		snprintf(lines, sizeof(lines), "+%llu -%llu", (unsigned long long)x->added,
			(unsigned long long)x->deleted);
	buf_addf(out, "%-*s  %6zu  %14s  %-6s  %8zu  %6zu  %6zu  %6llu.%llus\n", width, x->name,
		x->files, lines, test_word(&x->deeds), x->deeds.commands,
		x->deeds.failed + x->deeds.interrupted, x->deeds.denials,
		(unsigned long long)(x->deeds.wall_us / 1000000),
		(unsigned long long)(x->deeds.wall_us / 100000 % 10));
}

/* What stands out about one, below the table. */
static void show_notes(const struct compare_env *x, struct buf *out)
{
	if (x->changes.unnamed)
		buf_addf(out, "%s: %llu file%s too large to look at and not compared\n", x->name,
			(unsigned long long)x->changes.unnamed,
			x->changes.unnamed == 1 ? " is" : "s are");
	if (x->refused)
		buf_addf(out, "%s: %zu path%s refused and cannot land\n", x->name, x->refused,
			x->refused == 1 ? " is" : "s are");
	if (x->runs)
		buf_addf(out, "%s: %zu file%s on your machine once landed\n", x->name, x->runs,
			x->runs == 1 ? " runs" : "s run");
}

static void show_pair(const struct comparison *c, const struct compare_pair *p, struct buf *out)
{
	buf_addf(out, "%s and %s: ", c->envs[p->a].name, c->envs[p->b].name);
	if (!p->shared) {
		buf_adds(out, "no file in common\n");
		return;
	}
	buf_addf(out, "%zu file%s in common: %zu the same, %zu that merge%s, %zu that conflict%s",
		p->shared, p->shared == 1 ? "" : "s", p->same, p->merges, p->merges == 1 ? "s" : "",
		p->conflicts, p->conflicts == 1 ? "s" : "");
	if (p->untried)
		buf_addf(out, ", %zu not tried", p->untried);
	buf_addc(out, '\n');
	for (size_t i = 0; i < p->names.n; i++) {
		buf_adds(out, "  conflict  ");
		str_show(out, p->names.v[i], strlen(p->names.v[i]));
		buf_addc(out, '\n');
	}
	if (p->conflicts > p->names.n)
		buf_addf(out, "  … and %zu more\n", p->conflicts - p->names.n);
}

/* Who changed which of the files in common: one column for each environment. */
static void show_paths(const struct comparison *c, struct buf *out)
{
	if (!c->paths_n)
		return;
	buf_adds(out, "\nchanged by several (x: changes it, =: all alike):\n");
	for (size_t i = 0; i < c->paths_n && i < PATHS_SHOWN; i++) {
		const struct compare_path *p = &c->paths[i];

		buf_adds(out, "  ");
		for (size_t k = 0; k < c->envs_n; k++)
			buf_addc(out, !(p->envs >> k & 1) ? '.' : p->same ? '=' : 'x');
		buf_adds(out, "  ");
		str_show(out, p->path, strlen(p->path));
		buf_addc(out, '\n');
	}
	if (c->paths_n > PATHS_SHOWN)
		buf_addf(out, "  … and %zu more\n", c->paths_n - PATHS_SHOWN);
}

void compare_text(const struct comparison *c, struct buf *out)
{
	int width = (int)strlen("environment");

	for (size_t i = 0; i < c->envs_n; i++)
		width = MAX_OF(width, (int)strlen(c->envs[i].name));
	buf_addf(out, "%-*s  %6s  %14s  %-6s  %8s  %6s  %6s  %9s\n", width, "environment", "files",
		"lines", "tests", "commands", "failed", "denied", "time");
	for (size_t i = 0; i < c->envs_n; i++)
		show_env(&c->envs[i], width, out);
	for (size_t i = 0; i < c->envs_n; i++)
		show_notes(&c->envs[i], out);
	buf_addc(out, '\n');
	for (size_t i = 0; i < c->pairs_n; i++)
		show_pair(c, &c->pairs[i], out);
	show_paths(c, out);
}

static void json_env(struct json *j, const struct compare_env *x)
{
	json_object(j, NULL);
	json_str(j, "name", x->name);
	json_str(j, "start", oid_hex(&x->changes.start_tree).s);
	json_str(j, "tree", x->changes.unnamed ? NULL : oid_hex(&x->changes.tree).s);
	json_uint(j, "not_read", x->changes.unnamed);
	json_uint(j, "files", x->files);
	if (x->counted) {
		json_uint(j, "additions", x->added);
		json_uint(j, "deletions", x->deleted);
	}
	json_uint(j, "refused", x->refused);
	json_uint(j, "runs", x->runs);
	json_uint(j, "ignored", x->changes.ignored);
	json_str(j, "tests", !x->deeds.tested ? NULL : x->deeds.passed ? "passed" : "failed");
	json_uint(j, "commands", x->deeds.commands);
	json_uint(j, "commands_failed", x->deeds.failed);
	json_uint(j, "commands_interrupted", x->deeds.interrupted);
	json_uint(j, "denials", x->deeds.denials);
	json_fixed(j, "wall_ms", x->deeds.wall_us, 3);
	json_end(j);
}

static void json_pair(struct json *j, const struct comparison *c, const struct compare_pair *p)
{
	json_object(j, NULL);
	json_str(j, "a", c->envs[p->a].name);
	json_str(j, "b", c->envs[p->b].name);
	json_uint(j, "shared", p->shared);
	json_uint(j, "same", p->same);
	json_uint(j, "merges", p->merges);
	json_uint(j, "conflicts", p->conflicts);
	json_uint(j, "not_tried", p->untried);
	json_array(j, "conflict_paths");
	for (size_t i = 0; i < p->names.n; i++)
		json_str(j, NULL, p->names.v[i]);
	json_end(j);
	json_end(j);
}

static void json_shared(struct json *j, const struct comparison *c)
{
	json_array(j, "shared_paths");
	for (size_t i = 0; i < c->paths_n && i < PATHS_JSON_MAX; i++) {
		json_object(j, NULL);
		json_str(j, "path", c->paths[i].path);
		json_bool(j, "same", c->paths[i].same);
		json_array(j, "envs");
		for (size_t k = 0; k < c->envs_n; k++)
			if (c->paths[i].envs >> k & 1)
				json_str(j, NULL, c->envs[k].name);
		json_end(j);
		json_end(j);
	}
	json_end(j);
	json_uint(j, "shared_paths_total", c->paths_n);
}

void compare_json(const struct comparison *c, struct buf *out)
{
	struct json j;

	json_init(&j, out, true);
	json_object(&j, NULL);
	json_str(&j, "schema", "croft.compare/v1");
	json_array(&j, "envs");
	for (size_t i = 0; i < c->envs_n; i++)
		json_env(&j, &c->envs[i]);
	json_end(&j);
	json_array(&j, "pairs");
	for (size_t i = 0; i < c->pairs_n; i++)
		json_pair(&j, c, &c->pairs[i]);
	json_end(&j);
	json_shared(&j, c);
	json_end(&j);
	buf_addc(out, '\n');
}
