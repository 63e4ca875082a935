/* SPDX-License-Identifier: Apache-2.0 */
/* The time that only goes forward. */
#ifndef CROFT_OS_CLOCK_H
#define CROFT_OS_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static inline uint64_t clock_ms(void)
{
	return clock_us() / 1000u;
}

#endif
