/* SPDX-License-Identifier: Apache-2.0 */
/* Answers for people about a resolved policy: how two differ, and which rule decides for a path. */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/net/net_impl.h"
#include "policy/runs.h"

/* ---- differences ---- */

/* One fact of a policy. Two facts with the same section and name are the same thing, perhaps
 * changed. */
struct fact {
	int section;
	const char *name;
	bool glob;
	char value[80];
	const struct policy_rule *rule; /* filesystem only */
	const char *text;               /* environment.set only */
};

struct facts {
	struct fact *v;
	size_t n;
	struct strlist net; /* lines of the network section */
};

enum { F_PROFILE, F_TIER, F_THREAT, F_OBSERVE, F_RULE, F_PASS, F_SET, F_LIMIT, F_DEVICE, F_NET };

/* The key under which a policy file has the rule. */
static const char *rule_word(const struct policy_rule *r)
{
	return r->view   ? "view"
	       : r->git  ? "write-git"
	       : r->runs ? "write-runs"
			 : policy_access_names[r->access];
}

static int fact_cmp(const void *a, const void *b)
{
	const struct fact *x = a, *y = b;
	int c = x->section - y->section;

	if (c == 0)
		c = strcmp(x->name, y->name);
	return c ? c : (int)x->glob - (int)y->glob;
}

static struct fact *fact_add(struct facts *f, int section, const char *name, const char *value)
{
	struct fact *x = &f->v[f->n++];

	*x = (struct fact){.section = section, .name = name};
	snprintf(x->value, sizeof(x->value), "%s", value);
	return x;
}

static bool facts_of(struct facts *f, const struct policy *p)
{
	size_t n = 4 + p->rules_n + p->env_pass.n + p->env_set_n + LIMIT_NUM + p->devices.n;

	*f = (struct facts){.net = STRLIST_INIT(4 * NET_RULES_MAX)};
	if (!net_lines(p->net, &f->net))
		return false;
	n += f->net.n;
	f->v = calloc(n, sizeof(*f->v));
	if (!f->v)
		return false;
	fact_add(f, F_PROFILE, "profile", p->profile ? p->profile : "default");
	fact_add(f, F_TIER, "tier", policy_tier_names[p->tier]);
	fact_add(f, F_THREAT, "threat", policy_threat_names[p->threat]);
	fact_add(f, F_OBSERVE, "observe", policy_observe_names[p->observe]);
	for (size_t i = 0; i < p->rules_n; i++) {
		struct fact *x = fact_add(f, F_RULE, p->rules[i].path, "");

		x->rule = &p->rules[i];
		x->glob = p->rules[i].glob;
		snprintf(x->value, sizeof(x->value), "%s%s", rule_word(&p->rules[i]),
			p->rules[i].optional ? "-if-present" : "");
	}
	for (size_t i = 0; i < p->env_pass.n; i++)
		fact_add(f, F_PASS, p->env_pass.v[i], "environment.pass");
	for (size_t i = 0; i < p->env_set_n; i++) {
		struct digest d;

		digest_sha256(&d, p->env_set[i].value, strlen(p->env_set[i].value));
		fact_add(f, F_SET, p->env_set[i].name, d.hex)->text = p->env_set[i].value;
	}
	for (int i = 0; i < LIMIT_NUM; i++) {
		cleanup_buf struct buf b = BUF_INIT(64);

		limit_show(&b, (enum limit_id)i, limit_get(&p->limits, (enum limit_id)i));
		fact_add(f, F_LIMIT, limit_keys[i], buf_str(&b));
	}
	for (size_t i = 0; i < p->devices.n; i++)
		fact_add(f, F_DEVICE, p->devices.v[i], "device");
	for (size_t i = 0; i < f->net.n; i++)
		fact_add(f, F_NET, f->net.v[i], "network");
	qsort(f->v, f->n, sizeof(*f->v), fact_cmp);
	return true;
}

