/* SPDX-License-Identifier: Apache-2.0 */
/* Forced absence of kernel features: see forced.h. */
#include "os/forced.h"

#include <stdlib.h>
#include <string.h>

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
