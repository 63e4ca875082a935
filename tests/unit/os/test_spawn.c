/* SPDX-License-Identifier: Apache-2.0 */
/* os/spawn: maps of ids, as they are written. */
#include "test.h"

#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/spawn.h"

enum { MAPPED = 10, REFUSED, NO_NAMESPACE };

/* In a child with a user namespace of its own. */
static int map_in_child(const struct id_map *m)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct err e = ERR_INIT;
		unsigned inside = 0, outside = 0, count = 0;
		FILE *f;

		if (unshare(CLONE_NEWUSER) < 0)
			_exit(NO_NAMESPACE);
		if (spawn_map(m, &e) < 0)
			_exit(e.msg[0] ? REFUSED : 1);
		f = fopen("/proc/self/uid_map", "re");
		if (!f || fscanf(f, "%u %u %u", &inside, &outside, &count) != 3)
			_exit(2);
		_exit(inside == m->uid[0].inside && outside == m->uid[0].outside && count == 1 &&
					getuid() == inside && getgid() == m->gid[0].inside
				? MAPPED
				: 3);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
									       : -1;
}

TEST(an_id_is_mapped_as_it_says)
{
	struct id_map m = id_map_one(getuid(), getgid());
	int rc = map_in_child(&m);

	if (rc == NO_NAMESPACE)
		SKIP("user namespaces are refused here");
	CHECK_INT(rc, MAPPED);
	m.uid[0].inside = 4711;
	m.gid[0].inside = 4712;
	CHECK_INT(map_in_child(&m), MAPPED);
}

TEST(what_may_not_be_mapped_is_an_error)
{
	struct id_map m = id_map_one(getuid(), getgid());
	int rc = map_in_child(&m);

	if (rc == NO_NAMESPACE)
		SKIP("user namespaces are refused here");
	CHECK_INT(rc, MAPPED); /* control */
	m.gid_n = 0;
	CHECK_INT(map_in_child(&m), REFUSED);
	m.gid_n = 1;
	m.uid[0].outside++; /* somebody else's */
	CHECK_INT(map_in_child(&m), REFUSED);
	m.uid[0].outside--;
	m.uid_n = ID_LINES_MAX + 1;
	CHECK_INT(map_in_child(&m), REFUSED);
}