static void fact_print(struct buf *out, char sign, const struct fact *f)
{
	buf_addf(out, "%c ", sign);
	switch (f->section) {
	case F_RULE:
		buf_adds(out, f->value);
		buf_addc(out, ' ');
		str_show(out, f->name, strlen(f->name));
		buf_adds(out, " (");
		origin_show(out, &f->rule->origin);
		buf_addc(out, ')');
		break;
	case F_SET:
		buf_addf(out, "environment.set %s=", f->name);
		str_show(out, f->text, strlen(f->text));
		break;
	case F_LIMIT:
		buf_addf(out, "limits.%s %s", f->name, f->value);
		break;
	case F_PASS:
	case F_DEVICE:
	case F_NET:
		buf_addf(out, "%s %s", f->value, f->name);
		break;
	default:
		buf_addf(out, "%s %s", f->name, f->value);
		break;
	}
	buf_addc(out, '\n');
}

size_t policy_diff(const struct policy *a, const struct policy *b, struct buf *out)
{
	struct facts x = {0}, y = {0};
	size_t i = 0, j = 0, count = 0;

	if (!facts_of(&x, a) || !facts_of(&y, b))
		out->failed = true;
	while (!out->failed && (i < x.n || j < y.n)) {
		int c = i >= x.n ? 1 : j >= y.n ? -1 : fact_cmp(&x.v[i], &y.v[j]);

		if (c == 0 && str_eq(x.v[i].value, y.v[j].value)) {
			i++;
			j++;
			continue;
		}
		count++;
		if (c <= 0)
			fact_print(out, '-', &x.v[i++]);
		if (c >= 0)
			fact_print(out, '+', &y.v[j++]);
	}
	free(x.v);
	free(y.v);
	strlist_done(&x.net);
	strlist_done(&y.net);
	return count;
}

/* ---- why ---- */

static void rule_line(struct buf *out, const struct policy_rule *r)
{
	buf_addf(out, "%s ", rule_word(r));
	str_show(out, r->path, strlen(r->path));
	buf_adds(out, "  (");
	origin_show(out, &r->origin);
	buf_adds(out, ")\n");
}

static bool rule_covers(const struct policy_rule *r, const char *path)
{
	return r->glob ? policy_glob_covers(r->path, path, NULL) : path_within(r->path, path);
}

static void how_to(struct buf *out, const char *verb, const char *path, const char *home)
{
	const char *key = str_eq(verb, "write") && runs_inside(path, home, NULL) ? "write-runs" : verb;
	char option[32];
	cleanup_buf struct buf typed = BUF_INIT(20480);

	snprintf(option, sizeof(option), "croft run --%s", key);
	if (!policy_path_option(&typed, option, path)) {
		buf_addf(out, "  to %s it   " POLICY_UNNAMEABLE "\n", verb);
		return;
	}
	buf_addf(out, "  to %s it%*s%s …, or filesystem.%s in your policy\n", verb,
		(int)(8 - strlen(verb)), "", buf_str(&typed), key);
}

void policy_explain(const struct policy *p, const char *path, struct buf *out)
{
	const struct policy_rule *rule = NULL, *cap = NULL;
	enum access a = policy_access(p, path, &rule);
	enum access most = policy_cap(p, path, &cap);

	str_show(out, path, strlen(path));
	buf_addf(out, ": %s\n", policy_access_names[a]);
	if (!rule) {
		buf_adds(out, "  no rule covers it, and what no rule covers is denied\n");
	} else {
		buf_adds(out, "  decided by    ");
		rule_line(out, rule);
	}
	for (size_t i = 0; i < p->rules_n; i++) {
		if (&p->rules[i] == rule || !rule_covers(&p->rules[i], path))
			continue;
		buf_adds(out, "  less specific ");
		rule_line(out, &p->rules[i]);
	}
	if (a == ACCESS_WRITE)
		return;
	if (cap && most <= a) {
		buf_addf(out, "  no layer can give more than %s here: fixed by ",
			policy_access_names[most]);
		origin_show(out, &cap->origin);
		buf_addc(out, '\n');
		return;
	}
	if (a == ACCESS_DENY)
		how_to(out, "read", path, p->hold_home);
	if (most == ACCESS_WRITE)
		how_to(out, "write", path, p->hold_home);
}
