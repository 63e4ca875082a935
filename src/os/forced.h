/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test seam: CROFT_FORCE_FAIL="openat2,landlock,clone3,cgroup,…" makes croft believe the kernel lacks
 * those features, so that fallbacks and refusals are exercised on any machine. It can only take
 * features away; taking one away can only refuse or degrade (recorded), never widen.
 */
#ifndef CROFT_OS_FORCED_H
#define CROFT_OS_FORCED_H

#include <stdbool.h>

bool forced_fail(const char *feature);

#endif
