/* SPDX-License-Identifier: Apache-2.0 */
/* Asking at the terminal: see prompt.h. */
#include "session/net/prompt.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/path.h"

#define TEN_MINUTES_MS (10u * 60u * 1000u)

void prompt_open(struct prompt *p, bool taken)
{
	if (taken || !isatty(STDERR_FILENO))
		return;
	p->fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (p->fd >= 0 && tcgetpgrp(p->fd) != getpgrp())
		close_fd(&p->fd);
}

void prompt_close(struct prompt *p)
{
	close_fd(&p->fd);
}

static void say(struct prompt *p, const struct buf *text)
{
	if (!text->failed)
		fd_write_all(p->fd, text->data, text->len);
}

void prompt_show(struct prompt *p, struct network *n)
{
	const struct network_ask *a = network_first_ask(n);
	cleanup_buf struct buf b = BUF_INIT(16384);

	if (p->fd < 0 || (a ? a->id : 0) == p->asked)
		return;
	if (p->asked)
		buf_adds(&b, "(too late)\n");
	p->asked = a ? a->id : 0;
	p->n = 0;
	if (a) {
		buf_adds(&b, "croft: the sandbox wants to reach ");
		str_show(&b, a->host, strlen(a->host));
		buf_addf(&b, ":%u", a->port);
		if (a->path[0]) {
			buf_adds(&b, " (");
			str_show(&b, a->method, strlen(a->method));
			buf_addc(&b, ' ');
			str_show(&b, a->path, strlen(a->path));
			buf_adds(&b, a->query[0] ? "?" : "");
			str_show(&b, a->query, strlen(a->query));
			buf_adds(&b, ", body: ");
			network_ask_body(a, &b);
			buf_addc(&b, ')');
		}
		buf_adds(&b, ". Allow? [y]es, this once  [t]en minutes  [N]o: ");
	}
	if (b.len)
		say(p, &b);
}

static void answer(struct prompt *p, struct network *n)
{
	char c = p->n ? p->line[0] : 'n';
	bool yes = c == 'y' || c == 'Y' || c == 't' || c == 'T';

	if (p->asked)
		network_answer(n, p->asked, yes ? NET_ALLOW : NET_DENY,
			c == 't' || c == 'T' ? TEN_MINUTES_MS : 0);
	p->asked = 0;
	p->n = 0;
}

void prompt_read(struct prompt *p, struct network *n)
{
	char text[256];
	ssize_t got = read(p->fd, text, sizeof(text));

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) { /* nobody any more */
		close_fd(&p->fd);
		return;
	}
	for (ssize_t i = 0; i < got; i++) {
		if (text[i] == '\n')
			answer(p, n);
		else if (p->n < sizeof(p->line) && text[i] != ' ')
			p->line[p->n++] = text[i];
	}
}
