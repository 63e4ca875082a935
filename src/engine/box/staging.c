/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A staged workspace: kept overlay layers in the place of the host's directory.
 *
 * Trust:   layers hold what sandboxes wrote, and stand in directories of croft's own. Each is looked
 *          at when the plan is made and opened once, without following a symlink, before anything is
 *          mounted: it must be the directory the plan saw. They are named by descriptor, so no
 *          character of any path can be taken for mount syntax.
 * Overlay: userxattr, as in any user namespace; with it the kernel neither follows nor makes
 *          redirects and metacopies, so a path in a layer is the path in the view. No index: layers
 *          are frozen, copied and stacked anew between mounts.
 *          Volatile: without it, the end of every command would wait until the host's whole file
 *          system has been written to its disk (and so would each fsync inside). What is staged
 *          survives a crash of anything but the machine, like any file that was not synced. The mark
 *          by which the kernel refuses such layers a second time is ours to remove: nobody else
 *          mounts them, and an interrupted command is known from the environment's journal.
 * Failure: a file system that cannot hold an upper layer is the machine's: the caller may copy
 *          instead.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "engine/plan/expand.h"
#include "engine/box/box.h"
#include "engine/box/setup.h"
#include "os/forced.h"
#include "os/mount.h"
#include "os/path.h"

#define STAGING_TREES_MAX 64u
#define STAGING_OBJECTS_MAX 64u
#define OPTIONS_MAX 4096 /* mount() takes one page */
#define FS_VALUE_MAX 255 /* fsconfig() takes no longer value */
#define MANY_LAYERS 10   /* fewer fit one value for certain */

/* ---- planning ---- */

int namespace_check_staging(const struct request *r, struct err *e)
{
	const struct staging *st = r->staging;
	size_t objects = 0;

	if (st->trees_n == 0 || st->trees_n > STAGING_TREES_MAX)
		return err_refuse(e, "%zu staged directories; between 1 and %u are possible",
			st->trees_n, STAGING_TREES_MAX);
	for (size_t i = 0; i < st->trees_n; i++) {
		const struct staging_tree *t = &st->trees[i];

		if (i == 0 ? strcmp(t->dst, r->workspace) != 0
			   : !path_is_above(r->workspace, t->dst))
			return err_refuse(
				e, "%s is not in the workspace: it is not staged", t->dst);
		if (!t->lower || !t->lower[0] || !t->upper != !t->work)
			return err_refuse(e, "%s is staged without its layers", t->dst);
	}
	while (st->objects && st->objects[objects])
		if (++objects > STAGING_OBJECTS_MAX)
			return err_refuse(
				e, "more than %u object directories", STAGING_OBJECTS_MAX);
	return 0;
}

/* One layer that nobody writes needs no overlay. */
static bool is_plain(const struct staging_tree *t, bool writable)
{
	return !writable && !t->lower[1] && !t->upper;
}

static int add_tree(struct plan *p, const struct place *pl, const struct staging_tree *t,
	bool nested, bool writable, struct err *e)
{
	bool plain = is_plain(t, writable);
	struct plan_op *op =
		plan_add(p, plain ? PLAN_BIND : PLAN_OVERLAY, plain ? t->lower[0] : NULL, t->dst);
	int r = 0;

	if (!op)
		return err_set(e, ENOMEM, "make the plan");
	op->is_dir = true;
	op->nested = nested;
	op->rule = pl->rule;
	op->access = writable && pl->access == ACCESS_WRITE ? ACCESS_WRITE : ACCESS_READ;
	/* For reading, the newest layer is one like the others. */
	if (!writable && t->upper)
		r = plan_add_layer(op, t->upper, e);
	for (const char *const *v = t->lower; r == 0 && *v; v++)
		r = plan_add_layer(op, *v, e);
	if (r == 0 && writable && (r = plan_add_layer(op, t->upper, e)) == 0)
		r = plan_add_layer(op, t->work, e);
	if (r < 0)
		return r;
	op->layers->writable = writable;
	if (plain) { /* its identity is the operation's own */
		op->dev = op->layers->v[0].dev;
		op->ino = op->layers->v[0].ino;
		free(op->layers->v[0].path);
		free(op->layers);
		op->layers = NULL;
	}
	return 0;
}

