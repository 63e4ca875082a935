/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where new processes and threads begin.
 *
 * Purpose: the kernel puts a new task on the processor of the one that made it, where it waits until that
 *          one sleeps, while another processor may be idle. A sandbox is set up by three tasks
 *          that have work at once, so each is given the others' processors first.
 * Limits:  it is about the beginning alone: a task calls cpus_all() as soon as it runs, and the scheduler
 *          decides from then on. The command must see every processor that croft may use, so the
 *          first process calls cpus_all() again when nobody can change its mask any more.
 *          Where as many tasks want to run as there are processors, nothing is done: the scheduler knows
 *          better then, and waiting for a busy processor was measured to cost more than it gives.
 * Failure: none; with one processor, or more than CPU_SETSIZE, nothing is done.
 */
#ifndef CROFT_OS_CPUS_H
#define CROFT_OS_CPUS_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

struct cpus {
	cpu_set_t all; /* that we may use */
	bool many;     /* more than one, and not all of them busy */
};

void cpus_look(struct cpus *ret);
/* Let it begin on any processor but ours. It has not run yet, or does already: both are well. */
void cpus_begin_process(const struct cpus *c, pid_t pid);
void cpus_begin_thread(const struct cpus *c, pthread_t thread);
/* The calling thread may use all of them. */
void cpus_all(const struct cpus *c);

#endif
