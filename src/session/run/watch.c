/* SPDX-License-Identifier: Apache-2.0 */
/* The watchers of one sandbox: see watch.h. */
#include "session/run/watch.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

enum { AT_NOTIFY, AT_NOTICES, AT_DECOY, AT_GUARD, AT_LIVE, AT_PROMPT, AT_NETWORK };

static void on_notice(void *arg, const struct notice *n)
{
	record_notice(arg, n);
}

static void tell_slot(struct watchers *w, size_t slot, const char *name, enum notice_op op,
	enum notice_source source, pid_t pid)
{
	struct notice n = {.op = (uint8_t)op, .denied = 1, .source = (uint8_t)source, .pid = pid};
	int len;

	if (slot >= w->slots.n)
		return;
	len = snprintf(n.path, sizeof(n.path), "%s%s%s", w->slots.path[slot], name ? "/" : "",
		name ? name : "");
	n.path_len = (uint32_t)MIN_OF((size_t)len, sizeof(n.path) - 1);
	record_notice(w->record, &n);
}

static bool told(const struct watchers *w, size_t slot, const char *name, bool below)
{
	char path[POLICY_PATH_MAX];

	snprintf(path, sizeof(path), "%s%s%s", w->slots.path[slot], name ? "/" : "",
		name ? name : "");
	return record_has_denial(w->record, path, below);
}

static void on_decoy(void *arg, size_t slot, const char *name, enum decoy_op op, pid_t pid)
{
	static const enum notice_op ops[] = {[DECOY_READ] = NOTICE_READ,
		[DECOY_WRITE] = NOTICE_WRITE,
		[DECOY_CREATE] = NOTICE_CREATE,
		[DECOY_DELETE] = NOTICE_DELETE,
		[DECOY_META] = NOTICE_META,
		[DECOY_EXEC] = NOTICE_EXEC};
	struct watchers *w = arg;

	/* Whoever changes something below a mask looks it up first, and the observer has told. */
	if (slot < w->slots.n && w->slots.mask[slot] && op == DECOY_READ &&
		told(w, slot, name, false))
		return;
	tell_slot(w, slot, name, ops[op], NOTICE_BY_DECOY, pid);
}

/* Whoever tried to write there followed the same symlink, and was told by another. */
static void on_trap(void *arg, size_t slot, const char *name)
{
	struct watchers *w = arg;
	bool look = w->slots.kind[slot] == DECOY_DIR && !name;

	if (!told(w, slot, name, true))
		tell_slot(w, slot, name, look ? NOTICE_LOOK : NOTICE_READ, NOTICE_BY_TRAP, 0);
}

/*
 * Whoever has a file with bytes can make the observer wait for whoever serves it: before the first is
 * handed out, the observer becomes another thread.
 */
static int part_observer(struct watchers *w)
{
	struct network *n = w->network;
	int fd;

	if (w->observer.apart || w->sandbox->fd[SANDBOX_FD_NOTIFY] < 0)
		return 0;
	fd = observer_apart(&w->observer);
	if (fd < 0 && !n->trust_failed)
		strlist_add(&n->notes, "the command could not read its lists of authorities: the "
				       "observer could not be made a thread");
	n->trust_failed = n->trust_failed || fd < 0;
	w->observed = MAX_OF(fd, -1);
	return MIN_OF(fd, 0);
}

static int on_trust_file(void *arg, size_t file, const void **ret, size_t *ret_n)
{
	struct watchers *w = arg;
	int r = part_observer(w);

	return r < 0 ? r : network_trust_file(w->network, (enum trust_file)file, ret, ret_n);
}

/* The broker says where a decoy really is. Those of FUSE tell by themselves. */
static bool name_decoy(const struct watchers *w, struct notice *n)
{
	if (trap_rename(&w->slots, n->path, sizeof(n->path)))
		n->path_len = (uint32_t)strlen(n->path);
	return strncmp(n->path, DECOY_DIR_INSIDE "/", sizeof(DECOY_DIR_INSIDE)) != 0;
}

/*
 * Notices from the broker, or from the observer once it is apart: one message each, length checked
 * against its own header.
 */
static void on_notices(struct watchers *w, int *fd, enum notice_source source)
{
	struct notice n;

	for (int i = 0; i < 256; i++) {
		ssize_t len = recv(*fd, &n, sizeof(n), MSG_DONTWAIT);
		size_t head = offsetof(struct notice, path);

		if (len == 0) {
			close_fd(fd);
			return;
		}
		if (len < 0)
			return;
		if ((size_t)len <= head || n.path_len >= sizeof(n.path) ||
			(size_t)len != head + n.path_len || n.op >= NOTICE_OP_NUM ||
			memchr(n.path, '\0', n.path_len))
			continue;
		n.path[n.path_len] = '\0';
		if (n.op == NOTICE_CONNECT) {
			network_notice(w->network, &n);
			continue;
		}
		if (n.lost)
			w->record->files_full = true;
		n.source = (uint8_t)source;
		if (source == NOTICE_BY_BROKER && w->pid_namespace && !name_decoy(w, &n))
			continue;
		record_notice(w->record, &n);
	}
}

static void on_observed(struct watchers *w)
{
	if (w->observer.apart)
		on_notices(w, &w->observed, NOTICE_BY_OBSERVER);
	else if (observer_serve(&w->observer) < 0)
		close_fd(&w->sandbox->fd[SANDBOX_FD_NOTIFY]);
}