static bool is_write_in(const struct policy_rule *r, const char *ws)
{
	return !r->glob && r->access == ACCESS_WRITE && path_is_above(ws, r->path);
}

/* Does a rule let anything in the workspace be written? */
static bool any_writable(const struct policy *pol, const char *ws)
{
	for (size_t i = 0; i < pol->rules_n; i++)
		if (is_write_in(&pol->rules[i], ws))
			return true;
	return false;
}

/* Places to write in a workspace that is for reading: mounts of their own out of its view. */
static int add_writable(struct plan *p, const char *ws, struct err *e)
{
	for (size_t i = 0; i < p->policy->rules_n; i++) {
		const struct policy_rule *rule = &p->policy->rules[i];
		struct plan_op *op;

		if (!is_write_in(rule, ws))
			continue;
		op = plan_add(p, PLAN_BIND, rule->path, rule->path);
		if (!op)
			return err_set(e, ENOMEM, "make the plan");
		op->access = ACCESS_WRITE;
		op->staged = op->nested = true;
		op->rule = rule;
	}
	return 0;
}

static int add_objects(struct plan *p, const struct staging *st, struct err *e)
{
	char dst[POLICY_PATH_MAX];

	for (size_t i = 0; st->objects && st->objects[i]; i++) {
		cleanup_fd int fd = -1;
		struct plan_op *op;
		struct stat at;

		if (!*st->objects[i])
			continue;
		fd = path_open(AT_FDCWD, st->objects[i], O_PATH | O_DIRECTORY, PATH_NO_SYMLINKS);
		if (fd < 0 || fstat(fd, &at) < 0)
			return err_set(e, fd < 0 ? -fd : errno, "open %s", st->objects[i]);
		snprintf(dst, sizeof(dst), "%s/%zu", st->objects_dir, i);
		op = plan_add(p, PLAN_BIND, st->objects[i], dst);
		if (!op)
			return err_set(e, ENOMEM, "make the plan");
		op->is_dir = true;
		op->dev = at.st_dev;
		op->ino = at.st_ino;
	}
	return 0;
}

int namespace_add_staging(struct plan *p, const struct place *pl, bool nested,
	const struct staging *st, struct err *e)
{
	bool write = pl->access == ACCESS_WRITE || any_writable(p->policy, st->trees[0].dst);

	for (size_t i = 0; i < st->trees_n; i++) {
		const struct staging_tree *t = &st->trees[i];

		if (add_tree(p, pl, t, i > 0 || nested, write && t->upper, e) < 0)
			return -e->errnum;
	}
	if (pl->access != ACCESS_WRITE && add_writable(p, st->trees[0].dst, e) < 0)
		return -e->errnum;
	return add_objects(p, st, e);
}

/*
 * The overlays that a plan for this request will ask for, alone. Views of other directories make layers, too,
 * which are not known yet: then what is made early is made in vain.
 */
int namespace_add_staging_early(struct plan *ret, const struct policy *pol, const struct staging *st,
	struct err *e)
{
	const struct policy_rule *rule = NULL;
	struct place pl = {.access = policy_access(pol, st->trees[0].dst, &rule)};

	*ret = (struct plan){.tier = TIER_NAMESPACE, .policy = pol};
	pl.rule = rule;
	return namespace_add_staging(ret, &pl, false, st, e);
}

/* ---- set-up ---- */

