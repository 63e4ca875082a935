/* SPDX-License-Identifier: Apache-2.0 */
/*
 * croft-screen: the screen of one pty, started by a session with a socket. It reads what a sandbox
 * wrote, so before that it gives up all it could do harm with.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "croft.h"
#include "session/screen/screen_confine.h"
#include "session/screen/screen_message.h"
#include "session/screen/model.h"

#define EXIT_FAILED 125
#define ROWS_FIRST 24 /* until the session says */
#define COLS_FIRST 80

struct order {
	struct screen_order head;
	unsigned char bytes[SCREEN_PART_MAX];
};

struct answer {
	struct screen_answer head;
	char bytes[SCREEN_PART_MAX];
};

static bool socket_is_there(void)
{
	int type = 0;
	socklen_t len = sizeof(type);

	return getsockopt(SCREEN_FD, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
	       type == SOCK_SEQPACKET;
}

static int usage(void)
{
	fprintf(stderr,
		"croft-screen: a croft session starts this for a terminal; it is of no use by "
		"itself.\n"
		"usage: croft-screen             with a socket as descriptor %d\n"
		"       croft-screen --version\n",
		SCREEN_FD);
	return EXIT_FAILED;
}

/* In parts; an empty dump is one part, too. */
static bool answer(const struct model *m, uint32_t number)
{
	static struct answer a;
	struct buf out = BUF_INIT(SCREEN_DUMP_MAX);
	bool trimmed = false, good = true;
	size_t at = 0, n;

	model_dump(m, &out, &trimmed);
	a.head.number = number;
	do {
		n = MIN_OF(out.len - at, sizeof(a.bytes));
		memcpy(a.bytes, out.data + at, n);
		at += n;
		a.head.flags = (at == out.len ? SCREEN_LAST : 0u) |
			       (m->lost || trimmed ? SCREEN_INEXACT : 0u);
		good = write(SCREEN_FD, &a, sizeof(a.head) + n) == (ssize_t)(sizeof(a.head) + n);
	} while (good && at < out.len);
	good = good && !out.failed;
	buf_done(&out);
	return good;
}

static bool obey(struct model *m, const struct order *o, size_t n)
{
	if (n < sizeof(o->head))
		return false;
	switch ((enum screen_say)o->head.say) {
	case SCREEN_FEED:
		model_feed(m, o->bytes, n - sizeof(o->head));
		return !m->failed;
	case SCREEN_RESIZE:
		return model_resize(m, o->head.a, o->head.b);
	case SCREEN_LOSE:
		model_lose(m);
		return true;
	case SCREEN_DUMP:
		return answer(m, o->head.a);
	}
	return false;
}

static int serve(void)
{
	static struct model m;
	static struct order o;
	ssize_t n;

	if (!model_init(&m, ROWS_FIRST, COLS_FIRST))
		return EXIT_FAILED;
	while ((n = read(SCREEN_FD, &o, sizeof(o))) > 0)
		if (!obey(&m, &o, (size_t)n))
			return EXIT_FAILED;
	return 0;
}

int main(int argc, char **argv)
{
	struct err e = ERR_INIT;
	int r;

	if (argc == 2 && str_eq(argv[1], "--version")) {
		puts("croft-screen " CROFT_VERSION);
		return 0;
	}
	if (argc != 1 || !socket_is_there())
		return usage();
	r = screen_confine_early(SCREEN_FD, &e);
	if (r == 0)
		r = screen_confine_files(&e);
	if (r == 0)
		r = screen_confine_calls(SCREEN_FD, &e);
	_exit(r == 0 ? serve() : EXIT_FAILED);
}
