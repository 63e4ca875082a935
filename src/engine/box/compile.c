/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a policy to the plan of a private root.
 *
 * Order matters in the result: scratch and generated files first, then host binds with parents
 * before children, so that a deeper rule always lies on top of a wider one, then masks and decoys,
 * then the Landlock rules that say the same once more.
 * Invariant: nothing of the host is visible except through a PLAN_BIND, PLAN_DEVICE or
 *            PLAN_OVERLAY.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "engine/plan/decoys.h"
#include "engine/plan/expand.h"
#include "engine/box/box.h"
#include "os/tproxy.h"
#include "os/path.h"
#include "os/seccomp.h"

/* The resolver is this machine: what it did not answer in a second was lost, and is asked again. */
#define RESOLVER_OPTIONS "options timeout:1 attempts:5\n"

static const char *const devices[] = {
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"};

static int no_memory(struct err *e)
{
	return err_set(e, ENOMEM, "make the plan");
}

static int add_scratch(struct plan *p, const char *dst, mode_t mode, struct err *e)
{
	struct plan_op *op = plan_add(p, PLAN_SCRATCH, NULL, dst);

	if (!op)
		return no_memory(e);
	op->mode = mode;
	op->is_dir = true;
	return 0;
}

static int add_symlink(struct plan *p, const char *target, const char *dst, struct err *e)
{
	return plan_add(p, PLAN_SYMLINK, target, dst) ? 0 : no_memory(e);
}

static int add_file(struct plan *p, const char *dst, const char *text, struct err *e)
{
	struct plan_op *op = plan_add(p, PLAN_FILE, text, dst);

	if (!op)
		return no_memory(e);
	op->mode = 0444;
	return 0;
}

/* Who "we" are inside: the same number, a name if there is one, nobody else of this machine. */
static int add_identity(struct plan *p, const struct request *r, struct err *e)
{
	cleanup_buf struct buf passwd = BUF_INIT(8192), group = BUF_INIT(8192);
	const struct passwd *pw = getpwuid(getuid());
	const struct group *gr = getgrgid(getgid());
	const char *name = pw && !strpbrk(pw->pw_name, ":\n") ? pw->pw_name : "agent";
	const char *gname = gr && !strpbrk(gr->gr_name, ":\n") ? gr->gr_name : name;

	if (getuid() != 0)
		buf_adds(&passwd, "root:x:0:0:root:/:/usr/sbin/nologin\n");
	buf_addf(&passwd, "%s:x:%u:%u::%s:/bin/sh\n", name, getuid(), getgid(), r->home);
	buf_adds(&passwd, "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n");
	if (getgid() != 0)
		buf_adds(&group, "root:x:0:\n");
	buf_addf(&group, "%s:x:%u:\nnogroup:x:65534:\n", gname, getgid());
	if (add_file(p, "/etc/passwd", buf_str(&passwd), e) < 0 ||
		add_file(p, "/etc/group", buf_str(&group), e) < 0 ||
		add_file(p, "/etc/hostname", NS_HOSTNAME "\n", e) < 0 ||
		add_file(p, "/etc/hosts", "127.0.0.1 localhost " NS_HOSTNAME "\n::1 localhost\n",
			e) < 0)
		return -e->errnum;
	if (r->no_retries && add_file(p, CLOSED_APT_CONF, "Acquire::Retries \"0\";\n", e) < 0)
		return -e->errnum;
	return add_file(p, "/etc/resolv.conf",
		r->capture ? "nameserver " CAPTURE_RESOLVER "\n" RESOLVER_OPTIONS
		: r->refuse_names
			? "# no network in this sandbox\nnameserver 127.0.0.1\n" RESOLVER_OPTIONS
			: "# no network in this sandbox\n",
		e);
}

static int add_device(struct plan *p, const char *path, bool required, struct err *e)
{
	struct plan_op *op;
	struct stat st;

	if (stat(path, &st) < 0 || (!S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode))) {
		if (!required)
			return 0;
		return err_refuse(e, "devices: %s is not a device on this machine", path);
	}
	op = plan_add(p, PLAN_DEVICE, path, path);
	if (!op)
		return no_memory(e);
	op->dev = st.st_dev;
	op->ino = st.st_ino;
	return 0;
}