static int open_layer(const struct plan_layer *l, struct err *e)
{
	cleanup_fd int fd = path_open(AT_FDCWD, l->path, O_PATH | O_DIRECTORY, PATH_NO_SYMLINKS);
	struct stat st;

	if (fd == -ELOOP || fd == -ENOTDIR ||
		(fd >= 0 && (fstat(fd, &st) < 0 || st.st_dev != l->dev || st.st_ino != l->ino)))
		return err_refuse(
			e, "the layer %s changed while the sandbox was being set up", l->path);
	if (fd < 0)
		return err_set(e, -fd, "open the layer %s", l->path);
	return take_fd(&fd);
}

static int open_layers(struct setup *s, const struct plan *p, struct err *e)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		n += p->ops[i].layers ? p->ops[i].layers->n : 0;
	if (n == 0)
		return 0;
	s->layers = calloc(n, sizeof(*s->layers));
	if (!s->layers)
		return err_set(e, ENOMEM, "open the layers");
	for (size_t i = 0; i < p->n; i++)
		for (size_t k = 0; p->ops[i].layers && k < p->ops[i].layers->n; k++) {
			int fd = open_layer(&p->ops[i].layers->v[k], e);

			if (fd < 0)
				return fd;
			s->layers[s->layers_n++] = fd;
		}
	return 0;
}

/* ---- overlays ---- */

/*
 * An upper layer on a disk makes an overlay slow to mount: the kernel tries out there
 * what it can do. A thread makes them, detached, while we mount the rest.
 */
static struct maker {
	pthread_t thread;
	bool running;
	const struct setup *setup;
	const struct plan *plan; /* whose overlays they are, or like whose */
	int mount[STAGING_TREES_MAX + REQUEST_VIEWS_MAX]; /* in the plan's order; -1: see errnum */
	int errnum[STAGING_TREES_MAX + REQUEST_VIEWS_MAX];
	size_t used; /* of them, in the root already */
} maker;

/* Options of one overlay as fsconfig() takes them. */
struct options {
	const char *v[PLAN_LAYERS_MAX + 2 + 7];
	char upper[40], work[40];
	char lower[sizeof("lowerdir=") + FS_VALUE_MAX]; /* all of them, or… */
	char each[PLAN_LAYERS_MAX + 2][40];             /* …one by one, since 6.8 */
};

/* False: all layers do not fit one value, and there is no other way. */
static bool lower_options(struct options *o, size_t at, const int *fd, size_t n)
{
	size_t len = (size_t)snprintf(o->lower, sizeof(o->lower), "lowerdir=");

	for (size_t i = 0; i < n && len < sizeof(o->lower); i++)
		len += (size_t)snprintf(o->lower + len, sizeof(o->lower) - len,
			"%s/proc/self/fd/%d", i ? ":" : "", fd[i]);
	if (len < sizeof(o->lower)) {
		o->v[at] = o->lower;
		return true;
	}
	for (size_t i = 0; i < n; i++) {
		snprintf(o->each[i], sizeof(o->each[i]), "lowerdir+=/proc/self/fd/%d", fd[i]);
		o->v[at + i] = o->each[i];
	}
	return !forced_fail("lowerdir+");
}

/* The mark of the last mount; that it is there no more, or never was, is fine. */
static void forget_volatile(int work)
{
	unlinkat(work, "work/incompat/volatile/dirty", 0);
	unlinkat(work, "work/incompat/volatile", AT_REMOVEDIR);
	unlinkat(work, "work/incompat", AT_REMOVEDIR);
}

static int make_overlay(const struct plan_layers *l, const int *fd, int *ret_errnum)
{
	size_t lower_n = l->writable ? l->n - 2 : l->n, n = 3;
	struct options o = {.v = {"userxattr", "index=off", "uuid=off"}};
	struct err why = ERR_INIT;
	int m = -1;

	if (l->writable) {
		snprintf(o.upper, sizeof(o.upper), "upperdir=/proc/self/fd/%d", fd[lower_n]);
		snprintf(o.work, sizeof(o.work), "workdir=/proc/self/fd/%d", fd[lower_n + 1]);
		o.v[n++] = o.upper;
		o.v[n++] = o.work;
		o.v[n++] = "volatile";
		forget_volatile(fd[lower_n + 1]);
	}
	if (forced_fail("overlay"))
		why.errnum = ENODEV;
	else if (!lower_options(&o, n, fd, lower_n))
		why.errnum = EINVAL;
	else
		mount_new("overlay", o.v, MOUNT_NODEV | (l->writable ? 0 : MOUNT_RO), &m, &why);
	*ret_errnum = why.errnum;
	return m;
}

