/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From what was gathered to entries of a policy file: see learn_net.h.
 *
 * An entry is written by the policy's own writer and read back by its parser, together with those
 * before it: what does not parse is named with the parser's reason instead.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "learn/learn_net.h"

#define PROPOSAL_TEXT_MAX (1u << 20)
#define HEAD "version: 1\nnetwork:\n  allow:\n"

/* ---- one entry ---- */

/* The lines of the entry out of a whole section: they are indented deeper than its keys. */
static char *entry_lines(const struct net_rule *rule)
{
	cleanup_buf struct buf text = BUF_INIT(PROPOSAL_TEXT_MAX),
			       lines = BUF_INIT(PROPOSAL_TEXT_MAX);
	struct net_policy p = {.rules = (struct net_rule *)rule, .rules_n = 1};
	const char *at;

	policy_network_text(&p, &text);
	at = text.failed ? NULL : strstr(buf_str(&text), "  allow:\n");
	if (!at)
		return NULL;
	for (at += strlen("  allow:\n"); str_starts(at, "    ");) {
		size_t n = strcspn(at, "\n");

		buf_add(&lines, at, n);
		buf_addc(&lines, '\n');
		at += n + (at[n] == '\n');
	}
	return buf_take(&lines);
}

static int check(const struct learn_net *n, const char *more, struct err *e)
{
	cleanup_buf struct buf text = BUF_INIT(POLICY_FILE_MAX_B);
	cleanup_policy_layer struct policy_layer *l = NULL;

	buf_adds(&text, HEAD);
	for (size_t i = 0; i < n->proposals_n; i++)
		buf_adds(&text, n->proposals[i].text);
	buf_adds(&text, more);
	if (text.failed)
		return err_set(e, E2BIG, "the proposal");
	return policy_layer_parse(
		&l, LAYER_PROJECT, "croft.yaml", buf_str(&text), text.len, &n->ctx, e);
}

/* Without "croft.yaml:3:7: " in front: that is a place in a file which nobody has. */
static const char *reason_of(const struct err *e)
{
	const char *p = e->msg;

	if (!str_starts(p, "croft.yaml:"))
		return p;
	p += strlen("croft.yaml:");
	p += strspn(p, "0123456789:");
	return p + (*p == ' ');
}

static void not_proposed(struct learn_net *n, const struct learn_entry *x, const char *why)
{
	learn_net_refuse(n, &(struct learn_refusal){.host = (char *)x->host,
				    .method = (char *)"",
				    .path = (char *)"",
				    .why = (char *)why,
				    .port = x->port,
				    .count = x->count});
}

/* methods 0: any. */
static void propose(struct learn_net *n, size_t entry, const struct learn_template *v, size_t v_n,
	uint32_t methods)
{
	const struct learn_entry *x = &n->entries[entry];
	struct learn_proposal *p = &n->proposals[n->proposals_n];
	struct net_rule rule = x->instead ? *x->instead : (struct net_rule){.effect = NET_ALLOW};
	struct err e = ERR_INIT;
	bool ok = true;

	if (n->proposals_n == LEARN_PROPOSALS_MAX) {
		n->lost++;
		return;
	}
	*p = (struct learn_proposal){.entry = entry,
		.methods = STRLIST_INIT(LEARN_METHODS_MAX),
		.paths = STRLIST_INIT(LEARN_TEMPLATES_MAX)};
	for (size_t i = 0; ok && i < x->paths.methods.n; i++)
		if (methods & 1u << i)
			ok = strlist_add(&p->methods, x->paths.methods.v[i]);
	for (size_t i = 0; ok && i < v_n; i++)
		if (v[i].methods == methods)
			ok = strlist_add(&p->paths, v[i].path);
	strlist_sort(&p->methods);
	if (!x->instead) {
		rule.plaintext = x->plaintext;
		rule.private_ok = x->private_ok;
	}
	rule.name = NULL; /* receipts name rules; files do not */
	rule.host = x->host;
	rule.mode = x->mode;
	rule.ports[0] = (struct net_ports){x->port, x->port};
	rule.ports_n = 1;
	rule.methods = (const char *const *)p->methods.v;
	rule.methods_n = p->methods.n;
	rule.paths = (const char *const *)p->paths.v;
	rule.paths_n = p->paths.n;
	p->text = ok ? entry_lines(&rule) : NULL;
	if (p->text && check(n, p->text, &e) == 0) {
		n->proposals_n++;
		return;
	}
	if (p->text)
		not_proposed(n, x, reason_of(&e));
	else
		n->lost++;
	free(p->text);
	strlist_done(&p->methods);
	strlist_done(&p->paths);
}