static int add_dev(struct plan *p, const struct policy *pol, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(devices); i++)
		if (add_device(p, devices[i], false, e) < 0)
			return -e->errnum;
	for (size_t i = 0; i < pol->devices.n; i++)
		if (add_device(p, pol->devices.v[i], true, e) < 0)
			return -e->errnum;
	if (!plan_add(p, PLAN_DEVPTS, NULL, "/dev/pts"))
		return no_memory(e);
	if (add_symlink(p, "pts/ptmx", "/dev/ptmx", e) < 0 ||
		add_symlink(p, "/proc/self/fd", "/dev/fd", e) < 0 ||
		add_symlink(p, "/proc/self/fd/0", "/dev/stdin", e) < 0 ||
		add_symlink(p, "/proc/self/fd/1", "/dev/stdout", e) < 0)
		return -e->errnum;
	return add_symlink(p, "/proc/self/fd/2", "/dev/stderr", e);
}

/*
 * Tables of kernel memory in /proc are for root alone, and root's number is what we have inside
 * when root called us. Everybody else is refused by their modes.
 */
static int add_proc_masks(struct plan *p)
{
	static const char *const tables[] = {"/proc/vmallocinfo", "/proc/slabinfo",
		"/proc/timer_list", "/proc/pagetypeinfo", "/proc/kpageflags", "/proc/kpagecount",
		"/proc/kpagecgroup", "/proc/allocinfo"};

	bool root = geteuid() == 0;

	for (size_t i = 0; root && i < ARRAY_SIZE(tables); i++) {
		struct plan_op *op;

		if (access(tables[i], F_OK) < 0)
			continue;
		op = plan_add(p, PLAN_MASK, NULL, tables[i]);
		if (!op)
			return -ENOMEM;
		op->nested = true;
	}
	return 0;
}

static int add_base(
	struct plan *p, const struct policy *pol, const struct request *r, struct err *e)
{
	char runtime[64];

	snprintf(runtime, sizeof(runtime), "/run/user/%u", getuid());
	if (add_scratch(p, "/tmp", 01777, e) < 0 || add_scratch(p, r->home, 0700, e) < 0 ||
		add_scratch(p, "/run", 0755, e) < 0 || add_scratch(p, "/dev/shm", 01777, e) < 0)
		return -e->errnum;
	if (!plan_add(p, PLAN_DIR, NULL, runtime))
		return no_memory(e);
	p->ops[p->n - 1].mode = 0700;
	if (add_symlink(p, "/run", "/var/run", e) < 0 || add_identity(p, r, e) < 0)
		return -e->errnum;
	if (!plan_add(p, PLAN_PROC, NULL, "/proc") || add_proc_masks(p) < 0)
		return no_memory(e);
	return add_dev(p, pol, e);
}

/* The rest of the sandbox's own: what needs more than the request. */
static int add_own(struct plan *p, const struct places *ps, const struct request *r, struct err *e)
{
	if (r->git_config && add_file(p, GIT_CONF, r->git_config, e) < 0)
		return -e->errnum;
	/* A workspace may lie in /var/tmp: then it is a directory of its own. */
	return places_below(ps, "/var/tmp") ? add_scratch(p, "/var/tmp", 01777, e)
					    : add_symlink(p, "/tmp", "/var/tmp", e);
}

/* What lies around the place being planned: the nearest places above it, outermost first. */
struct ancestors {
	const struct place *v[64];
	size_t n;
};

static const struct place *ancestors_enter(struct ancestors *a, const struct place *pl)
{
	while (a->n > 0) {
		const char *top = a->v[a->n - 1]->path;
		size_t n = strlen(top);

		if (n == 1 || (strncmp(top, pl->path, n) == 0 && pl->path[n] == '/'))
			break;
		a->n--;
	}
	return a->n ? a->v[a->n - 1] : NULL;
}

