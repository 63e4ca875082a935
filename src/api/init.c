/* SPDX-License-Identifier: Apache-2.0 */
/* libcroft: a first policy file for a project. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api_impl.h"
#include "base/cleanup.h"
#include "learn/first_policy.h"
#include "base/str.h"
#include "os/path.h"
#include "session/config/layers.h"

#define REPORT_MAX_B (64u << 10)

/* Nothing is replaced, and no symlink is followed: a project may have put one there. */
static int write_new(const char *path, const struct buf *text, struct err *e)
{
	cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	int r;

	if (fd < 0 && errno == EEXIST)
		return err_refuse(e,
			"%s is there already and is left alone; to see another: croft init --print",
			path);
	if (fd < 0)
		return err_set(e, errno, "make %s", path);
	r = fd_write_all(fd, text->data, text->len);
	return r < 0 ? err_set(e, -r, "write %s", path) : 0;
}

static void report(const struct first_policy *f, const char *path, struct buf *out)
{
	for (size_t i = 0; i < f->found.n; i++)
		buf_addf(out, "found %s\n", f->found.v[i]);
	if (!f->found.n)
		buf_adds(out, "found no language or package manager that croft knows\n");
	buf_adds(out, "wrote ");
	str_show_all(out, path);
	buf_adds(out, "; every line in it is explained\n");
	if (f->widens)
		buf_adds(out, "read it, then approve it, since it grants something: croft policy "
			      "trust\n");
	buf_adds(out, "try it: croft run -- CMD\n");
}

int croft_init(struct croft *c, const char *directory, bool print, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX_B), path = BUF_INIT(PATH_MAX);
	cleanup_layers_info struct layers_info info = {0};
	struct first_policy f;
	int r;

	c->err = ERR_INIT;
	r = layers_locate(&info, directory, &c->err);
	if (r < 0)
		return r;
	r = first_policy_make(&f, info.workspace, &c->err);
	buf_addf(&path, "%s/croft.yaml", info.workspace);
	if (r == 0 && print)
		buf_add(&b, f.yaml.data, f.yaml.len);
	else if (r == 0 && (r = write_new(buf_str(&path), &f.yaml, &c->err)) == 0)
		report(&f, buf_str(&path), &b);
	first_policy_done(&f);
	return r < 0 ? -c->err.errnum : api_give(c, 0, &b, ret);
}
