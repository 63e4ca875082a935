/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper's process, whole: what it carries, hides, refuses and forgets. */
#include "keeper_world.h"

TEST(process_carries)
{
	WORLD(w, AS_HEADER);
	ASK(w, "GET", GET("/x") KEY "accept-encoding: gzip\r\nrange: bytes=0-5\r\n\r\n");

	CHECK_INT(status, 200);
	CHECK(server_saw(&w.sv, "x-api-key: " VALUE "\r\n"));
	CHECK(server_saw(&w.sv, "accept-encoding: identity\r\n"));
	CHECK(!server_saw(&w.sv, "gzip"));
	CHECK(server_saw(&w.sv, "range: bytes=0-32773\r\n")); /* wider: keeper_range.c */
	/* Again on the same connections, here and upstream. */
	for (int i = 0; i < 20; i++)
		CHECK_INT(ask_on(fd, "GET", GET("/x") KEY "\r\n", &got), 200);
	CHECK_INT(w.sv.connections, 1);
	CHECK_INT(w.sv.requests, 21);
	/* Another connection of the gateway takes the idle one. */
	CHECK_INT(ask_fresh(&w, "GET", GET("/x") "\r\n", &got), 200);
	CHECK_INT(w.sv.connections, 1);
}

/* Nothing that could be a value comes back, in any form that was sent. */
TEST(process_hides_echoes)
{
	static const char *const paths[] = {"/echo", "/base64", "/percent", "/chunked", "/close"};
	cleanup_buf struct buf b64 = BUF_INIT(4096);
	cleanup_buf struct buf percent = BUF_INIT(4096);
	WORLD(w, AS_HEADER);

	text_escape(&percent, VALUE, VALUE_LEN);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		char request[256];

		snprintf(request, sizeof(request),
			"GET %s HTTP/1.1\r\nhost: " HOST "\r\n" KEY "\r\n", paths[i]);
		{
			ASK(w, "GET", request);
			CHECK_INT(status, 200);
			CHECK(server_saw(&w.sv, "x-api-key: " VALUE "\r\n"));
			CHECK(!memmem(got.data, got.len, VALUE, VALUE_LEN));
			CHECK(!memmem(got.data, got.len, &VALUE[8], 16));
			CHECK(!memmem(got.data, got.len, buf_str(&percent), percent.len));
			for (size_t shift = 0; shift < 3;
				shift++) { /* the part that does not depend on neighbours */
				buf_reset(&b64);
				add_base64(&b64, &VALUE[shift], VALUE_LEN - shift - 4);
				CHECK(!memmem(got.data, got.len, b64.data, b64.len - 4));
			}
			/* The control: the rest of the echo is there. */
			if (i == 0)
				CHECK(strstr(buf_str(&got), "x-api-key: *****") &&
					strstr(buf_str(&got), "x-echo: ****"));
		}
		server_forget(&w.sv);
	}
}

TEST(process_refuses)
{
	WORLD(w, AS_HEADER "      paths: [/v1/**]\n");
	struct gateway_msg m;

	{
		ASK(w, "GET", GET("/v2/x") KEY "\r\n");
		CHECK_INT(status, 403);
		CHECK(strstr(buf_str(&got), "application/json") && strstr(buf_str(&got), "TOKEN"));
		CHECK(!more(fd, &got)); /* and it is closed */
	}
	CHECK_INT(hear(&w, &m), GATEWAY_DENIAL);
	CHECK_INT(m.status, 403);
	CHECK_STR(m.path, "/v2/x");
	{
		ASK(w, "GET", "GET /v1/x HTTP/1.1\r\nhost: other.example\r\n" KEY "\r\n");
		CHECK_INT(status, 421);
	}
	{
		ASK(w, "GET", GET("/v1/x") "x-api-key : @P\r\n\r\n");
		CHECK_INT(status, 400);
	}
	{
		ASK(w, "POST",
			POST("/v1/x") KEY
			"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n");
		CHECK_INT(status, 400);
	}
	CHECK_INT(w.sv.requests, 0);
	{ /* the control */
		ASK(w, "GET", GET("/v1/x") KEY "\r\n");
		CHECK_INT(status, 200);
	}
	CHECK(server_saw(&w.sv, VALUE));
}

