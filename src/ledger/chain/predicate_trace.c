/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command did, as an in-toto runtime trace or test result: from its receipt (croft.receipt/v1).
 *
 * The log is what croft's watchers saw, not all that happened; the receipt's coverage goes with it. The
 * receipt is croft's own, but it holds paths and host names that a sandbox chose: they are copied as
 * strings and nothing else.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "ledger/chain/predicate.h"
#include "ledger/chain/predicate_impl.h"

#define COPY_DEPTH_MAX 8

/* A value as it is; what is too deep or a fraction (no receipt has one here) becomes null. */
static void copy(struct json *j, const char *key, const struct jnode *n, int depth)
{
	int64_t v;

	switch (jtype(n)) {
	case JSTRING:
		json_str(j, key, jstr(n));
		return;
	case JBOOL:
		json_bool(j, key, jtrue(n));
		return;
	case JNUMBER:
		if (!jint(n, &v))
			break;
		json_int(j, key, v);
		return;
	case JARRAY:
	case JOBJECT:
		if (depth >= COPY_DEPTH_MAX)
			break;
		if (jtype(n) == JARRAY)
			json_array(j, key);
		else
			json_object(j, key);
		for (size_t i = 0; i < jlen(n) && i < PREDICATE_LIST_MAX; i++)
			copy(j, jtype(n) == JARRAY ? NULL : jkey(n, i), jat(n, i), depth + 1);
		json_end(j);
		return;
	case JNULL:
	default:
		break;
	}
	json_null(j, key);
}

static void copy_member(struct json *j, const char *key, const struct jnode *n)
{
	if (n)
		copy(j, key, n, 0);
}

/* ------------------------------------------------------------------ parts */

static const char *policy_of(const struct predicate_exec *x)
{
	return x->policy_digest ? x->policy_digest
				: jstr(jget(jget(x->receipt, "policy"), "digest"));
}

/* The word i of the command line; NULL: there are no more. */
static const char *word(const struct predicate_exec *x, size_t i)
{
	const struct jnode *argv = jget(x->receipt, "command");
	const char *s = x->argv ? x->argv[i] : i < jlen(argv) ? jstr(jat(argv, i)) : NULL;

	return s || x->argv || i >= jlen(argv) ? s : "";
}

/* Cut where it is too long; the last word is then "…". */
static void command(const struct predicate_exec *x, struct json *j, const char *key)
{
	size_t start = j->out->len;
	const char *s;

	json_array(j, key);
	for (size_t i = 0; (s = word(x, i)); i++) {
		if (i >= PREDICATE_LIST_MAX ||
			j->out->len - start + 6 * strlen(s) > PREDICATE_LIST_MAX_B / 2) {
			json_str(j, NULL, "…");
			break;
		}
		json_str(j, NULL, s);
	}
	json_end(j);
}

/* The members of a list, as far as the maxima allow. Returns whether all are there. */
static bool copy_list(struct json *j, const char *key, const struct jnode *list)
{
	size_t start = j->out->len, i;

	json_array(j, key);
	for (i = 0; i < jlen(list) && i < PREDICATE_LIST_MAX; i++) {
		if (j->out->len - start > PREDICATE_LIST_MAX_B)
			break;
		copy(j, NULL, jat(list, i), 0);
	}
	json_end(j);
	return i == jlen(list);
}

static void monitor(const struct predicate_exec *x, struct json *j)
{
	const char *digest = policy_of(x);

	json_object(j, "monitor");
	json_str(j, "type", "croft");
	predicate_policy(j, "configSource", digest);
	json_object(j, "tracePolicy");
	copy_member(j, "coverage", jget(x->receipt, "coverage"));
	json_end(j);
	json_end(j);
}

static void process(const struct predicate_exec *x, struct json *j)
{
	json_object(j, "monitoredProcess");
	json_str(j, "hostID", x->host_id ? x->host_id : "");
	json_str(j, "type", "croft-sandbox");
	command(x, j, "event");
	json_end(j);
}

