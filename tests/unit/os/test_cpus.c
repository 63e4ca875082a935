/* SPDX-License-Identifier: Apache-2.0 */
/* os/cpus: a task begins on another processor, and ends up with all of them. */
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

#include "os/cpus.h"

static struct cpus cpus;
static int go[2];
static cpu_set_t freed;

static void *wait_and_free(void *arg)
{
	char c;

	if (read(go[0], &c, 1) == 1)
		cpus_all(&cpus);
	pthread_getaffinity_np(pthread_self(), sizeof(freed), &freed);
	return arg;
}

/* CROFT_FORCE_FAIL=loadavg: as if nobody knew how busy the machine is. */
TEST(begins_elsewhere_and_ends_everywhere)
{
	cpu_set_t before;
	pthread_t t;

	setenv("CROFT_FORCE_FAIL", "loadavg", 1);
	cpus_look(&cpus);
	unsetenv("CROFT_FORCE_FAIL");
	CHECK(cpus.many == (CPU_COUNT(&cpus.all) > 1));
	CHECK_INT(pipe(go), 0);
	CHECK_INT(pthread_create(&t, NULL, wait_and_free, NULL), 0);
	cpus_begin_thread(&cpus, t);
	CHECK_INT(pthread_getaffinity_np(t, sizeof(before), &before), 0);
	CHECK_INT(CPU_COUNT(&before), CPU_COUNT(&cpus.all) - cpus.many);
	CHECK_INT(write(go[1], "x", 1), 1);
	CHECK_INT(pthread_join(t, NULL), 0);
	CHECK(CPU_EQUAL(&freed, &cpus.all));
}

TEST(one_processor_is_left_alone)
{
	cpu_set_t all, one;
	pthread_t t;

	CHECK_INT(sched_getaffinity(0, sizeof(all), &all), 0);
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
		if (CPU_ISSET(i, &all))
			CPU_SET(i, &one);
	CHECK_INT(sched_setaffinity(0, sizeof(one), &one), 0);
	setenv("CROFT_FORCE_FAIL", "loadavg", 1);
	cpus_look(&cpus);
	unsetenv("CROFT_FORCE_FAIL");
	CHECK(!cpus.many);
	CHECK_INT(pipe(go), 0);
	CHECK_INT(pthread_create(&t, NULL, wait_and_free, NULL), 0);
	cpus_begin_thread(&cpus, t);
	CHECK_INT(write(go[1], "x", 1), 1);
	CHECK_INT(pthread_join(t, NULL), 0);
	CHECK(CPU_EQUAL(&freed, &one));
	CHECK_INT(sched_setaffinity(0, sizeof(all), &all), 0);
}