/*
 * A narrower place inside a writable bind: every directory between the two becomes a mount point of
 * its own, because a mount point cannot be renamed away (and a fresh tree put in its place).
 */
static int add_pins(
	struct plan *p, const struct place *outer, const struct place *inner, struct err *e)
{
	char path[POLICY_PATH_MAX];
	size_t from = strlen(outer->path);
	struct stat st;

	for (const char *s = inner->path + from + 1; (s = strchr(s, '/')); s++) {
		size_t n = (size_t)(s - inner->path);
		struct plan_op *op;
		bool have = false;

		memcpy(path, inner->path, n);
		path[n] = '\0';
		for (size_t i = p->n; i-- > 0 && !have;)
			have = p->ops[i].kind == PLAN_BIND && strcmp(p->ops[i].dst, path) == 0;
		if (have || stat(path, &st) < 0)
			continue;
		op = plan_add(p, PLAN_BIND, path, path);
		if (!op)
			return no_memory(e);
		op->access = ACCESS_WRITE;
		op->is_dir = true;
		op->nested = true;
		op->dev = st.st_dev;
		op->ino = st.st_ino;
		op->rule = inner->rule;
	}
	return 0;
}

static int add_mask(struct plan *p, const struct places *ps, const struct place *pl, struct err *e)
{
	struct plan_op *op = plan_add(p, PLAN_MASK, NULL, pl->path);

	if (!op)
		return no_memory(e);
	op->is_dir = pl->is_dir;
	op->holds = pl->is_dir && places_below(ps, pl->path);
	op->nested = true;
	op->dev = pl->dev;
	op->ino = pl->ino;
	op->rule = pl->rule;
	return 0;
}

static int add_grant(
	struct plan *p, const struct place *pl, bool nested, const struct request *r, struct err *e)
{
	/* Built-in rules name small configuration files that nobody watches for changes. */
	bool copy = !nested && pl->rule->optional && pl->access == ACCESS_READ && pl->size_b > 0 &&
		    pl->size_b <= NS_COPY_MAX;
	bool overlay = r->discard && pl->access == ACCESS_WRITE && pl->is_dir;
	struct plan_op *op;

	if (r->discard && pl->access == ACCESS_WRITE && !pl->is_dir)
		return err_refuse(e,
			"--discard cannot hold back changes to the file %s; grant the directory "
			"around it",
			pl->path);
	op = plan_add(p, overlay ? PLAN_OVERLAY : copy ? PLAN_COPY : PLAN_BIND, pl->path, pl->path);

	if (!op)
		return no_memory(e);
	op->access = pl->access;
	op->is_dir = pl->is_dir;
	op->nested = nested;
	op->dev = pl->dev;
	op->ino = pl->ino;
	op->rule = pl->rule;
	return 0;
}

/*
 * A view: the host's directory below a layer of croft's own, or a private version of a file. To the host
 * it is reading; nothing that the sandbox does there gets any further.
 */
static int add_view(struct plan *p, const struct place *pl, bool nested, const struct request *r,
	struct err *e)
{
	const struct request_view *v = NULL;
	struct plan_op *op;
	struct stat st;