/* Nobody is left to look at. A look that waits for a served file is let go by not serving it any more. */
static void end_observer(struct watchers *w)
{
	struct pollfd p = {.fd = w->observed, .events = POLLIN};

	if (w->observer.apart)
		close_fd(&w->sandbox->fd[SANDBOX_FD_DECOY]);
	while (w->observed >= 0)
		if (poll(&p, 1, -1) > 0)
			on_notices(w, &w->observed, NOTICE_BY_OBSERVER);
	observer_join(&w->observer);
	if (w->observer.lost) /* a call that could not be looked at may have changed a file */
		w->record->files_full = true;
	observer_done(&w->observer);
}

/* What the command followed, now that it has ended. */
static void read_traps(struct watchers *w)
{
	int *fd = &w->sandbox->fd[SANDBOX_FD_TRAP];

	if (*fd >= 0)
		traps_read(*fd, &w->slots, on_trap, w);
	close_fd(fd);
}

void watch_init(struct watchers *w)
{
	w->observed = -1;
	w->guard = GUARD_INIT;
	w->live = LIVE_INIT;
	w->prompt = PROMPT_INIT;
	w->observer = (struct observer){.listener = -1,
		.scratch = w->scratch,
		.policy = w->plan->policy,
		.workspace = w->workspace,
		.reads = w->plan->policy->observe == OBSERVE_FULL,
		.saw = on_notice,
		.arg = w->record};
	decoy_slots(&w->slots, w->plan);
	w->decoyfs = (struct decoyfs){.dev_fd = -1,
		.slots_n = w->slots.n,
		.kinds = w->slots.kind,
		.touched = on_decoy,
		.files = trust_file_names,
		.files_n = w->network->trust_files ? TRUST_FILE_NUM : 0,
		.content = on_trust_file,
		.arg = w};
}

int watch_ready(struct watchers *w, struct err *e)
{
	const char *path;
	int r = guard_open(&w->guard, w->plan, e);

	if (r == 0 && (path = guard_broken(&w->guard)))
		r = err_refuse(e, "%s was replaced while the sandbox was being set up", path);
	if (r < 0)
		return r;
	network_take(w->network, w->sandbox);
	w->observer.listener = w->sandbox->fd[SANDBOX_FD_NOTIFY];
	w->observer.served = w->sandbox->fd[SANDBOX_FD_DECOY] >= 0;
	w->observer.decoys = w->observer.served || w->sandbox->fd[SANDBOX_FD_TRAP] >= 0 ? &w->slots
											: NULL;
	w->decoyfs.dev_fd = w->sandbox->fd[SANDBOX_FD_DECOY];
	return 0;
}

void watch_go(struct watchers *w, bool terminal)
{
	struct network *n = w->network;
	struct err why = ERR_INIT;

	if (n->policy)
		prompt_open(&w->prompt, terminal);
	if (n->policy && live_open(&w->live, n->home, n->run_id, &why) < 0)
		strlist_add(&n->notes, "this run could not be talked to while it ran");
}

int watch_fds(struct watchers *w, struct pollfd p[WATCH_FDS_MAX])
{
	const int *fd = w->sandbox->fd;

	p[AT_NOTIFY] = (struct pollfd){
		.fd = w->observer.apart ? w->observed : fd[SANDBOX_FD_NOTIFY], .events = POLLIN};
	p[AT_NOTICES] = (struct pollfd){.fd = fd[SANDBOX_FD_NOTICES], .events = POLLIN};
	p[AT_DECOY] = (struct pollfd){.fd = fd[SANDBOX_FD_DECOY], .events = POLLIN};
	p[AT_GUARD] = (struct pollfd){.fd = w->guard.fd, .events = POLLIN};
	p[AT_LIVE] = (struct pollfd){.fd = w->live.fd, .events = POLLIN};
	p[AT_PROMPT] =
		(struct pollfd){.fd = w->prompt.asked ? w->prompt.fd : -1, .events = POLLIN};
	w->net_n = network_fds(w->network, p + AT_NETWORK);
	return AT_NETWORK + w->net_n;
}

bool watch_handle(struct watchers *w, const struct pollfd *p)
{
	int *fd = w->sandbox->fd;

	if (p[AT_GUARD].revents)
		guard_drain(&w->guard);
	if (p[AT_NOTIFY].revents)
		on_observed(w);
	if (p[AT_DECOY].revents && decoyfs_serve(&w->decoyfs) < 0)
		close_fd(&fd[SANDBOX_FD_DECOY]);
	if (p[AT_NOTICES].revents)
		on_notices(w, &fd[SANDBOX_FD_NOTICES], NOTICE_BY_BROKER);
	if (p[AT_LIVE].revents)
		live_serve(&w->live, w->network);
	if (p[AT_PROMPT].revents)
		prompt_read(&w->prompt, w->network);
	if (w->net_n)
		network_handle(w->network, p + AT_NETWORK, w->net_n, w->sandbox);
	prompt_show(&w->prompt, w->network);
	return p[AT_GUARD].revents != 0;
}

void watch_traps(struct watchers *w)
{
	read_traps(w);
}

void watch_end(struct watchers *w)
{
	int *notices = &w->sandbox->fd[SANDBOX_FD_NOTICES];
	char byte;

	while (*notices >= 0 && recv(*notices, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
		on_notices(w, notices, NOTICE_BY_BROKER);
	end_observer(w);
	read_traps(w);
}

void watch_done(struct watchers *w)
{
	live_close(&w->live);
	prompt_close(&w->prompt);
	guard_done(&w->guard);
}
