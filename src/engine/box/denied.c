/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Denied names of a staged workspace.
 *
 * What is staged lands later, so a denial holds in the view as it does in the directory itself: what is
 * there is hidden, and the broker keeps the name from being made, or from being put in its place. A
 * directory that is there for certain needs no broker: it is hidden, and every directory on the way
 * to it is a mount point that cannot be renamed away.
 * Symlinks: the layers are a sandbox's, and where a symlink in them leads is known only in the mounted
 *           view. It is followed there by hand, inside the private root, before any process of the
 *           command exists. What it leads to is hidden when it is the host's; one that leads nowhere in
 *           the workspace refuses the run, as in a workspace that is not staged.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "engine/plan/expand.h"
#include "engine/box/box.h"
#include "engine/box/setup.h"
#include "os/path.h"
#include "os/seccomp.h"

#define HOPS_MAX 40 /* symlinks followed, as many as the kernel would */

/* ---- planning ---- */

/* Is a directory at this path of the layer, 1, or nothing at its first name, 0? Otherwise -1. */
static int layer_has_dir(const char *layer, const char *rel)
{
	cleanup_fd int top = path_open(AT_FDCWD, layer, O_PATH | O_DIRECTORY, PATH_NO_SYMLINKS);
	cleanup_fd int fd = -1;
	char first[NAME_MAX + 1];
	size_t n = strcspn(rel, "/");
	struct stat st;

	if (top < 0 || n >= sizeof(first))
		return -1;
	memcpy(first, rel, n);
	first[n] = '\0';
	if (fstatat(top, first, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -1;
	fd = path_open(top, rel, O_PATH | O_DIRECTORY, PATH_NO_SYMLINKS | PATH_BENEATH);
	return fd >= 0 ? 1 : -1;
}

/*
 * Will the view have a directory here, whatever the layers say otherwise? The newest layer that knows
 * its first name decides; where that is not enough to tell, it is not certain.
 */
static bool surely_dir(const struct staging *st, const char *path)
{
	const struct staging_tree *in = NULL;
	const char *rel;
	int r = 0;

	for (size_t i = 0; i < st->trees_n; i++)
		if (path_is_above(st->trees[i].dst, path) &&
			(!in || strlen(st->trees[i].dst) > strlen(in->dst)))
			in = &st->trees[i];
	if (!in)
		return false;
	rel = path + strlen(in->dst) + 1;
	if (in->upper)
		r = layer_has_dir(in->upper, rel);
	for (const char *const *v = in->lower; r == 0 && *v; v++)
		r = layer_has_dir(*v, rel);
	return r == 1;
}

/* Every directory between the workspace and the denied one: a mount point cannot be renamed away. */
static int add_pins(struct plan *p, const struct place *pl, const char *ws, struct err *e)
{
	char path[POLICY_PATH_MAX];

	for (const char *s = pl->path + strlen(ws) + 1; (s = strchr(s, '/')); s++) {
		struct plan_op *op;
		bool have = false;

		snprintf(path, sizeof(path), "%.*s", (int)(s - pl->path), pl->path);
		for (size_t i = p->n; i-- > 0 && !have;)
			have = p->ops[i].dst && str_eq(p->ops[i].dst, path);
		if (have)
			continue;
		op = plan_add(p, PLAN_BIND, path, path);
		if (!op)
			return err_set(e, ENOMEM, "make the plan");
		op->access = ACCESS_WRITE;
		op->is_dir = op->staged = op->nested = true;
		op->rule = pl->rule;
	}
	return 0;
}

bool setup_in_writable(const struct policy *pol, const char *path)
{
	char parent[POLICY_PATH_MAX];
	const char *slash = strrchr(path, '/');

	snprintf(parent, sizeof(parent), "%.*s", slash == path ? 1 : (int)(slash - path), path);
	return policy_access(pol, parent, NULL) == ACCESS_WRITE;
}

int namespace_add_denied(
	struct plan *p, const struct place *pl, const struct staging *st, struct err *e)
{
	struct plan_op *op;

	if (!pl->rule->optional && setup_in_writable(p->policy, pl->path)) {
		if (!surely_dir(st, pl->path)) {
			p->broker = true;
			p->seccomp_flags |= SECCOMP_NOTIFY_READS;
		} else if (add_pins(p, pl, st->trees[0].dst, e) < 0) {
			return -e->errnum;
		}
	}
	op = plan_add(p, PLAN_MASK, NULL, pl->path);
	if (!op)
		return err_set(e, ENOMEM, "make the plan");
	op->staged = op->nested = true;
	op->rule = pl->rule;
	return 0;
}

/* ---- set-up ---- */

/* A path of the view being followed: `at` has no symlink in it, `rest` is still to go. */
struct follow {
	char at[PATH_MAX], rest[PATH_MAX];
	mode_t mode;    /* of what is at the end; 0: there is nothing at `at` */
	bool last_link; /* the last name itself is a symlink */
};

static int too_long(const char *dst, struct err *e)
{
	return err_refuse(e, "%s leads through too many symlinks to be denied; remove them", dst);
}

/* Put where the symlink at f->at leads in its place. */
static int enter_link(struct setup *s, struct follow *f, const char *dst, struct err *e)
{
	char text[PATH_MAX], rest[PATH_MAX];
	ssize_t n = readlinkat(s->root, setup_rel(f->at), text, sizeof(text) - 1);

	if (n < 0)
		return err_set(e, errno, "look at %s", f->at);
	/* Where those lead depends on who asks. */
	if (path_is_above("/proc", f->at))
		return err_refuse(e,
			"%s leads through %s, so it cannot be denied safely; remove it", dst,
			f->at);
	text[n] = '\0';
	f->last_link |= !f->rest[strspn(f->rest, "/")];
	if (snprintf(rest, sizeof(rest), "%s/%s", text, f->rest) >= (int)sizeof(rest))
		return too_long(dst, e);
	memcpy(f->rest, rest, sizeof(rest));
	if (text[0] == '/')
		f->at[0] = '\0';
	else
		*strrchr(f->at, '/') = '\0';
	return 0;
}

/* The next name: 1, or 0 when there is none. */
static int next_name(struct follow *f, const char *dst, struct err *e)
{
	const char *p = f->rest + strspn(f->rest, "/");
	size_t n = strcspn(p, "/"), len = strlen(f->at);

	if (n == 0)
		return 0;
	if (n == 2 && memcmp(p, "..", 2) == 0) {
		char *slash = strrchr(f->at, '/');

		if (slash)
			*slash = '\0';
	} else if (n != 1 || p[0] != '.') {
		if (len + 1 + n >= sizeof(f->at))
			return too_long(dst, e);
		f->at[len] = '/';
		memcpy(f->at + len + 1, p, n);
		f->at[len + 1 + n] = '\0';
	}
	memmove(f->rest, p + n, strlen(p + n) + 1);
	return 1;
}

static int follow(struct setup *s, struct follow *f, const char *dst, struct err *e)
{
	int r, hops = 0;

	snprintf(f->rest, sizeof(f->rest), "%s", dst);
	f->mode = S_IFDIR;
	while ((r = next_name(f, dst, e)) == 1) {
		cleanup_fd int fd = -1;
		struct stat st;

		fd = path_open(s->root, f->at[0] ? setup_rel(f->at) : ".", O_PATH | O_NOFOLLOW,
			PATH_BENEATH);
		if (fd == -ENOENT || fd == -ENOTDIR) {
			f->mode = 0;
			return 0;
		}
		if (fd < 0 || fstat(fd, &st) < 0)
			return err_set(e, fd < 0 ? -fd : errno, "look at %s", f->at);
		f->mode = st.st_mode & S_IFMT;
		if (!S_ISLNK(st.st_mode))
			continue;
		if (++hops > HOPS_MAX)
			return too_long(dst, e);
		if (enter_link(s, f, dst, e) < 0)
			return -e->errnum;
	}
	return r;
}

/* Is this in something that the host shows, and not only in the private root? */
static bool is_shown(const struct plan *p, const char *path)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct plan_op *op = &p->ops[i];

		if ((op->kind == PLAN_BIND || op->kind == PLAN_OVERLAY || op->kind == PLAN_COPY) &&
			(str_eq(op->dst, path) || path_is_above(op->dst, path)))
			return true;
	}
	return false;
}

int setup_staged_mask(struct setup *s, const struct plan_op *op, struct err *e)
{
	const char *ws = s->in->request->workspace;
	struct follow f = {.at = ""};
	struct plan_op mask = *op;

	if (follow(s, &f, op->dst, e) < 0)
		return -e->errnum;
	if (!f.mode) {
		if (f.last_link && path_is_above(ws, f.at))
			return err_refuse(e,
				"%s is a symlink that leads nowhere, so it cannot be denied "
				"safely; remove it",
				op->dst);
		return 0;
	}
	if (!f.at[0] || str_eq(f.at, ws) || path_is_above(f.at, ws))
		return err_refuse(e,
			"%s leads to the workspace itself, so it cannot be denied; remove the "
			"symlink, or the rule",
			op->dst);
	if (!is_shown(s->in->plan, f.at))
		return 0; /* the sandbox's own: nothing of the host's is there */
	mask.dst = f.at;
	mask.is_dir = S_ISDIR(f.mode);
	return setup_mask(s, &mask, e);
}