/* Paths that were asked for in the same ways share an entry: no other pairing is allowed. */
static void propose_requests(struct learn_net *n, size_t entry)
{
	struct learn_template *v = NULL;
	size_t v_n = 0;

	if (learn_paths_templates(&n->entries[entry].paths, &v, &v_n) < 0) {
		n->lost++;
		return;
	}
	for (size_t i = 0; i < v_n; i++) {
		bool first = true;

		for (size_t k = 0; k < i; k++)
			first = first && v[k].methods != v[i].methods;
		if (first)
			propose(n, entry, v, v_n, v[i].methods);
	}
	learn_templates_free(v, v_n);
}

/* ---- all of them ---- */

/* A guess is worth nothing where something is known. */
static bool better_known(const struct learn_net *n, const struct learn_entry *guess)
{
	for (size_t i = 0; i < n->entries_n; i++)
		if (!n->entries[i].guess && str_eq(n->entries[i].host, guess->host))
			return true;
	return false;
}

static size_t hosts_of(const struct learn_net *n, const struct net_rule *r)
{
	size_t count = 0;

	for (size_t i = 0; i < n->entries_n; i++)
		count += n->entries[i].instead == r;
	return count;
}

/* May the rule be narrowed to its entries? All or none: half of its uses would break the rest. */
static bool whole(struct learn_net *n, const struct net_rule *r)
{
	cleanup_buf struct buf b = BUF_INIT(512);
	uint64_t told = 0, kept = 0;
	bool broken = false;

	if (!n->counted || hosts_of(n, r) > LEARN_RULE_HOSTS_MAX)
		return false;
	if (!learn_broad(r))
		return true;
	for (size_t i = 0; i < n->entries_n; i++) {
		const struct learn_entry *x = &n->entries[i];

		if (x->instead != r)
			continue;
		told += x->count;
		kept += x->kept;
		broken = broken || x->broken || x->count != x->kept;
	}
	if (!broken)
		return told > 0;
	buf_addf(&b, "%s is not narrowed: ", r->name);
	if (told != kept)
		buf_addf(&b, "the journal has %" PRIu64 " of its %" PRIu64 " requests", kept, told);
	else
		buf_adds(&b, "it was used with paths that cannot be written in a rule");
	strlist_add(&n->notes, buf_str(&b));
	return false;
}

void learn_net_settle(struct learn_net *n)
{
	cleanup_free bool *ok = calloc(n->policy->rules_n + 1, sizeof(*ok));

	if (!ok) {
		n->lost++;
		return;
	}
	for (size_t i = 0; i < n->policy->rules_n; i++)
		ok[i] = hosts_of(n, &n->policy->rules[i]) && whole(n, &n->policy->rules[i]);
	for (size_t i = 0; i < n->entries_n; i++) {
		const struct learn_entry *x = &n->entries[i];

		if (x->guess ? better_known(n, x)
			     : x->instead && !ok[x->instead - n->policy->rules])
			continue;
		if (x->paths.root)
			propose_requests(n, i);
		else if (x->count > 0) /* the name, or an opaque connection */
			propose(n, i, NULL, 0, 0);
	}
}

/* ---- words ---- */

static void show_origin(struct buf *out, const struct net_rule *r)
{
	buf_adds(out, " (");
	str_show_all(out, r->origin.file ? r->origin.file : policy_layer_names[r->origin.layer]);
	if (r->origin.line)
		buf_addf(out, ":%u", r->origin.line);
	buf_addc(out, ')');
}

static const char *times(uint64_t count, char *ret, size_t size)
{
	snprintf(ret, size, "%" PRIu64 " time%s", count, count == 1 ? "" : "s");
	return ret;
}

static void diff_why(const struct learn_entry *x, struct buf *out)
{
	char n[40];

	buf_adds(out, "+    # ");
	if (x->instead) {
		buf_adds(out, "in place of ");
		str_show_all(out, x->instead->name);
		show_origin(out, x->instead);
		buf_adds(out, ", which allows more than was used\n");
	} else if (x->guess) {
		buf_addf(out,
			"the name was asked for %s, refused; what for is not known: put it in, and "
			"learn again\n",
			times(x->count, n, sizeof(n)));
	} else if (x->paths.root) {
		buf_addf(out, "refused %s\n", times(x->count, n, sizeof(n)));
	} else {
		buf_addf(out, "connections were refused %s\n", times(x->count, n, sizeof(n)));
	}
}

static void diff_proposals(const struct learn_net *n, struct buf *out)
{
	if (n->proposals_n)
		buf_adds(out, "+network:\n+  allow:\n");
	for (size_t i = 0; i < n->proposals_n; i++) {
		const struct learn_proposal *p = &n->proposals[i];

		if (i == 0 || p[-1].entry != p->entry)
			diff_why(&n->entries[p->entry], out);
		for (const char *at = p->text; *at;) {
			size_t len = strcspn(at, "\n");

			buf_addc(out, '+');
			buf_add(out, at, len);
			buf_addc(out, '\n');
			at += len + (at[len] == '\n');
		}
	}
}