static void log_process(const struct predicate_exec *x, struct json *j)
{
	json_array(j, "process");
	json_object(j, NULL);
	command(x, j, "argv");
	copy_member(j, "cwd", jget(x->receipt, "cwd"));
	copy_member(j, "exit", jget(x->receipt, "exit"));
	json_end(j);
	json_end(j);
}

static void log_network(const struct predicate_exec *x, struct json *j)
{
	const struct jnode *hosts = jget(jget(x->receipt, "network"), "hosts");

	copy_list(j, "network", hosts);
}

static void log_files(const struct predicate_exec *x, struct json *j)
{
	const struct jnode *files = jget(x->receipt, "files");
	bool whole = copy_list(j, "fileAccess", jget(files, "changed"));

	json_bool(j, "fileAccessComplete", whole && jtrue(jget(files, "complete")));
}

static void output(const struct predicate_output *o, struct json *j)
{
	json_object(j, "output");
	json_uint(j, "bytes", o->bytes);
	json_bool(j, "captured", o->captured);
	json_bool(j, "truncated", o->truncated);
	json_object(j, "redactions");
	for (size_t i = 0; o->redactions && redact_rule(i); i++)
		if (o->redactions->fired[i])
			json_uint(j, redact_rule(i), o->redactions->fired[i]);
	json_end(j);
	json_end(j);
}

/* What both forms have beside the standard's members. */
static void beside(const struct predicate_exec *x, struct json *j)
{
	static const char *const as_is[] = {"label", "tier", "mode", "degradations", "limits_hit",
		"exit", "denials", "denials_beyond_limit", "enforced"};

	predicate_opt(j, "run", x->run_id);
	for (size_t i = 0; i < ARRAY_SIZE(as_is); i++)
		copy_member(j, as_is[i], jget(x->receipt, as_is[i]));
	copy_member(j, "enforcedDigest", jget(jget(x->receipt, "policy"), "enforced_digest"));
	json_bool(j, "interrupted", x->receipt == NULL);
	output(&x->output, j);
	predicate_opt(j, "treeAfter", x->tree_after);
	if (x->unnamed)
		json_uint(j, "filesNotNamed", x->unnamed);
	predicate_opt(j, "note", x->note);
}

/* ------------------------------------------------------------------ whole */

void predicate_trace(const struct predicate_exec *x, struct buf *out)
{
	struct json j;

	json_init(&j, out, false);
	monitor(x, &j);
	process(x, &j);
	json_object(&j, "monitorLog");
	log_process(x, &j);
	log_network(x, &j);
	log_files(x, &j);
	json_end(&j);
	json_object(&j, "metadata");
	predicate_opt(&j, "buildStartedOn", x->started);
	predicate_opt(&j, "buildFinishedOn", x->finished);
	json_end(&j);
	beside(x, &j);
}

/* One name for a test: its words, so that the same command is the same test. */
static void test_name(const struct predicate_exec *x, struct json *j)
{
	cleanup_buf struct buf b = BUF_INIT(65536);
	const char *s;

	for (size_t i = 0; (s = word(x, i)) && !b.failed; i++)
		buf_addf(&b, "%s%s", i ? " " : "", s);
	json_strn(j, NULL, buf_str(&b), b.len);
}

void predicate_test(const struct predicate_exec *x, struct buf *out)
{
	int64_t code = -1;
	bool passed = jint(jget(jget(x->receipt, "exit"), "code"), &code) && code == 0;
	const char *digest = policy_of(x);
	struct json j;

	json_init(&j, out, false);
	json_str(&j, "result", passed ? "PASSED" : "FAILED");
	json_array(&j, "configuration");
	if (digest) {
		json_object(&j, NULL);
		json_str(&j, "name", "policy");
		predicate_digest(&j, "sha256", digest);
		json_end(&j);
	}
	json_end(&j);
	json_array(&j, passed ? "passedTests" : "failedTests");
	test_name(x, &j);
	json_end(&j);
	json_array(&j, passed ? "failedTests" : "passedTests");
	json_end(&j);
	json_array(&j, "warnedTests");
	json_end(&j);
	command(x, &j, "command");
	predicate_opt(&j, "startedOn", x->started);
	predicate_opt(&j, "finishedOn", x->finished);
	beside(x, &j);
}