/* A host or port that the policy does not allow, whatever the gateway says. */
TEST(process_goes_nowhere_else)
{
	WORLD(w, AS_HEADER);
	const struct {
		const char *host;
		uint16_t port;
	} bad[] = {{HOST, (uint16_t)(w.sv.port ^ 1)}, {"other.example", w.sv.port},
		{"localhost", w.sv.port}};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		cleanup_buf struct buf got = BUF_INIT(65536);
		cleanup_fd int fd = keeper_connect(&w.gw, bad[i].host, bad[i].port, true, true);
		char request[256];

		CHECK(fd >= 0);
		fcntl(fd, F_SETFL, 0);
		snprintf(request, sizeof(request), "GET / HTTP/1.1\r\nhost: %s\r\n" KEY "\r\n",
			bad[i].host);
		CHECK_INT(ask_on(fd, "GET", request, &got), 403);
	}
	{ /* a name that is none is closed unheard */
		cleanup_buf struct buf got = BUF_INIT(65536);
		cleanup_fd int fd = keeper_connect(&w.gw, "UPPER.example", w.sv.port, true, true);

		CHECK(fd >= 0 && !more(fd, &got));
	}
	CHECK_INT(w.sv.requests, 0);
}

TEST(process_body)
{
	WORLD(w, AS_HEADER);
	cleanup_buf struct buf big = BUF_INIT(16u << 20);

	{
		ASK(w, "POST", POST("/x") KEY "content-length: 5\r\n\r\nhello");
		CHECK_INT(status, 200);
		CHECK(strstr(buf_str(&got), "took 5"));
	}
	{
		ASK(w, "POST",
			POST("/x") KEY
			"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n");
		CHECK_INT(status, 200);
		CHECK(server_saw(&w.sv, "3\r\nabc\r\n") && server_saw(&w.sv, "4\r\ndefg\r\n"));
	}
	{
		ASK(w, "POST", POST("/x") KEY "expect: 100-continue\r\ncontent-length: 5\r\n\r\n");
		CHECK_INT(status, 100);
		buf_reset(&got);
		CHECK(send_all(fd, "hello", 5));
		CHECK_INT(receive(fd, "POST", &got), 200);
		CHECK(!server_saw(&w.sv, "100-continue"));
	}
	/* 4 MiB up, more than any buffer on the way. */
	buf_addf(&big, POST("/x") KEY "content-length: %u\r\n\r\n", 4u << 20);
	for (size_t i = 0; i < (4u << 20) / 16; i++)
		buf_adds(&big, "0123456789abcde\n");
	{
		ASK(w, "POST", buf_str(&big));
		CHECK_INT(status, 200);
		CHECK(strstr(buf_str(&got), "took 4194304"));
	}
	{ /* and down */
		ASK(w, "GET", GET("/big") KEY "\r\n");
		CHECK_INT(status, 200);
		CHECK(got.len > (4u << 20));
	}
}

