/* SPDX-License-Identifier: Apache-2.0 */
/* Everything below the first process stands still: see standstill.h. */
#include "engine/init/standstill.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/clock.h"
#include "os/proctree.h"

#define PROCESSES_MAX 65536
#define PASS_MS 1
#define QUIET_PASSES 2

static bool among(pid_t pid, const pid_t *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (v[i] == pid)
			return true;
	return false;
}

/* Everything but us and the spared; *ret_whole: all of it is known. The caller frees *ret. */
static size_t everything(const pid_t *spare, size_t spare_n, pid_t **ret, bool *ret_whole)
{
	pid_t *v = calloc(PROCESSES_MAX, sizeof(*v));
	size_t n = v ? proctree_below(getpid(), v, PROCESSES_MAX) : 0, kept = 0;

	for (size_t i = 0; i < n; i++)
		if (v[i] != getpid() && !among(v[i], spare, spare_n))
			v[kept++] = v[i];
	*ret = v;
	*ret_whole = v && n < PROCESSES_MAX;
	return kept;
}

/* One pass. True: nothing was found that may run. */
static bool stop_all(struct standstill *s, const pid_t *spare, size_t spare_n, bool first)
{
	cleanup_free pid_t *v = NULL;
	bool whole;
	size_t n = everything(spare, spare_n, &v, &whole), running = 0;

	if (first && !(s->before = calloc(n + 1, sizeof(*s->before))))
		return false;
	for (size_t i = 0; i < n; i++) {
		bool stopped = proctree_stopped(v[i]);

		if (first && (stopped || proctree_will_stop(v[i])))
			s->before[s->before_n++] = v[i];
		if (stopped)
			continue;
		if (kill(v[i], SIGSTOP) < 0 && errno == ESRCH)
			continue;
		running += !proctree_vfork_stopped(v[i]);
	}
	return whole && running == 0;
}

bool standstill_begin(struct standstill *s, const pid_t *spare, size_t n, int peer)
{
	struct pollfd gone = {.fd = peer};
	uint64_t until = clock_ms() + STANDSTILL_MS;
	unsigned quiet = 0;

	if (s->on)
		return true;
	s->on = true;
	while (quiet < QUIET_PASSES) {
		quiet = stop_all(s, spare, n, !s->before) ? quiet + 1 : 0;
		/* A stop takes effect when its process is next scheduled. */
		if (!s->before || (!quiet && poll(&gone, 1, PASS_MS) > 0) || clock_ms() >= until)
			break;
	}
	if (quiet == QUIET_PASSES)
		return true;
	standstill_end(s, spare, n);
	return false;
}

void standstill_end(struct standstill *s, const pid_t *spare, size_t n)
{
	cleanup_free pid_t *v = NULL;
	bool whole;
	size_t all = s->on ? everything(spare, n, &v, &whole) : 0;

	for (size_t i = 0; i < all; i++)
		if (!among(v[i], s->before, s->before_n))
			kill(v[i], SIGCONT);
	free(s->before);
	*s = (struct standstill){0};
}
