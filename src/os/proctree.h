/* SPDX-License-Identifier: Apache-2.0 */
/* Ending a tree of processes where there is no pid namespace to end it for us. */
#ifndef CROFT_OS_PROCTREE_H
#define CROFT_OS_PROCTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The children this process has now, so that a later kill spares them. Returns how many. */
size_t proctree_children(pid_t *ret, size_t max);
/*
 * Kill and reap every descendant of this process except the given children and what is below them.
 * The caller must be a child subreaper, so that nothing escapes by double-forking. Bounded in passes.
 */
void proctree_kill(const pid_t *spare, size_t spare_n);

/* `root` and everything below it, as the process table shows it now. Returns how many, at most max. */
size_t proctree_below(pid_t root, pid_t *ret, size_t max);
/* Is it stopped, or gone, as the process table shows it now? */
bool proctree_stopped(pid_t pid);
/*
 * Does each of its threads that has not stopped wait in vfork() for a child that has? It does nothing before
 * that child does, and no signal reaches it before.
 */
bool proctree_vfork_stopped(pid_t pid);
/* Has it been told to stop, and was not scheduled since? */
bool proctree_will_stop(pid_t pid);
/* Is it gone, a zombie, or on its way there? Its children may not have been told yet. */
bool proctree_ending(pid_t pid);

#endif