static void *make_overlays(void *arg)
{
	const struct plan *p = maker.plan;
	const int *fd = maker.setup->layers;
	size_t n = 0;

	cpus_all(&maker.setup->in->cpus);
	for (size_t i = 0; i < p->n; i++) {
		if (!p->ops[i].layers)
			continue;
		maker.mount[n] = make_overlay(p->ops[i].layers, fd, &maker.errnum[n]);
		fd += p->ops[i].layers->n;
		n++;
	}
	return arg;
}

int setup_staging_begin(struct setup *s, const struct plan *p, struct err *e)
{
	int r = open_layers(s, p, e);

	if (r < 0 || s->layers_n == 0)
		return r;
	maker.setup = s;
	maker.plan = p;
	r = pthread_create(&maker.thread, NULL, make_overlays, NULL);
	maker.running = r == 0;
	if (r)
		return err_set(e, r, "start a thread");
	cpus_begin_thread(&s->in->cpus, maker.thread);
	sched_yield(); /* it soon waits for the disk, and we go on meanwhile */
	return 0;
}

static void await_maker(void)
{
	if (maker.running)
		pthread_join(maker.thread, NULL);
	maker.running = false;
}

static const struct plan_layers *next_layers(const struct plan *p, size_t *at)
{
	while (*at < p->n)
		if (p->ops[(*at)++].layers)
			return p->ops[*at - 1].layers;
	return NULL;
}

static bool same_layers(const struct plan_layers *a, const struct plan_layers *b)
{
	bool same = a->n == b->n && a->writable == b->writable;

	for (size_t i = 0; same && i < a->n; i++)
		same = str_eq(a->v[i].path, b->v[i].path) && a->v[i].dev == b->v[i].dev &&
		       a->v[i].ino == b->v[i].ino;
	return same;
}

/* Are they the overlays of the plan, no more and no less? */
static bool made_for(const struct plan *p)
{
	const struct plan_layers *a, *b;
	size_t i = 0, k = 0;

	do {
		a = next_layers(p, &i);
		b = next_layers(maker.plan, &k);
	} while (a && b && same_layers(a, b));
	return !a && !b;
}

int setup_staging_settle(struct setup *s, struct err *e)
{
	size_t i = 0;

	if (maker.plan && made_for(s->in->plan)) {
		maker.plan = s->in->plan;
		return 0;
	}
	await_maker(); /* another one may not have the layers while these are mounted */
	for (size_t n = 0; maker.plan && next_layers(maker.plan, &i); n++)
		close_fd(&maker.mount[n]);
	setup_staging_end(s);
	return setup_staging_begin(s, s->in->plan, e);
}

void setup_staging_end(struct setup *s)
{
	await_maker();
	while (s->layers_n > 0)
		close_fd(&s->layers[--s->layers_n]);
	free(s->layers);
	s->layers = NULL;
}

static int no_overlay(const struct plan_op *op, int errnum, struct err *e)
{
	char why[128];

	err_set(e, errnum, "overlay");
	snprintf(why, sizeof(why), "%.127s", e->msg);
	return err_no_boundary(e,
		"changes to %.300s cannot be staged in %.300s (%s): its file system cannot hold an "
		"overlay's layers, or the workspace has other file systems mounted in it",
		op->dst, op->layers->v[op->layers->writable ? op->layers->n - 2 : 0].path, why);
}

/*
 * Kernels without "lowerdir+" take many layers only from mount(), in one page of options, and only
 * at a place: an empty directory of our own, from where it is taken.
 */