	for (size_t i = 0; i < r->views_n && !v; i++)
		if (str_eq(r->views[i].path, pl->path))
			v = &r->views[i];
	op = plan_add(p, pl->is_dir ? PLAN_OVERLAY : PLAN_BIND,
		pl->is_dir ? (v && v->upper ? NULL : pl->path) : v && v->copy ? v->copy : pl->path,
		pl->path);
	if (!op)
		return no_memory(e);
	op->is_dir = pl->is_dir;
	op->nested = nested;
	op->dev = pl->dev;
	op->ino = pl->ino;
	op->access = pl->is_dir || (v && v->copy) ? ACCESS_WRITE : ACCESS_READ;
	if (!pl->is_dir && v && v->copy) {
		if (lstat(v->copy, &st) < 0 || !S_ISREG(st.st_mode))
			return err_set(e, errno ? errno : EBADMSG, "look at %s", v->copy);
		op->dev = st.st_dev;
		op->ino = st.st_ino;
		return 0;
	}
	op->rule = pl->rule;
	if (!pl->is_dir || !v || !v->upper)
		return 0;
	if (plan_add_layer(op, pl->path, e) < 0 || plan_add_layer(op, v->upper, e) < 0 ||
		plan_add_layer(op, v->work, e) < 0)
		return -e->errnum;
	op->layers->writable = true;
	return 0;
}

static int add_alias(struct plan *p, const struct place *pl, const struct places *ps, struct err *e)
{
	if (!pl->alias || pl->access == ACCESS_DENY ||
		places_above(ps, pl->alias, NULL) != ACCESS_DENY)
		return 0; /* visible through the tree around it */
	return add_symlink(p, pl->path, pl->alias, e);
}

static int add_place(struct plan *p, const struct places *ps, const struct place *pl,
	const struct place *outer, const struct request *r, struct err *e)
{
	enum access around = outer ? outer->access : ACCESS_DENY;

	if (pl->unseen && !strlist_add(&p->absent, pl->path))
		return no_memory(e);
	if (pl->absent)
		return 0; /* the broker keeps it from being made */
	if (add_alias(p, pl, ps, e) < 0)
		return -e->errnum;
	if (r->staging && path_is_above(r->staging->trees[0].dst, pl->path))
		return pl->access == ACCESS_DENY ? namespace_add_denied(p, pl, r->staging, e) : 0;
	if (r->staging && strcmp(r->staging->trees[0].dst, pl->path) == 0) {
		if (around == ACCESS_WRITE && add_pins(p, outer, pl, e) < 0)
			return -e->errnum;
		return namespace_add_staging(p, pl, around != ACCESS_DENY, r->staging, e);
	}
	if (pl->access == ACCESS_READ && pl->rule->view && !(outer && outer->rule->view)) {
		if (around == ACCESS_WRITE)
			return err_refuse(e,
				"a view of %s is not possible: it lies in %s, which is written in place",
				pl->path, outer->path);
		return add_view(p, pl, around != ACCESS_DENY, r, e);
	}
	if (pl->access == around)
		return 0;
	/* Below a discarded overlay writing harms nobody: only denial still means something. */
	if (r->discard && around == ACCESS_WRITE && pl->access == ACCESS_READ)
		return 0;
	if (around == ACCESS_WRITE && pl->access < ACCESS_WRITE && !r->discard &&
		add_pins(p, outer, pl, e) < 0)
		return -e->errnum;
	/*
	 * A mount goes when the host puts another object in the place of the one it is on: then the
	 * broker holds. Built-in rules are watched instead (session/run/guard.h): they are in every plan.
	 */
	if (around == ACCESS_WRITE && pl->access < ACCESS_WRITE && !r->discard &&
		!pl->rule->optional) {
		p->broker = true;
		if (pl->access == ACCESS_DENY)
			p->seccomp_flags |= SECCOMP_NOTIFY_READS;
	}
	if (pl->access == ACCESS_DENY)
		return outer ? add_mask(p, ps, pl, e) : 0;
	return add_grant(p, pl, around != ACCESS_DENY, r, e);
}

static int add_places(
	struct plan *p, const struct places *ps, const struct request *r, struct err *e)
{
	struct ancestors a = {.n = 0};

	for (size_t i = 0; i < ps->n; i++) {
		const struct place *pl = &ps->v[i];
		const struct place *outer = ancestors_enter(&a, pl);

		if (add_place(p, ps, pl, outer, r, e) < 0)
			return -e->errnum;
		if (a.n == ARRAY_SIZE(a.v))
			return err_refuse(
				e, "rules are nested more than %zu deep", ARRAY_SIZE(a.v));
		if (!pl->absent)
			a.v[a.n++] = pl;
	}
	return 0;
}

