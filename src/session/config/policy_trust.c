/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's approvals of project policies: STATE/trust/<sha256 of the project file's path>.
 *
 * Each file belongs to one project and lists the sha256 of the exact bytes that were approved, one
 * per line, newest last; so switching between branches does not ask again, and any edit does. The
 * file counts only if it is ours, regular and closed to others. The directory is on the floor: no
 * sandbox reads or writes it, whatever its policy.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "session/config/layers.h"
#include "os/path.h"

#define TRUST_FILE_MAX_B 8192u
#define TRUST_DIGESTS_MAX 64u /* approvals kept per project */

static bool trust_path(struct buf *ret, const char *state)
{
	buf_addf(ret, "%s/trust", state);
	return !ret->failed;
}

/* Open STATE/trust; -ENOENT when there is none. */
static int trust_dir(const char *state, bool make)
{
	cleanup_buf struct buf path = BUF_INIT(PATH_MAX);
	int fd;

	if (!trust_path(&path, state))
		return -ENAMETOOLONG;
	if (make)
		return dir_make(buf_str(&path), 0700);
	fd = open(buf_str(&path), O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* The approvals of one project as text; empty when there are none or they are not to be believed.
 */
static int trust_read(int dir, const char *name, struct buf *ret)
{
	cleanup_fd int fd =
		openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
		(st.st_mode & 077))
		return -EPERM;
	return file_read_fd(fd, ret);
}

static bool listed(const char *text, const struct digest *d)
{
	while (*text) {
		size_t n = strcspn(text, "\n");

		if (n == DIGEST_HEX_LEN && memcmp(text, d->hex, n) == 0)
			return true;
		text += n + (text[n] == '\n');
	}
	return false;
}

bool trust_has(const char *state, const char *project_file, const struct digest *d)
{
	cleanup_buf struct buf text = BUF_INIT(TRUST_FILE_MAX_B);
	cleanup_fd int dir = trust_dir(state, false);
	struct digest name;

	if (dir < 0)
		return false;
	digest_sha256(&name, project_file, strlen(project_file));
	return trust_read(dir, name.hex, &text) == 0 && listed(buf_str(&text), d);
}

int trust_add(const char *state, const char *project_file, const struct digest *d, struct err *e)
{
	cleanup_buf struct buf old = BUF_INIT(TRUST_FILE_MAX_B);
	cleanup_buf struct buf text = BUF_INIT(TRUST_FILE_MAX_B);
	cleanup_fd int dir = trust_dir(state, true);
	const char *p = "";
	struct digest name;
	int r;

	if (dir < 0)
		return err_set(e, -dir, "make %s/trust", state);
	digest_sha256(&name, project_file, strlen(project_file));
	if (trust_read(dir, name.hex, &old) == 0)
		p = buf_str(&old);
	if (listed(p, d))
		return 0;
	/* Keep the newest: every line has the same length, or is not one of ours. */
	if (old.len > (TRUST_DIGESTS_MAX - 1) * (DIGEST_HEX_LEN + 1))
		p += old.len - (TRUST_DIGESTS_MAX - 1) * (DIGEST_HEX_LEN + 1);
	buf_addf(&text, "%s%s\n", p, d->hex);
	if (text.failed)
		return err_set(e, ENOMEM, "record the approval");
	r = file_replace_at(dir, name.hex, buf_str(&text), text.len, 0600);
	return r < 0 ? err_set(e, -r, "record the approval in %s/trust", state) : 0;
}

int trust_revoke(const char *state, const char *project_file, struct err *e)
{
	cleanup_fd int dir = trust_dir(state, false);
	struct digest name;

	if (dir == -ENOENT)
		return 0;
	if (dir < 0)
		return err_set(e, -dir, "open %s/trust", state);
	digest_sha256(&name, project_file, strlen(project_file));
	if (unlinkat(dir, name.hex, 0) == 0)
		return 1;
	return errno == ENOENT ? 0 : err_set(e, errno, "revoke the approval in %s/trust", state);
}