/* A placeholder in a body never arrives whole, however it is cut. */
TEST(process_placeholder_in_body)
{
	WORLD(w, AS_HEADER);
	cleanup_buf struct buf ph = BUF_INIT(256);
	char request[1024];

	expand(&ph, "@P");
	snprintf(request, sizeof(request), "%scontent-length: %zu\r\n\r\nxx%s", POST("/x") KEY,
		ph.len + 2, "@P");
	{
		ASK(w, "POST", request);
		CHECK_INT(status, 403);
	}
	/* In two writes, at every place, as chunks. */
	for (size_t cut = 1; cut < ph.len; cut += 3) {
		cleanup_buf struct buf got = BUF_INIT(65536);
		cleanup_fd int fd = join(&w);

		snprintf(request, sizeof(request),
			"%stransfer-encoding: chunked\r\n\r\n%zx\r\n%.*s\r\n", POST("/x"), cut,
			(int)cut, ph.data);
		CHECK(send_all(fd, request, strlen(request)));
		snprintf(request, sizeof(request), "%zx\r\n%s\r\n0\r\n\r\n", ph.len - cut,
			ph.data + cut);
		send_all(fd, request, strlen(request));
		CHECK_INT(receive(fd, "POST", &got), 403);
	}
	CHECK_INT(w.sv.requests, 0);
	CHECK(!server_saw(&w.sv, buf_str(&ph)));
	{ /* the control: almost a placeholder */
		ph.data[ph.len - 1] ^= 1;
		snprintf(request, sizeof(request), "%scontent-length: %zu\r\n\r\nxx%s",
			POST("/x") KEY, ph.len + 2, ph.data);
		{
			ASK(w, "POST", request);
			CHECK_INT(status, 200);
		}
	}
}

TEST(process_odd_answers)
{
	WORLD(w, AS_HEADER);

	{
		ASK(w, "GET", GET("/gzip") KEY "\r\n");
		CHECK_INT(status, 502);
		CHECK(strstr(buf_str(&got), "content coding"));
	}
	{
		ASK(w, "GET", GET("/smuggle") KEY "\r\n");
		CHECK_INT(status, 502);
	}
	{
		ASK(w, "GET", GET("/cut") KEY "\r\n");
		CHECK_INT(status, 0); /* what is cut off is not made whole */
	}
	{
		ASK(w, "GET", GET("/drop") KEY "\r\n");
		CHECK_INT(status, 502);
	}
	{
		ASK(w, "HEAD", "HEAD /x HTTP/1.1\r\nhost: " HOST "\r\n" KEY "\r\n");
		CHECK_INT(status, 200);
		CHECK(strstr(buf_str(&got), "content-length: 12345\r\n"));
		CHECK_INT(ask_on(fd, "GET", GET("/x") KEY "\r\n", &got), 200);
	}
	{
		ASK(w, "GET", GET("/hints") KEY "\r\n");
		CHECK_INT(status, 103);
		CHECK(strstr(buf_str(&got), "link: </x>"));
	}
}

/* A connection that the server closed while it was idle costs the request nothing. */
TEST(process_idle_connection_died)
{
	WORLD(w, AS_HEADER);
	ASK(w, "GET", GET("/close") KEY "\r\n");

	CHECK_INT(status, 200);
	CHECK_INT(ask_on(fd, "GET", GET("/x") KEY "\r\n", &got), 200);
	CHECK_INT(ask_on(fd, "GET", GET("/x") KEY "\r\n", &got), 200);
	CHECK_INT(w.sv.connections, 2);
}