static int add_decoys(struct plan *p, const struct policy *pol, const struct places *ps,
	const struct request *r, struct err *e)
{
	char path[POLICY_PATH_MAX];

	for (size_t i = 0; i < decoy_paths_n; i++) {
		const char *d = decoy_paths[i].path;
		struct plan_op *op;

		if (d[0] == '~')
			snprintf(path, sizeof(path), "%s%s", r->home, d + 1);
		else
			snprintf(path, sizeof(path), "%s", d);
		if (strncmp(path, "/var/run/", 9) == 0)
			memmove(path, path + 4, strlen(path + 4) + 1);
		/* A decoy never hides what the policy shows, nor stands inside a host tree. */
		if (policy_access(pol, path, NULL) != ACCESS_DENY || places_below(ps, path) ||
			places_above(ps, path, NULL) != ACCESS_DENY)
			continue;
		op = plan_add(p, PLAN_DECOY, NULL, path);
		if (!op)
			return no_memory(e);
		op->mode = (mode_t)i;
	}
	return 0;
}

/*
 * Where programs look for authorities: the host's files, covered by ours where the command can see
 * them.
 */
static const struct {
	const char *path;
	enum trust_file file;
} trust_places[] = {
	{"/etc/ssl/certs/ca-certificates.crt", TRUST_BUNDLE},
	{"/etc/ssl/cert.pem", TRUST_BUNDLE},
	{"/etc/ssl/ca-bundle.pem", TRUST_BUNDLE},
	{"/etc/pki/tls/certs/ca-bundle.crt", TRUST_BUNDLE},
	{"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", TRUST_BUNDLE},
	{"/var/lib/ca-certificates/ca-bundle.pem", TRUST_BUNDLE},
	{"/etc/ssl/certs/java/cacerts", TRUST_JAVA},
	{"/etc/pki/ca-trust/extracted/java/cacerts", TRUST_JAVA},
	{"/etc/pki/java/cacerts", TRUST_JAVA},
};

static struct plan_op *add_trust_op(
	struct plan *p, enum trust_file f, const char *src, const char *dst)
{
	struct plan_op *op = plan_add(p, PLAN_TRUST, src, dst);

	if (op)
		op->mode = (mode_t)f;
	return op;
}

/*
 * A file that is reached without a symlink, as set-up will: others lead to one that is listed, too.
 */
static bool is_plain_file(const char *path, struct stat *ret)
{
	cleanup_fd int fd = path_open(AT_FDCWD, path, O_PATH, PATH_NO_SYMLINKS);

	return fd >= 0 && fstat(fd, ret) == 0 && S_ISREG(ret->st_mode);
}

/* The host's own list of authorities, to which ours is added. */
static int add_list(struct plan *p, enum trust_file f, const char *dst, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(trust_places); i++) {
		const char *path = trust_places[i].path;
		struct plan_op *op;
		struct stat st;

		if (trust_places[i].file != f || !is_plain_file(path, &st))
			continue;
		op = add_trust_op(p, f, path, dst);
		if (!op)
			return no_memory(e);
		op->dev = st.st_dev;
		op->ino = st.st_ino;
		return 0;
	}
	return add_trust_op(p, f, NULL, dst) ? 0 : no_memory(e);
}

static int add_trust(
	struct plan *p, const struct policy *pol, const struct request *r, struct err *e)
{
	char path[TRUST_FILE_NUM][64];

