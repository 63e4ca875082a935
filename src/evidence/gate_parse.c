/* SPDX-License-Identifier: Apache-2.0 */
/* Gate files: the schema over the strict reader of policy/yaml.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "evidence/gate_rules.h"
#include "policy/policy.h"
#include "policy/yaml.h"

static struct gate *gate_of(const struct yaml_reader *r)
{
	return r->into;
}

/* An empty value is a forgotten one. */
static int want_scalar(struct yaml_reader *r, const char *what)
{
	int x = reader_want_scalar(r, what);

	if (x < 0 || *reader_text(r))
		return x;
	err_invalid(r->e, "%s is empty", what);
	return reader_fail(r);
}

/* ------------------------------------------------------------------ values */

static int add_text(struct yaml_reader *r, struct strlist *l)
{
	if (strlist_add(l, reader_text(r)))
		return 0;
	err_invalid(r->e, "a list has at most %zu entries", l->max);
	return reader_fail(r);
}

static int read_bool(struct yaml_reader *r, const char *key, bool *ret)
{
	int x = want_scalar(r, key);

	if (x < 0)
		return x;
	if (!str_eq(reader_text(r), "true") && !str_eq(reader_text(r), "false"))
		return reader_bad(r, "is neither true nor false");
	*ret = str_eq(reader_text(r), "true");
	return 0;
}

static int read_evidence(struct yaml_reader *r, const char *key)
{
	int x = want_scalar(r, key);

	if (x < 0)
		return x;
	for (int i = 0; i < GATE_EVIDENCE_NUM; i++)
		if (str_eq(reader_text(r), gate_evidence_names[i])) {
			gate_of(r)->evidence = (enum gate_evidence)i;
			return 0;
		}
	return reader_bad(r, "is not ai-touched or all");
}

static int read_tests(struct yaml_reader *r, const char *key)
{
	int x = want_scalar(r, key);

	if (x < 0)
		return x;
	if (!str_eq(reader_text(r), "passed") && !str_eq(reader_text(r), "none"))
		return reader_bad(r, "is not passed or none");
	gate_of(r)->tests = str_eq(reader_text(r), "passed");
	return 0;
}

static int read_review(struct yaml_reader *r, const char *key)
{
	return read_bool(r, key, &gate_of(r)->review);
}

static int read_clean(struct yaml_reader *r, const char *key)
{
	return read_bool(r, key, &gate_of(r)->clean);
}

/* An id, or a PEM block whose id it becomes. */
static int add_key(struct yaml_reader *r, const char *key)
{
	uint8_t public[KEY_PUBLIC_LEN];
	struct err inner = ERR_INIT;
	struct digest id;
	int x = want_scalar(r, "a key");

	if (x < 0)
		return x;
	if (strstr(reader_text(r), "-----BEGIN")) {
		if (ledger_key_from_pem(public, reader_text(r), strlen(reader_text(r)), &inner) <
			0) {
			err_invalid(r->e, "%s", inner.msg);
			return reader_fail(r);
		}
		digest_sha256(&id, public, sizeof(public));
		return strlist_add(&gate_of(r)->keys, id.hex) ? 0 : add_text(r, &gate_of(r)->keys);
	}
	if (!str_hex(reader_text(r), DIGEST_HEX_LEN, DIGEST_HEX_LEN))
		return reader_bad(r, "is neither a key's id (64 hexadecimal digits, see croft "
				     "evidence key) nor a PEM block");
	return add_text(r, &gate_of(r)->keys);
}

static int read_keys(struct yaml_reader *r, const char *key)
{
	return reader_entries(r, key, add_key, key);
}

static int read_max(struct yaml_reader *r, const char *key)
{
	int x = want_scalar(r, key);

	if (x < 0)
		return x;
	if (!str_u64(reader_text(r), 1000000000, &gate_of(r)->max_denials))
		return reader_bad(r, "is not a number");
	return 0;
}

