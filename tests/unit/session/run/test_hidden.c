/* SPDX-License-Identifier: Apache-2.0 */
/* core: what a command was trusted with, out of its output, of lines and of events. */
#include "test.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "session/stdio/capture.h"
#include "session/run/hidden.h"

#define VALUE "tok-0123456789abcdefghij"

static void knowing(struct redact *r)
{
	struct err e = ERR_INIT;

	redact_init(r);
	CHECK_INT(redact_add(r, "API_TOKEN", VALUE, &e), 0);
}

/* Output as capture.h keeps it: `head` and `tail` stand at the cut, the rest is made of short words. */
static void cut_output(struct buf *raw, const char *head, const char *tail)
{
	while (raw->len < CAPTURE_HEAD_B - strlen(head))
		buf_addc(raw, raw->len % 8 ? 'a' : ' ');
	raw->data[raw->len - 1] = ' ';
	buf_adds(raw, head);
	buf_adds(raw, "\n[croft: 100 bytes left out]\n");
	buf_adds(raw, tail);
	for (size_t i = 0; i < 1000; i++)
		buf_addc(raw, i % 8 ? 'a' : ' ');
}

static bool is_cut(const char *head, const char *tail, const char *want)
{
	struct buf raw = BUF_INIT(1u << 20), out = BUF_INIT(1u << 20), around = BUF_INIT(1024);
	struct redact r;
	bool ok;

	knowing(&r);
	cut_output(&raw, head, tail);
	hidden_output(&r, &raw, &out);
	buf_addf(&around, "a %s aaa", want);
	ok = !out.failed && strstr(buf_str(&out), buf_str(&around));
	if (!ok)
		printf("# %s|%s: %.120s\n", head, tail,
			strstr(buf_str(&out), "a \n") ? "another number" : "not there");
	buf_done(&raw);
	buf_done(&out);
	buf_done(&around);
	redact_done(&r);
	return ok;
}

TEST(variables_are_known_by_what_is_set_and_passed)
{
	static const char *const caller[] = {"MY_TOKEN=by-its-name", "CLOUD_SECRET=by-a-pattern",
		"CLOUD_REGION=not-a-secret", "OTHER_TOKEN=not-passed", "MY_TOKEN", "=odd-odd-odd", NULL};
	struct policy_var set = {"SET_PASSWORD", "set-by-the-policy"};
	struct policy p = {.env_pass = STRLIST_INIT(8), .env_set = &set, .env_set_n = 1};
	struct redact r;
	struct err e = ERR_INIT;

	redact_init(&r);
	strlist_add(&p.env_pass, "MY_TOKEN");
	strlist_add(&p.env_pass, "CLOUD_*");
	CHECK_INT(hidden_know_variables(&r, &p, (char *const *)(uintptr_t)caller, &e), 0);
	CHECK_INT(r.values.n, 3);
	CHECK(strlist_has(&r.values, "by-its-name"));
	CHECK(strlist_has(&r.values, "by-a-pattern"));
	CHECK(strlist_has(&r.values, "set-by-the-policy"));
	redact_done(&r);
	strlist_done(&p.env_pass);
}

TEST(words_at_the_cut_go_and_are_counted)
{
	CHECK(is_cut("", "", "\n[croft: 100 bytes left out]\n"));
	CHECK(is_cut("tok-0123456789abcdefghi", "", "\n[croft: 123 bytes left out]\n"));
	CHECK(is_cut("", "k-0123456789abcdefghij", "\n[croft: 122 bytes left out]\n"));
	CHECK(is_cut("ghp_0123", "456789abcdefghij", "\n[croft: 124 bytes left out]\n"));
	CHECK(is_cut("token=abc", "", "\n[croft: 109 bytes left out]\n"));
	/* The control: what is not cut stays. */
	CHECK(is_cut("word ", " word", "word \n[croft: 100 bytes left out]\n word"));
}

