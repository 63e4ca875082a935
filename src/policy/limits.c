/* SPDX-License-Identifier: Apache-2.0 */
/* Limits outside a policy: those of one command, and whether the sandbox's leave room for them. */
#include <string.h>

#include "base/cleanup.h"
#include "policy/policy_impl.h"

struct policy_limits policy_no_limits(void)
{
	struct policy_limits l;

	for (size_t i = 0; i < LIMIT_NUM; i++)
		*limit_field(&l, (enum limit_id)i) = LIMIT_NONE;
	return l;
}

int policy_limit_set(struct policy_limits *l, const char *key, const char *text, struct err *e)
{
	for (size_t i = 0; i < LIMIT_NUM; i++) {
		if (!str_eq(key, limit_keys[i]))
			continue;
		if (value_limit(limit_field(l, (enum limit_id)i), (enum limit_id)i, text, e) < 0)
			return err_wrap(e, "limits.%s", key);
		return 0;
	}
	return layer_unknown_word(e, "limit", key, limit_keys, LIMIT_NUM);
}

void policy_limit_show(struct buf *out, const char *key, uint64_t v)
{
	for (size_t i = 0; i < LIMIT_NUM; i++)
		if (str_eq(key, limit_keys[i]))
			limit_show(out, (enum limit_id)i, v);
}

int policy_limits_fit(const struct policy_limits *own, const struct policy_limits *most,
	const char *name, struct err *e)
{
	for (size_t i = 0; i < LIMIT_NUM; i++) {
		cleanup_buf struct buf asked = BUF_INIT(64), has = BUF_INIT(64);
		uint64_t a = limit_get(own, (enum limit_id)i), b = limit_get(most, (enum limit_id)i);

		if (a == LIMIT_NONE || a <= b)
			continue;
		limit_show(&asked, (enum limit_id)i, a);
		limit_show(&has, (enum limit_id)i, b);
		return err_refuse(e,
			"a limit of %s for %s is more than the %s that %s has for all its commands; ask for "
			"less, or end it first: croft down %s",
			buf_str(&asked), limit_keys[i], buf_str(&has), name, name);
	}
	return 0;
}