/* Is any rule of the bundle used? ret_first: this is its first one. */
static bool bundle_used(const struct learn_net *n, size_t rule, bool *ret_first)
{
	const char *name = learn_bundle(&n->policy->rules[rule]);
	bool used = false;

	*ret_first = true;
	for (size_t i = 0; i < n->policy->rules_n; i++) {
		const char *other = learn_bundle(&n->policy->rules[i]);

		if (!other || !str_eq(other, name))
			continue;
		used = used || n->used[i];
		*ret_first = *ret_first && i >= rule;
	}
	return used;
}

/* A rule or a bundle that can go; *ret_bundle: its name, when it is one. */
static bool unused(const struct learn_net *n, size_t rule, const char **ret_bundle)
{
	const struct net_rule *r = &n->policy->rules[rule];
	bool first = true;

	*ret_bundle = learn_bundle(r);
	if (!n->counted || r->effect == NET_DENY || n->used[rule])
		return false;
	return !*ret_bundle || (!bundle_used(n, rule, &first) && first);
}

static void diff_unused(const struct learn_net *n, struct buf *out)
{
	for (size_t i = 0; i < n->policy->rules_n; i++) {
		const struct net_rule *r = &n->policy->rules[i];
		const char *bundle;

		if (!unused(n, i, &bundle))
			continue;
		buf_adds(out, "# never used, take it out: ");
		if (bundle)
			buf_addf(out, "bundle %s", bundle);
		else
			str_show_all(out, r->name);
		show_origin(out, r);
		if (!bundle && r->host) {
			buf_addc(out, ' ');
			str_show_all(out, r->host);
		}
		buf_addc(out, '\n');
	}
}

static void diff_refusals(const struct learn_net *n, struct buf *out)
{
	for (size_t i = 0; i < n->refusals_n; i++) {
		const struct learn_refusal *r = &n->refusals[i];

		buf_adds(out, "# refused and not proposed: ");
		if (r->path[0]) {
			str_show_all(out, r->method);
			buf_addc(out, ' ');
		}
		str_show_all(out, r->host);
		if (r->port)
			buf_addf(out, ":%u", r->port);
		str_show_all(out, r->path);
		buf_adds(out, " (");
		str_show_all(out, r->why);
		buf_adds(out, ")\n");
	}
}

void learn_net_diff(const struct learn_net *n, struct buf *out)
{
	diff_proposals(n, out);
	diff_unused(n, out);
	diff_refusals(n, out);
	for (size_t i = 0; i < n->notes.n; i++) {
		buf_adds(out, "# network: ");
		str_show_all(out, n->notes.v[i]);
		buf_addc(out, '\n');
	}
	if (n->odd + n->journal.odd)
		buf_addf(out, "# network: %" PRIu64 " records made no sense and were skipped\n",
			n->odd + n->journal.odd);
	if (n->lost)
		buf_addf(out, "# network: %" PRIu64 " further records were not kept\n", n->lost);
}

static void json_proposal(const struct learn_net *n, const struct learn_proposal *p, struct json *j)
{
	const struct learn_entry *x = &n->entries[p->entry];

	json_object(j, NULL);
	json_str(j, "host", x->host);
	json_uint(j, "port", x->port);
	json_str(j, "mode", net_mode_names[x->mode]);
	json_list(j, "methods", &p->methods);
	json_list(j, "paths", &p->paths);
	json_str(j, "instead_of", x->instead ? x->instead->name : NULL);
	json_bool(j, "guess", x->guess);
	json_uint(j, "count", x->count);
	json_end(j);
}

void learn_net_json(const struct learn_net *n, struct json *j, const char *key)
{
	json_object(j, key);
	json_array(j, "proposed");
	for (size_t i = 0; i < n->proposals_n; i++)
		json_proposal(n, &n->proposals[i], j);
	json_end(j);
	json_array(j, "not_proposed");
	for (size_t i = 0; i < n->refusals_n; i++) {
		const struct learn_refusal *r = &n->refusals[i];

		json_object(j, NULL);
		json_str(j, "host", r->host);
		json_uint(j, "port", r->port);
		json_str(j, "method", r->method);
		json_str(j, "path", r->path);
		json_str(j, "reason", r->why);
		json_uint(j, "count", r->count);
		json_end(j);
	}
	json_end(j);
	json_array(j, "unused");
	for (size_t i = 0; i < n->policy->rules_n; i++) {
		const char *bundle;

		if (unused(n, i, &bundle))
			json_str(j, NULL, bundle ? bundle : n->policy->rules[i].name);
	}
	json_end(j);
	json_list(j, "notes", &n->notes);
	json_uint(j, "skipped", n->odd + n->journal.odd);
	json_uint(j, "lost", n->lost);
	json_end(j);
}