TEST(process_websocket)
{
	WORLD(w, AS_HEADER);
	ASK(w, "GET", GET("/ws") KEY "sec-websocket-extensions: permessage-deflate\r\n" UPGRADE);
	cleanup_buf struct buf frame = BUF_INIT(1u << 20), big = BUF_INIT(1u << 20);

	CHECK_INT(status, 101);
	CHECK(!server_saw(&w.sv, "deflate"));
	buf_reset(&got);
	CHECK(send_frame(fd, 0x81, "ping " VALUE " pong", VALUE_LEN + 10));
	CHECK_INT(next_frame(fd, &got, &frame), 0x81);
	CHECK_INT(frame.len, VALUE_LEN + 10);
	CHECK(strstr(buf_str(&frame), "ping *") && strstr(buf_str(&frame), "* pong"));
	/* In fragments, with another frame in between; they become one. */
	for (size_t cut = 1; cut < VALUE_LEN; cut++) {
		CHECK(send_frame(fd, 0x02, VALUE, cut));
		CHECK(send_frame(fd, 0x89, VALUE, VALUE_LEN)); /* a ping */
		CHECK(send_frame(fd, 0x00, "", 0));
		CHECK(send_frame(fd, 0x80, &VALUE[cut], VALUE_LEN - cut));
		CHECK_INT(next_frame(fd, &got, &frame), 0x89);
		CHECK(frame.len == VALUE_LEN && strspn(buf_str(&frame), "*") == VALUE_LEN);
		CHECK_INT(next_frame(fd, &got, &frame), 0x82);
		CHECK(frame.len == VALUE_LEN && strspn(buf_str(&frame), "*") == VALUE_LEN);
	}
	/* A long message, in frames that are not too small. */
	for (size_t i = 0; i < 60000 / VALUE_LEN; i++)
		buf_adds(&big, VALUE);
	for (int i = 0; i < 4; i++)
		CHECK(send_frame(fd, i == 0 ? 0x01 : i == 3 ? 0x80 : 0x00, big.data, big.len));
	for (size_t n = 0; n < 4 * big.len; n += frame.len) {
		uint8_t first = next_frame(fd, &got, &frame);

		CHECK_INT(first & 0x0f, n == 0 ? 1 : 0);
		CHECK_INT(first >> 7, n + frame.len == 4 * big.len);
		CHECK(frame.len >= (32u << 10) || first >> 7);
		CHECK(strspn(buf_str(&frame), "*") == frame.len);
	}
	/* Nothing that the sandbox says is masked, or compressed, or no frame at all passes. */
	CHECK(send_frame(fd, 0xc1, "x", 1));
	CHECK_INT(next_frame(fd, &got, &frame), 0x81);
	CHECK(send_frame(fd, 0x83, "x", 1));
	CHECK_INT(next_frame(fd, &got, &frame), 0);
}

/* Two requests in one write: each is judged by itself, in order. */
TEST(process_pipelined)
{
	WORLD(w, AS_HEADER);
	ASK(w, "GET", GET("/one") KEY "\r\n" GET("/two") "x-wrong: @P\r\n\r\n");

	CHECK_INT(status, 200);
	while (!strstr(buf_str(&got), "HTTP/1.1 403 ")) /* it may have come with the first */
		CHECK(more(fd, &got));
	CHECK(server_saw(&w.sv, "GET /one "));
	CHECK(!server_saw(&w.sv, "GET /two "));
}

#define MANY 150

TEST(process_many_at_once)
{
	WORLD(w, AS_HEADER);
	cleanup_buf struct buf got = BUF_INIT(65536);
	int fd[MANY];

	for (int i = 0; i < MANY; i++) {
		cleanup_buf struct buf text = BUF_INIT(4096);

		fd[i] = join(&w);
		expand(&text, GET("/echo") KEY "\r\n");
		CHECK(fd[i] >= 0 && send_all(fd[i], text.data, text.len));
	}
	for (int i = 0; i < MANY; i++) {
		buf_reset(&got);
		CHECK_INT(receive(fd[i], "GET", &got), 200);
		CHECK(!strstr(buf_str(&got), VALUE));
		close(fd[i]);
	}
	CHECK_INT(w.sv.requests, MANY);
}

/* One that does not read holds up nobody but itself, and not much memory. */
TEST(process_slow_reader)
{
	WORLD(w, AS_HEADER);
	cleanup_buf struct buf text = BUF_INIT(4096);
	cleanup_buf struct buf got = BUF_INIT(16u << 20);
	cleanup_fd int slow = join(&w);

	expand(&text, GET("/big") KEY "\r\n");
	CHECK(send_all(slow, text.data, text.len));
	for (int i = 0; i < 50; i++)
		CHECK_INT(ask_fresh(&w, "GET", GET("/x") KEY "\r\n", &got), 200);
	buf_reset(&got);
	CHECK_INT(receive(slow, "GET", &got), 200);
	CHECK(got.len > (4u << 20));
}

