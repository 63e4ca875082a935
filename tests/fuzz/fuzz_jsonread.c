/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a JSON document. Beyond not crashing: what is accepted, written again by base/json, is
 * accepted again and says the same; every getter stays inside the document.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/jsonread.h"
#include "base/str.h"
#include "must.h"

/* Numbers that are no integers have no value to write: false, and the text is not compared. */
static bool write_again(struct json *j, const char *key, const struct jnode *n)
{
	bool exact = true;
	int64_t v;

	switch (jtype(n)) {
	case JNULL:
		json_null(j, key);
		break;
	case JBOOL:
		json_bool(j, key, jtrue(n));
		break;
	case JNUMBER:
		exact = jint(n, &v);
		json_int(j, key, exact ? v : 0);
		break;
	case JSTRING:
		MUST(utf8_valid(jstr(n), strlen(jstr(n))));
		json_str(j, key, jstr(n));
		break;
	case JARRAY:
	case JOBJECT:
		if (jtype(n) == JOBJECT)
			json_object(j, key);
		else
			json_array(j, key);
		for (size_t i = 0; i < jlen(n); i++) {
			if (jtype(n) == JOBJECT)
				MUST(jget(n, jkey(n, i)) == jat(n, i));
			exact &= write_again(j, jkey(n, i), jat(n, i));
		}
		MUST(!jat(n, jlen(n)));
		json_end(j);
		break;
	}
	return exact;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_jdoc struct jdoc *d = NULL;
	cleanup_jdoc struct jdoc *again = NULL;
	cleanup_buf struct buf one = BUF_INIT(64u << 20);
	cleanup_buf struct buf two = BUF_INIT(64u << 20);
	struct err e = ERR_INIT;
	struct json j;
	bool exact;

	if (jdoc_parse(&d, data, size, &e) < 0) {
		MUST(!d && e.kind != ERR_NONE && e.msg[0]);
		return 0;
	}
	json_init(&j, &one, false);
	exact = write_again(&j, NULL, jdoc_root(d));
	if (one.failed) /* the writer's depth is less than the reader's */
		return 0;
	MUST(jdoc_parse(&again, one.data, one.len, &e) == 0);
	json_init(&j, &two, false);
	MUST(write_again(&j, NULL, jdoc_root(again)) || !exact);
	MUST(one.len == two.len && memcmp(one.data, two.data, one.len) == 0);
	return 0;
}
