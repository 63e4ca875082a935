/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names under which credentials are sent: headers, and parameters of a query. One list for
 * everything that strips, hides or does not record them.
 *
 * Names are compared folded: without regard to case, without '-', '_' and other signs, and without
 * a leading "X-"; most words also count at the end of a name, behind whatever a vendor puts before
 * them. Pure.
 */
#ifndef CROFT_BASE_CREDENTIAL_H
#define CROFT_BASE_CREDENTIAL_H

#include <stdbool.h>
#include <stddef.h>

enum credential_place { CREDENTIAL_HEADER = 1 << 0, CREDENTIAL_QUERY = 1 << 1 };

/* Is what goes under this name a credential, whatever it is? A query's name may be percent-encoded. */
bool credential_name(enum credential_place place, const char *name, size_t n);
/* … or under a name that is also used for other things ("key"), and it looks random? */
bool credential_is(
	enum credential_place place, const char *name, size_t n, const char *value, size_t value_n);

#endif