	for (int i = 0; i < TRUST_FILE_NUM; i++) {
		snprintf(path[i], sizeof(path[i]), "%s/%s", TRUST_DIR, trust_file_names[i]);
		if (!(r->trust & (1u << i)))
			continue;
		if (i != TRUST_CA && add_list(p, (enum trust_file)i, path[i], e) < 0)
			return -e->errnum;
		if (i == TRUST_CA && !add_trust_op(p, TRUST_CA, NULL, path[i]))
			return no_memory(e);
	}
	for (size_t i = 0; i < ARRAY_SIZE(trust_places); i++) {
		enum trust_file f = trust_places[i].file;
		struct plan_op *op;
		struct stat st;

		if (!(r->trust & (1u << f)) || !is_plain_file(trust_places[i].path, &st) ||
			policy_access(pol, trust_places[i].path, NULL) == ACCESS_DENY)
			continue;
		op = add_trust_op(p, f, path[f], trust_places[i].path);
		if (!op)
			return no_memory(e);
		op->nested = true;
	}
	return 0;
}

static int add_network(
	struct plan *p, const struct policy *pol, const struct request *r, struct err *e)
{
	if (r->capture && !plan_add(p, PLAN_CAPTURE, NULL, "every address"))
		return no_memory(e);
	return add_trust(p, pol, r, e);
}

/*
 * Is there a writable tree of the host's, or a staged one, at or below this path? Rules of Landlock add
 * up downwards.
 */
static bool holds_host_tree(const struct plan *p, size_t n, const char *path)
{
	size_t len = strlen(path);

	for (size_t i = 0; i < n; i++)
		if ((p->ops[i].kind == PLAN_BIND || p->ops[i].layers) &&
			p->ops[i].access == ACCESS_WRITE &&
			strncmp(p->ops[i].dst, path, len) == 0 &&
			(p->ops[i].dst[len] == '/' || !p->ops[i].dst[len]))
			return true;
	return false;
}

/* Covered by a file that nobody may write, and that cannot be touched yet. */
static bool is_covered(const struct plan *p, size_t n, const char *dst)
{
	for (size_t i = 0; i < n; i++)
		if (p->ops[i].kind == PLAN_TRUST && p->ops[i].nested && str_eq(p->ops[i].dst, dst))
			return true;
	return false;
}

static int add_landlock(struct plan *p, struct err *e)
{
	size_t n = p->n;
	bool decoys = n > 0 && p->ops[n - 1].kind == PLAN_DECOY;
	struct plan_op *op = plan_add(p, PLAN_LANDLOCK, NULL, "/");

	if (!op)
		return no_memory(e);
	op->access = ACCESS_READ;
	op = plan_add(p, PLAN_LANDLOCK, NULL, "/dev");
	if (!op)
		return no_memory(e);
	op->device = true;
	/* The decoys themselves refuse, and must be reached to tell. The rule is on the directory around
	 * their mount: touching the mount itself would wait for a server that does not run yet. */
	op = decoys ? plan_add(p, PLAN_LANDLOCK, NULL, NS_OWN_DIR) : op;
	if (!op)
		return no_memory(e);
	if (decoys) {
		op->access = ACCESS_WRITE;
		op->served = true;
	}
	for (size_t i = 0; i < n; i++) {
		const struct plan_op *from = &p->ops[i];

		if (from->kind != PLAN_SCRATCH && from->kind != PLAN_OVERLAY &&
			from->kind != PLAN_BIND)
			continue;
		if (from->kind != PLAN_SCRATCH && from->access != ACCESS_WRITE)
			continue;
		if (from->kind == PLAN_BIND && is_covered(p, n, from->dst))
			continue;
		op = plan_add(p, PLAN_LANDLOCK, NULL, from->dst);
		if (!op)
			return no_memory(e);
		op->access = ACCESS_WRITE;
		op->no_sockets = p->broker && holds_host_tree(p, n, p->ops[i].dst);
		op->staged = p->ops[i].staged;
		op->rule = p->ops[i].rule;
	}
	return 0;
}

/* Is there a tree of the host's around this name that is written in place? */
static bool in_writable_bind(const struct plan *p, const char *name)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->ops[i].kind == PLAN_BIND && p->ops[i].access == ACCESS_WRITE &&
			path_is_above(p->ops[i].dst, name))
			return true;
	return false;
}

