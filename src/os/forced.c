/* SPDX-License-Identifier: Apache-2.0 */
/* Forced absence of kernel features, forced ends: see forced.h. */
#include "os/forced.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool forced_fail(const char *feature)
{
	const char *list = getenv("CROFT_FORCE_FAIL");
	size_t n = strlen(feature);

	while (list && *list) {
		size_t len = strcspn(list, ",");

		if (len == n && memcmp(list, feature, n) == 0)
			return true;
		list += len + (list[len] == ',');
	}
	return false;
}

void forced_crash(const char *step)
{
	static unsigned long seen;
	const char *at = getenv("CROFT_CRASH_AT");
	size_t n = strlen(step);
	unsigned long nth = 1;

	if (!at || strncmp(at, step, n) != 0 || (at[n] && at[n] != ':'))
		return;
	if (at[n] == ':')
		nth = strtoul(at + n + 1, NULL, 10);
	if (++seen == nth)
		_exit(137);
}
