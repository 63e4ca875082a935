/* SPDX-License-Identifier: Apache-2.0 */
/* Stopping all commands of a sandbox at once: see freezer.h. */
#include "os/freezer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/forced.h"
#include "os/path.h"

/* Make a threaded group; returns its directory. */
static int make_threaded(int parent_fd, const char *name)
{
	cleanup_fd int fd = -1;
	int r;

	if (mkdirat(parent_fd, name, 0755) < 0)
		return -errno;
	fd = openat(parent_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = fd < 0 ? -errno : file_poke_at(fd, "cgroup.type", "threaded");
	if (r < 0) {
		unlinkat(parent_fd, name, AT_REMOVEDIR);
		return r;
	}
	return take_fd(&fd);
}

int freezer_open(struct freezer *f, const struct cgroup *c)
{
	cleanup_fd int dir = -1, events = -1;
	int r;

	*f = FREEZER_INIT;
	if (c->kind != CGROUP_V2 || forced_fail("freezer"))
		return -EOPNOTSUPP;
	dir = make_threaded(c->dir_fd[0], CGROUP_COMMANDS);
	if (dir < 0)
		return dir;
	events = openat(dir, "cgroup.events", O_RDONLY | O_CLOEXEC);
	r = events < 0 ? -errno : 0;
	if (r == 0 && faccessat(dir, "cgroup.freeze", W_OK, AT_EACCESS) < 0) /* Linux 5.2 */
		r = -errno;
	/* Older kernels than those that have it judge by who writes, in the sandbox, not by who opened. */
	if (r == 0 && faccessat(c->dir_fd[0], "cgroup.kill", F_OK, 0) < 0) /* Linux 5.14 */
		r = -EOPNOTSUPP;
	if (r < 0) {
		unlinkat(c->dir_fd[0], CGROUP_COMMANDS, AT_REMOVEDIR);
		return r;
	}
	*f = (struct freezer){.dir_fd = take_fd(&dir), .events_fd = take_fd(&events)};
	return 0;
}

void freezer_close(struct freezer *f)
{
	close_fd(&f->dir_fd);
	close_fd(&f->events_fd);
}

int freezer_add(const struct freezer *f, uint32_t id)
{
	cleanup_fd int dir = -1;
	char name[16];
	int fd;

	snprintf(name, sizeof(name), "%" PRIu32, id);
	dir = make_threaded(f->dir_fd, name);
	if (dir < 0)
		return dir;
	fd = openat(dir, "cgroup.threads", O_WRONLY | O_CLOEXEC);
	if (fd < 0) {
		fd = -errno;
		unlinkat(f->dir_fd, name, AT_REMOVEDIR);
	}
	return fd;
}

int freezer_enter(int fd)
{
	return write(fd, "0", 1) == 1 ? 0 : -errno;
}

void freezer_remove(const struct freezer *f, uint32_t id)
{
	char name[16];

	snprintf(name, sizeof(name), "%" PRIu32, id);
	unlinkat(f->dir_fd, name, AT_REMOVEDIR);
}

int freezer_set(const struct freezer *f, bool on)
{
	return file_poke_at(f->dir_fd, "cgroup.freeze", on ? "1" : "0");
}

bool freezer_is(const struct freezer *f)
{
	char text[256];
	ssize_t n = pread(f->events_fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return strstr(text, "frozen 1") != NULL;
}

int freezer_fd(const struct freezer *f)
{
	return f->events_fd;
}
