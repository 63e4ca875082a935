/* SPDX-License-Identifier: Apache-2.0 */
/* Where new processes and threads begin: see cpus.h. */
#include "os/cpus.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/forced.h"

/*
 * "0.20 0.18 0.12 1/80 11206": how many tasks of the whole machine run or could, us included. 0: it does
 * not say.
 */
static long runnable(void)
{
	cleanup_fd int fd = forced_fail("loadavg")
				    ? -1
				    : openat(AT_FDCWD, "/proc/loadavg", O_RDONLY | O_CLOEXEC);
	char text[80];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	const char *at;

	text[n > 0 ? n : 0] = '\0';
	at = strchr(text, '/');
	while (at && at > text && at[-1] != ' ')
		at--;
	return at ? strtol(at, NULL, 10) : 0;
}

void cpus_look(struct cpus *ret)
{
	int n;

	CPU_ZERO(&ret->all);
	ret->many = false;
	if (sched_getaffinity(0, sizeof(ret->all), &ret->all) < 0)
		return;
	n = CPU_COUNT(&ret->all);
	ret->many = n > 1 && runnable() < n;
}

/* False: there is no other. */
static bool others(const struct cpus *c, cpu_set_t *ret)
{
	int own = c->many ? sched_getcpu() : -1;

	if (own < 0 || own >= CPU_SETSIZE)
		return false;
	*ret = c->all;
	CPU_CLR(own, ret);
	return CPU_COUNT(ret) > 0;
}

void cpus_begin_process(const struct cpus *c, pid_t pid)
{
	cpu_set_t set;

	if (others(c, &set))
		sched_setaffinity(pid, sizeof(set), &set);
}

void cpus_begin_thread(const struct cpus *c, pthread_t thread)
{
	cpu_set_t set;

	if (others(c, &set))
		pthread_setaffinity_np(thread, sizeof(set), &set);
}

void cpus_all(const struct cpus *c)
{
	if (c->many)
		sched_setaffinity(0, sizeof(c->all), &c->all);
}