static int add_tier(struct yaml_reader *r, const char *key)
{
	int x = want_scalar(r, "a tier");

	if (x < 0)
		return x;
	if (policy_tier_find(reader_text(r), true))
		return add_text(r, &gate_of(r)->tiers);
	return reader_bad(r, "is no tier that a command can run in");
}

static int read_tiers(struct yaml_reader *r, const char *key)
{
	return reader_entries(r, key, add_tier, key);
}

/* ------------------------------------------------------------------ allowed denials */

static int keep(struct yaml_reader *r, char **to)
{
	*to = strdup(reader_text(r));
	return *to ? 0 : err_set(r->e, ENOMEM, "parse %s", r->name);
}

static struct gate_allow *allow_of(const struct yaml_reader *r)
{
	return r->draft;
}

static int allow_path(struct yaml_reader *r, const char *key)
{
	int x = want_scalar(r, key);

	if (x < 0)
		return x;
	if (reader_text(r)[0] != '/' && !str_starts(reader_text(r), "./"))
		return reader_bad(
			r, "is no path of a denial; begin with / or, in the workspace, ./");
	return keep(r, &allow_of(r)->path);
}

static int allow_host(struct yaml_reader *r, const char *key)
{
	int x = want_scalar(r, key);

	return x < 0 ? x : keep(r, &allow_of(r)->host);
}

static int allow_reason(struct yaml_reader *r, const char *key)
{
	int x = want_scalar(r, key);

	return x < 0 ? x : keep(r, &allow_of(r)->reason);
}

/* A day that exists, written as ISO 8601 has it. */
static bool is_date(const char *s)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	int y = 0, m, d, max;

	if (strlen(s) != 10 || s[4] != '-' || s[7] != '-')
		return false;
	for (int i = 0; i < 10; i++)
		if (i != 4 && i != 7 && (s[i] < '0' || s[i] > '9'))
			return false;
	for (int i = 0; i < 4; i++)
		y = y * 10 + (s[i] - '0');
	m = (s[5] - '0') * 10 + s[6] - '0';
	d = (s[8] - '0') * 10 + s[9] - '0';
	if (m < 1 || m > 12 || d < 1)
		return false;
	max = days[m - 1] + (m == 2 && y % 4 == 0 && (y % 100 != 0 || y % 400 == 0));
	return d <= max;
}

static int allow_expires(struct yaml_reader *r, const char *key)
{
	int x = want_scalar(r, key);

	if (x < 0)
		return x;
	if (!is_date(reader_text(r)))
		return reader_bad(r, "is no day; write it as 2026-01-31");
	memcpy(allow_of(r)->expires, reader_text(r), sizeof(allow_of(r)->expires));
	return 0;
}

static int add_allow(struct yaml_reader *r, const char *key)
{
	static const struct reader_key keys[] = {{"path", allow_path}, {"host", allow_host},
		{"reason", allow_reason}, {"expires", allow_expires}};
	yaml_mark_t at = r->ev.start_mark;
	struct gate *g = gate_of(r);
	struct gate_allow *a;
	int x;

	if (g->allow_n >= GATE_LIST_MAX) {
		err_invalid(r->e, "a list has at most %u entries", GATE_LIST_MAX);
		return reader_fail(r);
	}
	if (g->allow_n == g->allow_cap) {
		size_t want_n = g->allow_cap ? g->allow_cap * 2 : 16;
		struct gate_allow *more = reallocarray(g->allow, want_n, sizeof(*more));

		if (!more)
			return err_set(r->e, ENOMEM, "parse %s", r->name);
		g->allow = more;
		g->allow_cap = want_n;
	}
	a = &g->allow[g->allow_n++];
	*a = (struct gate_allow){.line = (unsigned)at.line + 1};
	r->draft = a;
	x = reader_mapping(r, "an allowed denial", keys, ARRAY_SIZE(keys));
	r->draft = NULL;
	if (x < 0)
		return x;
	if (!a->path == !a->host)
		err_invalid(r->e, "an allowed denial has a path or a host, one of them");
	else if (!a->reason)
		err_invalid(r->e, "an allowed denial needs a reason");
	else
		return 0;
	return reader_fail_at(r, at.line, at.column);
}

