/* SPDX-License-Identifier: Apache-2.0 */
/* Whose attempt was it, when something was refused? */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "session/run/receipt_data.h"
#include "session/serve/process_impl.h"

static pid_t parent_of(pid_t pid)
{
	char path[64], text[512], *p;
	cleanup_fd int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || (n = read(fd, text, sizeof(text) - 1)) <= 0)
		return 0;
	text[n] = '\0';
	p = strrchr(text, ')');
	return p && strlen(p) > 4 ? (pid_t)strtol(p + 4, NULL, 10) : 0;
}

/* Its number in the sandbox's own namespace: the last of NSpid. */
static pid_t inside_of(pid_t pid)
{
	char path[64], text[4096], *p;
	cleanup_fd int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || (n = read(fd, text, sizeof(text) - 1)) <= 0)
		return 0;
	text[n] = '\0';
	p = strstr(text, "\nNSpid:");
	if (!p)
		return pid;
	p[strcspn(p + 1, "\n") + 1] = '\0';
	p = strrchr(p, '\t');
	return p ? (pid_t)strtol(p + 1, NULL, 10) : 0;
}

static void tell_denied(struct session *s, uint32_t process, const struct denial *d)
{
	cleanup_buf struct buf b = BUF_INIT(SESSION_TEXT_MAX);

	receipt_pack_denial(d, s->hidden, &b);
	caller_tell(s, SESSION_WATCH_DENIED, SESSION_DENIED, process, &b);
}

static void share(struct session *s, const struct notice *n)
{
	for (struct process *x = s->processes; n->denied && x; x = x->next)
		if (x->state < PROCESS_LEFT)
			record_shared_denial(&x->receipt->record, n);
}

/*
 * The only one that lives did it. Among several, the one below whose reaper the caller was: where it is still
 * there to be asked. Otherwise it may have been any of them, and their receipts say so.
 */
void process_denied(struct session *s, const struct notice *n)
{
	struct process *only = NULL, *p = NULL;
	size_t known;
	pid_t first = s->boundary.sandbox.pid, pid = n->pid, above;

	for (struct process *x = s->processes; x; x = x->next)
		if (x->state != PROCESS_OVER && x->reaper) {
			p = only ? NULL : x;
			only = x;
			if (!p)
				break;
		}
	for (int i = 0; !p && i < 1000 && pid > 1 && n->source != NOTICE_BY_BROKER; i++) {
		above = parent_of(pid);
		if (above == first)
			p = pool_process_inside(s, inside_of(pid));
		if (above == first || above <= 1)
			break;
		pid = above;
	}
	known = p ? p->receipt->record.denials_n : 0;
	if (p && p->state < PROCESS_LEFT)
		record_notice(&p->receipt->record, n);
	if (!p)
		share(s, n);
	if (p && p->receipt->record.denials_n > known)
		tell_denied(s, p->id, &p->receipt->record.denials[known]);
	else if (!p && n->denied && !record_has_denial(&s->receipt->record, n->path, false))
		tell_denied(s, 0,
			&(struct denial){.path = (char *)(uintptr_t)n->path,
				.op = n->op,
				.source = n->source,
				.count = 1});
}