/* A gateway that leaves in the middle, anywhere. */
TEST(process_gateway_leaves)
{
	static const char *const begun[] = {"", "GET /x HT", GET("/x") "x-api",
		GET("/big") KEY "\r\n", POST("/x") KEY "content-length: 1000\r\n\r\nonly some",
		POST("/x") KEY "transfer-encoding: chunked\r\n\r\n5\r\nhel"};
	WORLD(w, AS_HEADER);
	cleanup_buf struct buf got = BUF_INIT(65536);

	for (int i = 0; i < 60; i++) {
		cleanup_buf struct buf text = BUF_INIT(4096);
		cleanup_fd int fd = join(&w);

		expand(&text, begun[i % (int)ARRAY_SIZE(begun)]);
		CHECK(send_all(fd, buf_str(&text), text.len));
		if (i & 1)
			shutdown(fd, SHUT_WR);
	}
	CHECK_INT(ask_fresh(&w, "GET", GET("/x") KEY "\r\n", &got), 200);
}

TEST(process_answer_before_the_body)
{
	WORLD(w, AS_HEADER);
	cleanup_buf struct buf got = BUF_INIT(65536);
	cleanup_buf struct buf text = BUF_INIT(4096);
	cleanup_fd int fd = join(&w);

	expand(&text, POST("/early") KEY "content-length: 100000\r\n\r\nfirst of it");
	CHECK(send_all(fd, text.data, text.len));
	CHECK_INT(receive(fd, "POST", &got), 200);
	CHECK(strstr(buf_str(&got), "early"));
	CHECK(!more(fd, &got)); /* what follows could be anything: it is not taken for a request */
}

/* Messages that make no sense are not carried, and harm nobody. */
TEST(process_odd_opens)
{
	WORLD(w, AS_HEADER);
	cleanup_buf struct buf got = BUF_INIT(65536);
	struct keeper_open o;
	struct gateway none = {.keeper = -1};

	memset(&o, 'x', sizeof(o)); /* no end of text, no descriptor */
	CHECK(send(w.gw.keeper, &o, sizeof(o), 0) > 0);
	CHECK(send(w.gw.keeper, "short", 5, 0) > 0);
	CHECK(send(w.gw.keeper, "", 0, 0) == 0);
	CHECK_INT(keeper_connect(&none, HOST, 1, true, false), -ENOTCONN);
	CHECK_INT(ask_fresh(&w, "GET", GET("/x") KEY "\r\n", &got), 200);
}

/* The server must prove the name. */
TEST(process_wrong_certificate)
{
	cleanup_world struct world w;

	CHECK(world_prepare(&w, "somebody.else.example"));
	CHECK(world_spawn(&w, one_secret(&w, "TOKEN", AS_HEADER), ""));
	CHECK(world_serve(&w));
	{
		ASK(w, "GET", GET("/x") KEY "\r\n");
		CHECK_INT(status, 502);
		CHECK(strstr(buf_str(&got), "certificate"));
	}
	CHECK_INT(w.sv.requests, 0);
}

TEST(process_without_its_secret)
{
	cleanup_world struct world w;
	struct gateway_msg m;

	CHECK(world_prepare(&w, HOST));
	CHECK(world_spawn(&w, one_secret(&w, "ABSENT", AS_HEADER), ""));
	CHECK_INT(hear_start(&w, &m), GATEWAY_NOTE);
	CHECK(strstr(m.text, "croft secret set ABSENT"));
	CHECK_INT(hear(&w, &m), 0);
	w.want_exit = 125;
}

/* ---- rotation ---- */

/* As session/config/secrets.h hands them over: a name and an open file. */
static int handed(const struct world *w, const char *name)
{
	union {
		struct cmsghdr h;
		char b[CMSG_SPACE(sizeof(int))];
	} control = {0};
	char text[SECRET_NAME_MAX + 1] = {0};
	struct iovec iov = {text, sizeof(text)};
	struct msghdr mh = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.b,
		.msg_controllen = sizeof(control.b)};
	int pair[2], fd = openat(w->d.fd, name, O_RDONLY);

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	snprintf(text, sizeof(text), "%s", name);
	control.h = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
		.cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(&control.h), &fd, sizeof(fd));
	if (fd >= 0)
		sendmsg(pair[0], &mh, 0);
	close_fd(&fd);
	close(pair[0]);
	return pair[1];
}

