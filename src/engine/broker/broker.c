/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker's loop: take a call, have it done, tell, answer.
 *
 * Trust:   see broker.h. The process makes itself untouchable for the sandbox it lives in (not
 *          dumpable, all signals blocked) and holds nothing but the listener and the socket for
 *          notices.
 * Failure: a call that cannot be judged is refused. A caller that dies costs nothing: its answer
 *          finds no one. Without WAIT_KILLABLE_RECV (Linux 5.19) a signal handler can make the
 *          kernel restart a call that was already done, and the second try sees the first one's
 *          result.
 * Limits:  one call at a time; what may block (a FIFO's other end, a lease) waits in a helper
 *          process, BROKER_HELPERS_MAX of them.
 */
#include "engine/broker/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "engine/broker/broker_impl.h"
#include "os/uapi.h"

enum { HELPER_TICK_MS = 100 }; /* how soon a helper follows its dead caller */

/* ---- notices ---- */

void tell(struct work *w, enum notice_op op, bool denied, bool exists, const char *name)
{
	struct notice *n = &w->notices[w->notices_n];
	size_t len = strlen(name);

	/* What has no place in the tree, or only the sandbox's own, is no news. */
	if (w->notices_n == ARRAY_SIZE(w->notices) || name[0] != '/' || len >= sizeof(n->path))
		return;
	if (!denied && judge_scratch(w, name))
		return;
	n->op = (uint8_t)op;
	n->denied = denied;
	n->source = NOTICE_BY_BROKER;
	n->exists = exists;
	n->pid = w->tid;
	n->port = 0;
	n->path_len = (uint32_t)len;
	memcpy(n->path, name, len + 1);
	w->notices_n++;
}

void tell_network(struct work *w, const char *what, uint16_t port)
{
	struct notice *n = &w->notices[w->notices_n];

	if (w->notices_n == ARRAY_SIZE(w->notices))
		return;
	n->op = NOTICE_CONNECT;
	n->denied = 1;
	n->source = NOTICE_BY_BROKER;
	n->exists = 0;
	n->pid = w->tid;
	n->port = port;
	n->path_len = (uint32_t)snprintf(n->path, sizeof(n->path), "%s", what);
	w->notices_n++;
}

int deny(struct work *w, enum notice_op op, bool exists, const char *name)
{
	tell(w, op, true, exists, name);
	return -EACCES;
}

int deny_make(struct work *w, const struct spot *slot)
{
	struct stat st;

	if (fstatat(slot->parent, slot->last, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	return deny(w, NOTICE_CREATE, false, slot->name);
}

int deny_setid(struct work *w, enum notice_op op, bool exists, const char *name)
{
	tell(w, op, true, exists, name);
	return -EPERM;
}

/* Allowed and told before? Denials are always told. */
static bool old_news(struct work *w, const struct notice *n)
{
	uint32_t h = 2166136261u ^ n->op;
	uint32_t *slot;

	if (n->denied)
		return false;
	for (uint32_t i = 0; i < n->path_len; i++)
		h = (h ^ (unsigned char)n->path[i]) * 16777619u;
	h |= 1; /* 0 is an empty slot */
	slot = &w->recent[(h >> 1) % BROKER_RECENT];
	if (*slot == h)
		return true;
	*slot = h;
	return false;
}

static void flush_notices(struct work *w)
{
	for (size_t i = 0; i < w->notices_n; i++) {
		struct notice *n = &w->notices[i];
		uint32_t *lost = n->op == NOTICE_CONNECT ? &w->lost_network : &w->lost;

		if (w->b->notices < 0 || old_news(w, n))
			continue;
		n->lost = *lost;
		if (send(w->b->notices, n, offsetof(struct notice, path) + n->path_len,
			    MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
			*lost = 0;
		else
			(*lost)++;
	}
	w->notices_n = 0;
}

/* ---- helpers for opens that block ---- */

_Noreturn static void helper_main(struct work *w, int fd, int oflags, bool cloexec)
{
	char path[FD_PATH_MAX];
	int got;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", fd);
	got = open(path, oflags);
	if (got < 0)
		notify_answer(&w->n, w->id, 0, errno);
	else if (notify_answer_fd(&w->n, w->id, got, cloexec) < 0)
		notify_answer(&w->n, w->id, 0, EMFILE);
	_exit(0);
}

int open_in_helper(struct work *w, int fd, int oflags, bool cloexec)
{
	pid_t pid;

	if (w->helpers_n == BROKER_HELPERS_MAX)
		return -EAGAIN;
	pid = fork();
	if (pid < 0)
		return -EAGAIN;
	if (pid == 0)
		helper_main(w, fd, oflags, cloexec);
	w->helpers[w->helpers_n++] = (struct helper){.pid = pid, .id = w->id};
	w->deferred = true;
	return 0;
}

/* Forget helpers that are done; end those whose caller is gone. */
static void tend_helpers(struct work *w)
{
	for (size_t i = 0; i < w->helpers_n;) {
		struct helper *h = &w->helpers[i];

		/* Gone, or reaped by the process whose thread we are. */
		if (waitpid(h->pid, NULL, WNOHANG) != 0) {
			*h = w->helpers[--w->helpers_n];
			continue;
		}
		if (!notify_alive(&w->n, h->id))
			kill(h->pid, SIGKILL);
		i++;
	}
}

/* ---- one call ---- */

bool target_alive(const struct work *w)
{
	return notify_alive(&w->n, w->id);
}

int fetch_path(struct work *w, int i)
{
	ssize_t n = notify_read_string(w->tid, w->c.path[i], w->path[i], sizeof(w->path[i]));

	return n < 0 ? (int)n : 0;
}

static bool is_metadata(enum pathcall_kind k)
{
	return k == PATHCALL_CHMOD || k == PATHCALL_CHOWN || k == PATHCALL_UTIME ||
	       k == PATHCALL_SETXATTR || k == PATHCALL_REMOVEXATTR || k == PATHCALL_SETFLAGS;
}

static int64_t perform(struct work *w)
{
	static int64_t (*const by_kind[PATHCALL_KIND_NUM])(struct work *) = {
		[PATHCALL_OPEN] = broker_open,
		[PATHCALL_TRUNCATE] = broker_truncate,
		[PATHCALL_MKDIR] = broker_mkdir,
		[PATHCALL_MKNOD] = broker_mknod,
		[PATHCALL_SYMLINK] = broker_symlink,
		[PATHCALL_LINK] = broker_link,
		[PATHCALL_UNLINK] = broker_unlink,
		[PATHCALL_RENAME] = broker_rename,
		[PATHCALL_CHMOD] = broker_chmod,
		[PATHCALL_CHOWN] = broker_chown,
		[PATHCALL_UTIME] = broker_utime,
		[PATHCALL_SETXATTR] = broker_setxattr,
		[PATHCALL_REMOVEXATTR] = broker_removexattr,
		[PATHCALL_SETFLAGS] = broker_setflags,
		[PATHCALL_EXEC] = broker_exec,
	};

	if (w->tid <= 0)
		return -EPERM; /* not in our pid namespace: there is nothing to look at */
	if (broker_is_network(w))
		return broker_network(w);
	if (!pathcall_decode(&w->c, &w->n.req->data))
		return -ENOSYS;
	if (w->b->metadata_only && !is_metadata(w->c.kind))
		return broker_look(w);
	return by_kind[w->c.kind](w);
}

static void handle(struct work *w)
{
	int64_t r;

	w->id = w->n.req->id;
	w->tid = (pid_t)w->n.req->pid;
	w->tgid = 0;
	w->give_fd = -1;
	w->deferred = w->pass = w->starts = false;
	r = perform(w);
	flush_notices(w); /* before the caller goes on, perhaps to its end and ours */
	if (r >= 0 && w->give_fd >= 0) {
		r = notify_answer_fd(&w->n, w->id, w->give_fd, w->give_cloexec);
		if (r < 0 && r != -ENOENT)
			notify_answer(&w->n, w->id, 0, (int)-r);
	} else if (r >= 0 && w->pass) {
		/* Interrupted before we answered, it asks again. */
		if (notify_continue(&w->n, w->id) == 0 && w->starts)
			starts_use(w->b->starts, &w->start);
	} else if (!w->deferred || r < 0) {
		notify_answer(&w->n, w->id, r, r < 0 ? (int)-r : 0);
	}
	close_fd(&w->give_fd);
}

/* ---- the process ---- */

/* Keep the two descriptors; stdio becomes something nobody can read or write. */
static void drop_descriptors(const struct broker *b)
{
	int keep[2] = {MIN_OF(b->listener, b->notices), MAX_OF(b->listener, b->notices)};
	unsigned from = 0;

	for (int i = 0; i < 2; i++) {
		if (keep[i] < 0)
			continue;
		if ((unsigned)keep[i] > from)
			syscall(SYS_close_range, from, (unsigned)keep[i] - 1, 0u);
		from = (unsigned)keep[i] + 1;
	}
	syscall(SYS_close_range, from, ~0u, 0u);
	for (int fd; (fd = open("/", O_PATH | O_CLOEXEC)) >= 0;)
		if (fd > 2) {
			close(fd);
			break;
		}
}

/*
 * Blocked signals also cover SIGPIPE and SIGXFSZ (truncate beyond an inherited limit): the call
 * fails, the broker lives.
 */
static int harden(const struct broker *b)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_NAME, "croft-broker");
	if (prctl(PR_SET_DUMPABLE, 0) < 0)
		return -errno;
	if (!b->thread)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	else if (unshare(CLONE_FS | CLONE_FILES) < 0)
		return -errno;
	drop_descriptors(b);
	return chdir("/") < 0 ? -errno : 0;
}

static int serve(struct work *w)
{
	for (;;) {
		int r = notify_recv(&w->n, w->helpers_n ? HELPER_TICK_MS : -1);

		if (w->helpers_n)
			tend_helpers(w);
		if (r == 1)
			handle(w);
		else if (r == -ESHUTDOWN)
			return 0;
		else if (r < 0)
			return 1;
	}
}

int broker_serve(const struct broker *b)
{
	struct work *w = calloc(1, sizeof(*w));
	struct err e = ERR_INIT;
	int rc = 1;

	if (!w || harden(b) < 0) {
		free(w);
		return 1;
	}
	w->b = b;
	w->proc = w->self_fd = w->give_fd = -1;
	w->umask_default = umask(0);
	if (resolve_open(w) == 0 && rules_open(w) == 0 && notify_open(&w->n, b->listener, &e) == 0)
		rc = serve(w);
	notify_done(&w->n);
	rules_done(w);
	close_fd(&w->proc);
	close_fd(&w->self_fd);
	free(w);
	return rc;
}