static int mount_many(struct setup *s, const struct plan_op *op, const int *fd, struct err *e)
{
	const struct plan_layers *l = op->layers;
	size_t lower_n = l->writable ? l->n - 2 : l->n;
	cleanup_buf struct buf b = BUF_INIT(OPTIONS_MAX);
	static const char place[] = NS_OWN_DIR "/layers";
	char at[32];
	cleanup_fd int dir = -1, m = -1;

	buf_adds(&b, "userxattr,index=off,uuid=off");
	if (l->writable)
		buf_addf(&b, ",volatile,upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%d",
			fd[lower_n], fd[lower_n + 1]);
	for (size_t i = 0; i < lower_n; i++)
		buf_addf(&b, "%s/proc/self/fd/%d", i ? ":" : ",lowerdir=", fd[i]);
	if (b.failed)
		return err_refuse(e, "%s is staged on too many layers", op->dst);
	if (setup_make_parents(s, place, e) < 0)
		return -e->errnum;
	if (mkdirat(s->root, setup_rel(place), 0700) < 0 && errno != EEXIST)
		return err_set(e, errno, "make %s in the private root", place);
	dir = openat(s->root, setup_rel(place), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	snprintf(at, sizeof(at), "/proc/self/fd/%d", dir);
	if (dir < 0 ||
		mount("overlay", at, "overlay",
			MS_NOSUID | MS_NODEV | (l->writable ? 0 : MS_RDONLY), buf_str(&b)) < 0)
		return no_overlay(op, errno, e);
	m = openat(s->root, setup_rel(place), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return m < 0 ? err_set(e, errno, "open %s", place) : setup_attach(s, m, op, e);
}

int setup_staged(struct setup *s, const struct plan_op *op, struct err *e)
{
	const struct plan_layers *l = op->layers;
	int *fd = s->layers + s->layers_used, r;
	size_t i = maker.used++;

	await_maker();
	s->layers_used += l->n;
	if (maker.mount[i] >= 0)
		r = setup_attach(s, maker.mount[i], op, e);
	else if (maker.errnum[i] == EINVAL && l->n > MANY_LAYERS)
		r = mount_many(s, op, fd, e);
	else
		r = no_overlay(op, maker.errnum[i], e);
	close_fd(&maker.mount[i]);
	if (r == 0 && l->writable && str_eq(op->dst, s->in->request->workspace))
		s->in->fd[SANDBOX_FD_UPPER] = take_fd(&fd[l->n - 2]);
	return r;
}

int setup_staged_bind(struct setup *s, const struct plan_op *op, struct err *e)
{
	cleanup_fd int fd =
		path_open(s->root, setup_rel(op->dst), O_PATH, PATH_NO_SYMLINKS | PATH_BENEATH);
	cleanup_fd int m = -1;

	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
		return 0; /* not in the view, or not itself: less is granted */
	if (fd < 0)
		return err_set(e, -fd, "open %s", op->dst);
	/* With the staged trees that are in it already. */
	if (mount_clone(fd, MOUNT_NODEV | MOUNT_RECURSIVE, &m, e) < 0 ||
		mount_attach(m, fd, "", e) < 0)
		return err_wrap(e, "%s", op->dst);
	s->in->enforced.mounts++;
	return 0;
}

int setup_close_views(struct setup *s, struct err *e)
{
	const struct plan *p = s->in->plan;

	for (size_t i = 0; i < p->n; i++) {
		const struct plan_op *op = &p->ops[i];
		cleanup_fd int fd = -1;

		if (!op->layers || !op->layers->writable || op->access == ACCESS_WRITE)
			continue;
		fd = path_open(
			s->root, setup_rel(op->dst), O_PATH, PATH_NO_SYMLINKS | PATH_BENEATH);
		if (fd < 0)
			return err_set(e, -fd, "open %s", op->dst);
		if (mount_restrict(fd, MOUNT_RO | MOUNT_NODEV, e) < 0)
			return err_wrap(e, "%s", op->dst);
	}
	return 0;
}