static int read_allow(struct yaml_reader *r, const char *key)
{
	return reader_entries(r, key, add_allow, key);
}

static int read_require(struct yaml_reader *r, const char *key)
{
	static const struct reader_key keys[] = {{"evidence", read_evidence}, {"tests", read_tests},
		{"review", read_review}, {"keys", read_keys}, {"max-denials", read_max},
		{"allowed-denials", read_allow}, {"tiers", read_tiers},
		{"clean-degradations", read_clean}};

	return reader_mapping(r, key, keys, ARRAY_SIZE(keys));
}

/* ------------------------------------------------------------------ which commits */

static int add_trailer(struct yaml_reader *r, const char *key)
{
	size_t n;
	int x = want_scalar(r, "a trailer");

	if (x < 0)
		return x;
	n = strcspn(reader_text(r), ":");
	if (n == 0 ||
		strspn(reader_text(r),
			"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-") != n)
		return reader_bad(r, "is no trailer; write Name or \"Name: pattern\"");
	return add_text(r, &gate_of(r)->trailers);
}

static int read_trailers(struct yaml_reader *r, const char *key)
{
	strlist_done(&gate_of(r)->trailers);
	gate_of(r)->trailers = STRLIST_INIT(GATE_LIST_MAX);
	return reader_entries(r, key, add_trailer, key);
}

static int read_detect(struct yaml_reader *r, const char *key)
{
	static const struct reader_key keys[] = {{"trailers", read_trailers}};

	return reader_mapping(r, key, keys, ARRAY_SIZE(keys));
}

static int add_commit(struct yaml_reader *r, const char *key)
{
	int x = want_scalar(r, "a commit");

	if (x < 0)
		return x;
	if (!str_hex(reader_text(r), 12, OID_HEX_MAX))
		return reader_bad(r, "is no commit; write at least 12 digits of its name");
	return add_text(r, &gate_of(r)->ignore_commits);
}

static int add_path(struct yaml_reader *r, const char *key)
{
	int x = want_scalar(r, "a path");

	if (x < 0)
		return x;
	if (reader_text(r)[0] == '/' || str_starts(reader_text(r), "./"))
		return reader_bad(r, "is not relative to the top of the repository");
	return add_text(r, &gate_of(r)->ignore_paths);
}

static int read_commits(struct yaml_reader *r, const char *key)
{
	return reader_entries(r, key, add_commit, key);
}

static int read_paths(struct yaml_reader *r, const char *key)
{
	return reader_entries(r, key, add_path, key);
}

static int read_ignore(struct yaml_reader *r, const char *key)
{
	static const struct reader_key keys[] = {{"commits", read_commits}, {"paths", read_paths}};

	return reader_mapping(r, key, keys, ARRAY_SIZE(keys));
}

static int read_version(struct yaml_reader *r, const char *key)
{
	int x = want_scalar(r, key);

	if (x < 0)
		return x;
	r->version = str_eq(reader_text(r), "1");
	if (r->version)
		return 0;
	err_invalid(r->e, "this croft reads gate files of version: 1");
	return reader_fail(r);
}

/* ------------------------------------------------------------------ the whole */

int gate_parse(struct gate *ret, const char *name, const char *text, size_t n, struct err *e)
{
	static const struct reader_key keys[] = {{"version", read_version},
		{"require", read_require}, {"detect", read_detect}, {"ignore", read_ignore}};
	struct yaml_reader r = {.name = name, .noun = "gate file", .into = ret, .e = e};

	if (n > GATE_FILE_MAX_B)
		return err_invalid(
			e, "%s: a gate file may hold at most %u bytes", name, GATE_FILE_MAX_B);
	if (!utf8_valid(text, n))
		return err_invalid(e, "%s: the text is not UTF-8", name);
	return reader_run(&r, text, n, keys, ARRAY_SIZE(keys));
}