static bool reload(struct world *w, const char *secrets, const char *extra, int from)
{
	struct gateway_msg m = {.type = GATEWAY_POLICY};
	int fds[GATEWAY_FD_NUM], r;

	for (int i = 0; i < GATEWAY_FD_NUM; i++)
		fds[i] = -1;
	fds[GATEWAY_FD_POLICY] = policy_fd(w, secrets, extra);
	fds[GATEWAY_FD_OUTER] = from;
	r = gateway_send(w->control, &m, fds);
	close(fds[GATEWAY_FD_POLICY]);
	if (from >= 0)
		close(from);
	return r == 0;
}

#define ROTATED "rotated-value-of-another-length-0123456789"

TEST(process_rotation)
{
	WORLD(w, AS_HEADER);
	const char *secrets = one_secret(&w, "TOKEN", AS_HEADER);
	ASK(w, "GET", GET("/x") KEY "\r\n");

	CHECK_INT(status, 200);
	CHECK(server_saw(&w.sv, VALUE));
	server_forget(&w.sv);
	CHECK(dir_put(&w.d, "TOKEN", ROTATED, 0600));
	CHECK(reload(&w, secrets, "", handed(&w, "TOKEN")));
	/* The same placeholder, the new value; one that is under way with the old is cut off. */
	for (int i = 0; i < 1000 && !server_saw(&w.sv, "x-api-key: " ROTATED "\r\n"); i++)
		ask_fresh(&w, "GET", GET("/echo") KEY "\r\n", &got);
	CHECK(server_saw(&w.sv, "x-api-key: " ROTATED "\r\n"));
	CHECK(!strstr(buf_str(&got), ROTATED));
	/* The server still knows the old one, and tells it. */
	CHECK(strstr(buf_str(&got), "x-echo: *****") && !strstr(buf_str(&got), VALUE));
	server_forget(&w.sv);
	/* Taken away: nothing is put in any more, and the placeholder is still known as one. */
	CHECK(reload(&w, secrets, "", -1));
	for (int i = 0; i < 1000 && status != 403; i++)
		status = ask_fresh(&w, "GET", GET("/x") KEY "\r\n", &got);
	CHECK_INT(status, 403);
	server_forget(&w.sv);
	CHECK_INT(ask_fresh(&w, "GET", GET("/x") KEY "\r\n", &got), 403);
	CHECK(!server_saw(&w.sv, ROTATED));
}

/* A policy that does not allow it any more ends what is under way. */
TEST(process_revoked_while_open)
{
	WORLD(w, AS_HEADER);
	char deny[128];
	ASK(w, "GET",
		GET("/ws") KEY
		"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
		"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");

	CHECK_INT(status, 101);
	snprintf(deny, sizeof(deny),
		"  deny:\n    - host: " HOST
		"\n      ports: [%u]\n      mode: http\n      paths: [/ws]\n",
		w.sv.port);
	CHECK(reload(&w, one_secret(&w, "TOKEN", AS_HEADER), deny, handed(&w, "TOKEN")));
	buf_reset(&got);
	CHECK(!more(fd, &got));
	CHECK_INT(got.len, 0);
}

/* ---- memory ---- */

/* Others of this user cannot look into it. */
TEST(process_is_closed)
{
	WORLD(w, AS_HEADER);
	char path[64];
	struct stat st;

	if (geteuid() == 0)
		SKIP("root looks into everything");
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)w.pid);
	CHECK(stat(path, &st) == 0);
	CHECK_INT(st.st_uid, 0); /* the kernel gives the files of what is not dumpable to root */
	CHECK(open(path, O_RDONLY) < 0);
	snprintf(path, sizeof(path), "/proc/%d/environ", (int)w.pid);
	CHECK(open(path, O_RDONLY) < 0);
}