TEST(a_value_with_blanks_is_found_on_both_sides)
{
	struct buf raw = BUF_INIT(1u << 20), out = BUF_INIT(1u << 20);
	struct err e = ERR_INIT;
	struct redact r;

	knowing(&r);
	CHECK_INT(redact_add(&r, "PASSWORD", "correct horse battery staple", &e), 0);
	cut_output(&raw, "correct horse bat", "se battery staple");
	hidden_output(&r, &raw, &out);
	CHECK(!strstr(buf_str(&out), "correct") && !strstr(buf_str(&out), "staple"));
	CHECK(strstr(buf_str(&out), "\n[croft: 105 bytes left out]\n[redacted:value]"));
	buf_done(&raw);
	buf_done(&out);
	redact_done(&r);
}

TEST(output_without_a_gap_is_kept)
{
	struct buf raw = BUF_INIT(1u << 20), out = BUF_INIT(1u << 20);
	struct redact r;

	knowing(&r);
	buf_adds(&raw, "said " VALUE "\n[croft: 5 bytes left out]\nword");
	hidden_output(&r, &raw, &out);
	CHECK_STR(buf_str(&out), "said [redacted:value]\n[croft: 5 bytes left out]\nword");
	buf_done(&raw);
	buf_done(&out);
	redact_done(&r);
}

TEST(lines_that_are_no_json_are_left_out)
{
	static const char text[] =
		"{\"host\":\"" VALUE ".test\"}\n{\"host\":\"" VALUE "}\n" VALUE "\n{\"port\":1}\n";
	struct buf out = BUF_INIT(65536);
	struct redact r;

	knowing(&r);
	hidden_lines(&r, text, strlen(text), &out);
	CHECK_STR(buf_str(&out), "{\"host\":\"[redacted:value].test\"}\n{\"type\":\"left out\"}\n"
				 "{\"type\":\"left out\"}\n{\"port\":1}\n");
	buf_done(&out);
	redact_done(&r);
}

TEST(what_was_noted_is_known_again_or_missed)
{
	cleanup_buf struct buf text = BUF_INIT(65536);
	cleanup_jdoc struct jdoc *d = NULL;
	struct redact r, again;
	struct err e = ERR_INIT;
	struct json j;

	knowing(&r);
	json_init(&j, &text, false);
	json_object(&j, NULL);
	hidden_note(&r, "0a1b", &j);
	json_end(&j);
	CHECK(!strstr(buf_str(&text), VALUE) && strstr(buf_str(&text), "API_TOKEN"));
	CHECK_INT(jdoc_parse(&d, text.data, text.len, &e), 0);
	redact_init(&again);
	unsetenv("API_TOKEN");
	CHECK(!hidden_noted(&again, jget(jdoc_root(d), "hidden"), "0a1b"));
	setenv("API_TOKEN", "tok-another-value", 1);
	CHECK(!hidden_noted(&again, jget(jdoc_root(d), "hidden"), "0a1b"));
	setenv("API_TOKEN", VALUE, 1);
	CHECK(!hidden_noted(&again, jget(jdoc_root(d), "hidden"), "0a1c"));
	CHECK(hidden_noted(&again, jget(jdoc_root(d), "hidden"), "0a1b"));
	CHECK_INT(again.values.n, 1);
	CHECK(hidden_noted(&again, NULL, "0a1b"));
	redact_done(&again);
	redact_done(&r);
}

TEST(texts_of_an_event)
{
	static const char lines[] = "{\"path\":\"w-" VALUE "\"}\n";
	struct ledger_event ev = {.kind = EVENT_APPLIED,
		.title = "apply " VALUE,
		.predicate = "\"paths\":[\"w-" VALUE "\"]",
		.files = {{"paths.jsonl", lines, sizeof(lines) - 1}, {"policy.yaml", "x: y\n", 5}},
		.files_n = 2};
	struct hidden_event own;
	struct err e = ERR_INIT;
	struct redact r;

	knowing(&r);
	CHECK_INT(hidden_event(&own, &ev, &r, &e), 0);
	CHECK_STR(own.event.title, "apply [redacted:value]");
	CHECK_STR(own.event.predicate, "\"paths\":[\"w-[redacted:value]\"]");
	CHECK_STR(own.event.files[0].p, "{\"path\":\"w-[redacted:value]\"}\n");
	CHECK_INT(own.event.files[0].n, strlen(own.event.files[0].p));
	CHECK(own.event.files[1].p == ev.files[1].p);
	hidden_event_done(&own);
	redact_done(&r);
}
