/* SPDX-License-Identifier: Apache-2.0 */
/* core: what a command was trusted with, out of its output, of lines and of events. */
#include "test.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "core/hidden.h"

#define VALUE "tok-0123456789abcdefghij"

static void knowing(struct redact *r)
{
	struct err e = ERR_INIT;

	redact_init(r);
	CHECK_INT(redact_add(r, "API_TOKEN", VALUE, &e), 0);
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