/* How often text is in writable memory of a process: in locked mappings, and in others. */
static bool count_in(
	pid_t pid, const char *text, size_t n, unsigned *ret_locked, unsigned *ret_other)
{
	char path[64], line[512], perms[5] = "";
	unsigned long from = 0, to = 0;
	unsigned here = 0;
	cleanup_file FILE *maps = NULL;
	cleanup_fd int mem = -1;

	*ret_locked = *ret_other = 0;
	snprintf(path, sizeof(path), "/proc/%d/smaps", (int)pid);
	maps = fopen(path, "r");
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	mem = open(path, O_RDONLY);
	while (maps && mem >= 0 && fgets(line, sizeof(line), maps)) {
		unsigned long a, b;

		if (sscanf(line, "%lx-%lx %4s", &a, &b, perms) == 3) {
			cleanup_free char *copy = NULL;
			ssize_t got = 0;

			from = a;
			to = b;
			here = 0;
			if (perms[1] == 'w' && to - from <= (64u << 20) &&
				(copy = malloc(to - from)))
				got = pread(mem, copy, to - from, (off_t)from);
			for (char *p = copy;
				got > 0 && (p = memmem(p, (size_t)(copy + got - p), text, n)); p++)
				here++;
		} else if (strncmp(line, "VmFlags:", 8) == 0) {
			*(strstr(line, " lo") ? ret_locked : ret_other) += here;
		}
	}
	return maps && mem >= 0;
}

/*
 * A value that this process never held before the keeper was started, since a fork takes its memory
 * along.
 */
static bool make_unknown(const struct place_dir *d)
{
	pid_t pid = fork();
	int status = 1;

	if (pid == 0) {
		char text[41] = {0};
		unsigned char r[40];
		cleanup_fd int fd = open("/dev/urandom", O_RDONLY);

		if (read(fd, r, sizeof(r)) != sizeof(r))
			_exit(1);
		for (size_t i = 0; i < sizeof(r); i++)
			text[i] = (char)('a' + r[i] % 26);
		_exit(dir_put(d, "UNKNOWN", text, 0600) ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	return status == 0;
}

/* After a value was sent, and echoed in head and body, it is nowhere but in locked memory. */
TEST(process_memory)
{
	cleanup_world struct world w;
	char value[41] = {0}, placeholder[41] = {0}, request[256];
	unsigned locked = 0, other = 0;
	cleanup_fd int file = -1;

	CHECK(world_prepare(&w, HOST));
	CHECK(make_unknown(&w.d));
	CHECK(world_spawn(&w, one_secret(&w, "UNKNOWN", AS_HEADER), ""));
	CHECK(world_serve(&w));
	file = openat(w.d.fd, "UNKNOWN", O_RDONLY);
	CHECK_INT(read(file, value, 40), 40);
	placeholder_make(placeholder, 40, seed, "UNKNOWN");
	if (!count_in(w.pid, value, 40, &locked, &other))
		SKIP("only root can look into it");
	if (!locked && other)
		SKIP("no locked memory here (RLIMIT_MEMLOCK)");
	CHECK_INT(locked, 1);
	CHECK_INT(other, 0);
	for (int i = 0; i < 3; i++) {
		cleanup_buf struct buf got = BUF_INIT(65536);

		snprintf(request, sizeof(request), "%sx-api-key: %s\r\n\r\n",
			i == 2 ? GET("/echo") : GET("/chunked"), placeholder);
		CHECK_INT(ask_fresh(&w, "GET", request, &got), 200);
		CHECK(!memmem(got.data, got.len, value, 40));
	}
	CHECK(server_saw(&w.sv, value)); /* it was really sent */
	/* Another exchange, so that what was to be freed later is. */
	{
		cleanup_buf struct buf got = BUF_INIT(65536);

		CHECK_INT(ask_fresh(&w, "GET", GET("/v") "\r\n", &got), 200);
	}
	for (int i = 0; i < 2000; i++) { /* connections end when the keeper sees that ours did */
		CHECK(count_in(w.pid, value, 40, &locked, &other));
		if (other == 0)
			break;
	}
	CHECK_INT(other, 0);
	CHECK_INT(locked, 1);
}
