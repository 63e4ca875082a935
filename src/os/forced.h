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

/*
 * Test seam: CROFT_CRASH_AT="land.file" ends croft on the spot, as SIGKILL would, when it gets to that step
 * ("land.file:3": the third time). It can only end croft, which any caller can do anyway.
 */
void forced_crash(const char *step);

#endif