/* Is any tree of the host's written in place? */
static bool writes_in_place(const struct plan *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->ops[i].kind == PLAN_BIND && p->ops[i].access == ACCESS_WRITE &&
			!p->ops[i].staged)
			return true;
	return false;
}

/*
 * A standard descriptor is opened again through the host's own mount (/proc/self/fd/0), and what
 * Landlock grants in a writable tree holds there also where a narrower rule is kept by a mount. A
 * file below such a rule brings the broker, which judges by name.
 */
static void judge_stdio(struct plan *p, const struct policy *pol, const struct request *r)
{
	char link[32], name[POLICY_PATH_MAX];

	for (int i = 0; i < 3; i++) {
		enum access a;
		struct stat st;
		ssize_t n;

		if (r->stdio[i] < 0 || fstat(r->stdio[i], &st) < 0 ||
			!(S_ISREG(st.st_mode) || S_ISFIFO(st.st_mode)))
			continue;
		snprintf(link, sizeof(link), "/proc/self/fd/%d", r->stdio[i]);
		n = readlink(link, name, sizeof(name) - 1);
		if (n <= 0 || name[0] != '/')
			continue;
		name[n] = '\0';
		a = policy_access(pol, name, NULL);
		if (a == ACCESS_WRITE || !in_writable_bind(p, name))
			continue;
		p->broker = true;
		if (a == ACCESS_DENY)
			p->seccomp_flags |= SECCOMP_NOTIFY_READS;
	}
}

int namespace_compile_base(
	struct plan *ret, const struct policy *pol, const struct request *r, struct err *e)
{
	*ret = (struct plan){.tier = TIER_NAMESPACE,
		.policy = pol,
		.privilege = {.ids = id_map_one(geteuid(), getegid()),
			.rlimits = plan_rlimits(&pol->limits, r->staging)},
		.notes = STRLIST_INIT(64),
		.absent = STRLIST_INIT(PLAN_OPS_MAX)};
	return add_base(ret, pol, r, e);
}

int namespace_compile(
	struct plan *ret, const struct policy *pol, const struct request *r, struct err *e)
{
	struct plan p = *ret;
	struct places ps = {0};
	int rc;

	if (r->staging && (rc = namespace_check_staging(r, e)) < 0)
		return rc;
	if (p.n == 0 && (rc = namespace_compile_base(&p, pol, r, e)) < 0) {
		plan_done(&p);
		return rc;
	}
	p.policy = pol;
	*ret = (struct plan){0};
	if ((rc = places_expand_staged(&ps, pol, r->staging, e)) == 0 &&
		(rc = add_own(&p, &ps, r, e)) == 0 && (rc = add_places(&p, &ps, r, e)) == 0 &&
		(rc = add_network(&p, pol, r, e)) == 0 && pol->observe != OBSERVE_OFF)
		rc = add_decoys(&p, pol, &ps, r, e);
	p.broker |= (ps.late_names || pol->hold) && !r->discard;
	if (rc == 0)
		judge_stdio(&p, pol, r);
	if (rc == 0)
		rc = add_landlock(&p, e);
	if (p.broker && ps.late_denies)
		p.seccomp_flags |= SECCOMP_NOTIFY_READS;
	places_done(&ps);
	if (rc < 0) {
		plan_done(&p);
		return rc;
	}
	if (pol->devices.n)
		p.seccomp_flags |= SECCOMP_DEVICES;
	if (!p.broker && writes_in_place(&p))
		p.seccomp_flags |= SECCOMP_NO_SETID;
	if (p.broker)
		p.seccomp_flags |= SECCOMP_BROKER;
	else if (pol->observe >= OBSERVE_WRITES)
		p.seccomp_flags |= SECCOMP_NOTIFY_WRITES;
	if (pol->observe == OBSERVE_FULL)
		p.seccomp_flags |= SECCOMP_NOTIFY_READS;
	*ret = p;
	return 0;
}
