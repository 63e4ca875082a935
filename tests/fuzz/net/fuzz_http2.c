/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as HTTP/2, from the sandbox, from a server, or from both at once, through whole
 * exchanges.
 *
 * Input:   a byte of modes (below), then what is said. From both: records that become frames, so
 *          that few inputs are lost to wrong lengths; the preface and the first SETTINGS of each
 *          side are said for them. A record: who speaks and the frame's type; its flags; its
 *          stream, counted from 1; its length; and that many bytes.
 * Checked: beyond not crashing and not leaking, that nothing is dialled but what the policy gives,
 *          that a server hears only whole, well-formed requests that the policy allows, no more
 *          than were granted, and that a client hears only well-formed answers. The other end is
 *          the HTTP/2 library, or the strict parser of HTTP/1.1, which abort on what is not.
 */
#include <stdint.h>

#include "http2_world.h"

#define MODE_SPEAKER 0x03u /* who says the bytes */
#define FROM_CLIENT 0u
#define FROM_SERVER 1u
#define FROM_BOTH 2u
#define FROM_CLIENT_UNREACHED 3u /* no server can be reached */
#define MODE_OTHER_H1 0x04u      /* the other end, or the server if both speak, has HTTP/1.1 */
#define MODE_PIECES 0x08u        /* in pieces, with turns of the loop between them */
#define MODE_CLOSE 0x10u         /* who spoke closes its connection afterwards */
#define MODE_UPLOAD 0x20u        /* the fixed requests have a body that does not fit a window */
#define MODE_GIT 0x40u           /* the connection is to the host with mode git */
#define MODE_TIME 0x80u          /* every deadline passes at the end */

#define RECORD_HEAD_B 4u
#define RECORD_SERVER 0x80u    /* else the client */
#define RECORD_SAME_TURN 0x40u /* what follows arrives with it */
#define RECORD_TYPE 0x0fu      /* beyond the last type: bytes without a frame, as to HTTP/1.1 */

#define PEERS_MAX (1 + WORLD_SERVERS_MAX)
#define PEER_TEXT_MAX_B (4u << 20)
#define ROUNDS_MAX 64
#define UPLOAD_B 150000
#define BIG_ANSWER_B 200000
#define YEAR_MS (365ull * 24 * 3600 * 1000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a path asks of the server that plays by the rules. */
#define ASKS_EARLY 1u /* an answer before the request is whole */
#define ASKS_BIG 2u
#define ASKS_TRAILERS 4u

static struct peer {
	int fd;
	bool client, h1, fuzzed;
	nghttp2_session *h2; /* NULL: HTTP/1.1, or fuzzed */
	struct buf in, out;
	size_t sent; /* of out */
	bool in_body;
	enum http_body body;
	uint64_t left;
	struct chunks chunks;
} peers[PEERS_MAX]; /* the client, then the servers */
static size_t peers_n;
static unsigned requests; /* that servers heard */

/* ---- requests, as a server hears them ---- */

static void check_path(const char *path)
{
	MUST(path[0] == '/' && !strstr(path, "/../") && !strstr(path, "//") && !strchr(path, '#'));
	if (str_eq(world.flow.host, "git.example"))
		MUST(str_starts(path, "/me/"));
	else
		MUST(str_starts(path, "/a/") || str_eq(path, "/a") || str_starts(path, "/small") ||
			str_starts(path, "/ask/y"));
}

static unsigned asks(const char *path)
{
	return (strstr(path, "early") ? ASKS_EARLY : 0) | (strstr(path, "big") ? ASKS_BIG : 0) |
	       (strstr(path, "trail") ? ASKS_TRAILERS : 0);
}

/* Bytes of the body at the front of p->in that are gone; 0 when it is over or more is needed. */
static size_t skip_body(struct peer *p, const char *at, size_t n)
{
	const char *data;
	size_t data_n;
	long used;

	if (p->body == HTTP_BODY_NONE || (p->body == HTTP_BODY_LENGTH && !p->left) || !n)
		return 0;
	if (p->body == HTTP_BODY_LENGTH) {
		n = MIN_OF(n, p->left);
		p->left -= n;
		return n;
	}
	if (p->chunks.state == CHUNK_DONE)
		return 0;
	used = chunks_read(&p->chunks, at, n, &data, &data_n);
	MUST(used >= 0);
	return (size_t)used;
}

static bool body_over(const struct peer *p)
{
	return p->body == HTTP_BODY_NONE || (p->body == HTTP_BODY_LENGTH && !p->left) ||
	       (p->body == HTTP_BODY_STREAM && p->chunks.state == CHUNK_DONE);
}

/* 0: more is needed. */
static size_t request_head(struct peer *p, const char *at, size_t n)
{
	const struct http_problem *problem = NULL;
	struct http_request r;
	int got = http1_request_as(&r,
		net_target_form(world.gen.policy, world.flow.host, WORLD_PORT), at, n, &problem);

	MUST(got >= 0);
	if (got == 0)
		return 0;
	MUST(str_eq(r.host, world.flow.host) && (!r.port || r.port == WORLD_PORT));
	check_path(r.path);
	MUST(++requests <= world.granted);
	p->body = r.body;
	p->left = r.length;
	p->chunks = (struct chunks){0};
	request_done(&r);
	return (size_t)got;
}

static void server1_hears(struct peer *p)
{
	size_t at = 0, n;

	for (;;) {
		if (p->in_body && body_over(p)) {
			p->in_body = false;
			if (!p->fuzzed)
				buf_adds(&p->out, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
		}
		n = p->in_body ? skip_body(p, buf_str(&p->in) + at, p->in.len - at)
			       : request_head(p, buf_str(&p->in) + at, p->in.len - at);
		if (!n)
			break;
		p->in_body = true;
		at += n;
	}
	memmove(p->in.data, p->in.data + at, p->in.len - at);
	p->in.len -= at;
}

static int on_request_field(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name,
	size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
	const char *n = (const char *)name, *v = (const char *)value;
	char expected[NET_NAME_MAX + 8];

	MUST(strlen(n) == name_len && strlen(v) == value_len);
	MUST(!str_eq(n, "connection") && !str_eq(n, "host") && !str_eq(n, "transfer-encoding"));
	if (str_eq(n, ":path")) {
		cleanup_free char *path = strndup(v, strcspn(v, "?"));

		MUST(path);
		check_path(path);
		nghttp2_session_set_stream_user_data(
			h2, frame->hd.stream_id, (void *)(uintptr_t)asks(path));
	}
	snprintf(expected, sizeof(expected), "%s:%u", world.flow.host, WORLD_PORT);
	MUST(!str_eq(n, ":authority") || str_eq(v, world.flow.host) || str_eq(v, expected));
	MUST(!str_eq(n, ":scheme") || str_eq(v, "https"));
	return 0;
}

/* ---- the server that plays by the rules ---- */

static ssize_t read_zeros(nghttp2_session *h2, int32_t id, uint8_t *out, size_t max,
	uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	static const nghttp2_nv trailer = {
		.name = (uint8_t *)(uintptr_t) "x-t", .namelen = 3, .value = NULL, .valuelen = 0};
	uintptr_t asked = (uintptr_t)nghttp2_session_get_stream_user_data(h2, id);
	size_t n = MIN_OF((size_t)source->fd, max);

	memset(out, 0, n);
	source->fd -= (int)n;
	if (!source->fd) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		if ((asked & ASKS_TRAILERS) && nghttp2_submit_trailer(h2, id, &trailer, 1) == 0)
			*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
	}
	return (ssize_t)n;
}

static int on_request_frame(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
	static const nghttp2_nv status = {.name = (uint8_t *)(uintptr_t) ":status",
		.namelen = 7,
		.value = (uint8_t *)(uintptr_t) "200",
		.valuelen = 3};
	bool head = frame->hd.type == NGHTTP2_HEADERS, data = frame->hd.type == NGHTTP2_DATA;
	nghttp2_data_provider body = {.read_callback = read_zeros};
	uintptr_t asked;

	if (!head && !data)
		return 0;
	if (head)
		MUST(++requests <= world.granted);
	asked = (uintptr_t)nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
	body.source.fd = asked & ASKS_BIG ? BIG_ANSWER_B : 2;
	if ((asked & ASKS_EARLY) ? head : (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
		(void)nghttp2_submit_response(h2, frame->hd.stream_id, &status, 1, &body);
	return 0;
}

/* Whatever came in on the other side, nothing that breaks the protocol leaves on this one. */
static int on_invalid(nghttp2_session *h2, const nghttp2_frame *frame, int code, void *arg)
{
	fprintf(stderr, "an invalid frame of type %u: %s\n", frame->hd.type,
		nghttp2_strerror(code));
	abort();
}

/* ---- the client that plays by the rules ---- */

static nghttp2_nv field(const char *name, const char *value)
{
	return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
		.namelen = strlen(name),
		.value = (uint8_t *)(uintptr_t)value,
		.valuelen = strlen(value)};
}

static void ask_h2(nghttp2_session *h2, const char *method, const char *path, int body_b)
{
	const nghttp2_nv head[] = {field(":method", method), field(":scheme", "https"),
		field(":authority", world.flow.host), field(":path", path), field("te", "trailers"),
		field("x-a", "b")};
	nghttp2_data_provider body = {.source.fd = body_b, .read_callback = read_zeros};

	MUST(nghttp2_submit_request(h2, NULL, head, ARRAY_SIZE(head), body_b ? &body : NULL, NULL) >
		0);
}

/* One GET was sent: interim heads, one answer, and nothing behind it. */
static void client1_hears(struct peer *p)
{
	const struct http_problem *problem = NULL;
	struct http_response r;
	size_t at = 0, n;
	int got;

	while (!p->in_body) {
		got = http1_response(&r, "GET", buf_str(&p->in) + at, p->in.len - at, &problem);
		MUST(got >= 0);
		if (got == 0)
			break;
		MUST(r.status != 101 && r.status != 100);
		p->in_body = r.status >= 200;
		p->body = r.body;
		p->left = r.until_close ? UINT64_MAX : r.length;
		if (r.until_close)
			p->body = HTTP_BODY_LENGTH;
		response_done(&r);
		at += (size_t)got;
	}
	while (p->in_body && (n = skip_body(p, buf_str(&p->in) + at, p->in.len - at)))
		at += n;
	MUST(!p->in_body || !body_over(p) || at == p->in.len);
	memmove(p->in.data, p->in.data + at, p->in.len - at);
	p->in.len -= at;
}

/* ---- ends of connections ---- */

static nghttp2_session *session_new(struct peer *p)
{
	nghttp2_session_callbacks *c = NULL;
	nghttp2_session *h2 = NULL;

	MUST(nghttp2_session_callbacks_new(&c) == 0);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(c, on_invalid);
	if (!p->client) {
		nghttp2_session_callbacks_set_on_header_callback(c, on_request_field);
		nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_request_frame);
	}
	MUST((p->client ? nghttp2_session_client_new(&h2, c, p)
			: nghttp2_session_server_new(&h2, c, p)) == 0);
	nghttp2_session_callbacks_del(c);
	MUST(nghttp2_submit_settings(h2, NGHTTP2_FLAG_NONE, NULL, 0) == 0);
	return h2;
}

static struct peer *peer_add(int fd, bool h1, bool fuzzed)
{
	struct peer *p = &peers[peers_n];

	*p = (struct peer){.fd = fd,
		.client = peers_n == 0,
		.h1 = h1,
		.fuzzed = fuzzed,
		.in = BUF_INIT(PEER_TEXT_MAX_B),
		.out = BUF_INIT(PEER_TEXT_MAX_B)};
	if (!h1 && !fuzzed)
		p->h2 = session_new(p);
	peers_n++;
	return p;
}

static void peer_hears(struct peer *p, const char *bytes, size_t n)
{
	if (p->h2) {
		MUST(nghttp2_session_mem_recv(p->h2, (const uint8_t *)bytes, n) == (ssize_t)n);
	} else if (p->h1) {
		buf_add(&p->in, bytes, n);
		MUST(!p->in.failed);
		if (p->client)
			client1_hears(p);
		else
			server1_hears(p);
	}
}

/* Read and send what can be; true when anything moved. */
static bool peer_pump(struct peer *p)
{
	static char chunk[65536];
	const uint8_t *frame;
	bool moved = false;
	ssize_t n;

	while (p->fd >= 0 && (n = read(p->fd, chunk, sizeof(chunk))) > 0) {
		moved = true;
		peer_hears(p, chunk, (size_t)n);
	}
	while (p->h2 && p->out.len < sizeof(chunk) &&
		(n = nghttp2_session_mem_send(p->h2, &frame)) > 0)
		buf_add(&p->out, frame, (size_t)n);
	while (p->fd >= 0 && p->sent < p->out.len &&
		(n = send(p->fd, p->out.data + p->sent, p->out.len - p->sent, MSG_NOSIGNAL)) > 0) {
		moved = true;
		p->sent += (size_t)n;
	}
	if (p->sent == p->out.len) {
		buf_reset(&p->out);
		p->sent = 0;
	}
	return moved;
}

/* Let everything happen that can happen now. */
static void settle(uint8_t mode)
{
	bool moved = true;

	for (int i = 0; i < ROUNDS_MAX && moved; i++) {
		uint64_t before = world_moved();

		world_turn();
		moved = world_moved() != before;
		while (peers_n - 1 < world.servers_n) {
			struct peer *p = peer_add(world.servers[peers_n - 1], world.servers_h1,
				(mode & MODE_SPEAKER) == FROM_BOTH);

			if (p->fuzzed && !p->h1)
				buf_add(&p->out, "\0\0\0\4\0\0\0\0\0", 9);
			moved = true;
		}
		for (size_t i_peer = 0; i_peer < peers_n; i_peer++)
			moved |= peer_pump(&peers[i_peer]);
	}
}

/* ---- one input ---- */

static void say(struct peer *p, const uint8_t *bytes, size_t n, uint8_t mode)
{
	size_t step = mode & MODE_PIECES ? MAX_OF((size_t)9, n / 16) : MAX_OF((size_t)1, n);

	for (size_t at = 0; at < n; at += step) {
		buf_add(&p->out, bytes + at, MIN_OF(step, n - at));
		settle(mode);
	}
}

/* The fixed requests; then the first server that is dialled says the bytes. */
static void answer_with(const uint8_t *bytes, size_t n, uint8_t mode)
{
	struct peer *client = &peers[0];

	if (client->h1) {
		buf_addf(&client->out, "GET /a/1 HTTP/1.1\r\nHost: %s\r\n\r\n", world.flow.host);
	} else {
		ask_h2(client->h2, "GET", "/a/1", 0);
		ask_h2(client->h2, "POST", "/a/2", mode & MODE_UPLOAD ? UPLOAD_B : 8);
	}
	while (!world.servers_n && peer_pump(client))
		world_turn();
	world_turn();
	if (!world.servers_n)
		return;
	peer_add(world.servers[0], false, true);
	say(&peers[1], bytes, n, mode);
	if (mode & MODE_CLOSE) {
		close_fd(&world.servers[0]);
		peers[1].fd = -1;
	}
}

/* One record, as above, at the front of n bytes; returns how many it took. */
static size_t speak_record(const uint8_t *record, size_t n, uint8_t mode)
{
	bool by_server = record[0] & RECORD_SERVER;
	unsigned type = record[0] & RECORD_TYPE, id = record[2] ? record[2] * 2u - 1 : 0;
	size_t len = MIN_OF((size_t)record[3], n - RECORD_HEAD_B);
	const uint8_t frame[9] = {0, 0, (uint8_t)len, (uint8_t)type, record[1], 0, 0,
		(uint8_t)(id >> 8), (uint8_t)id};
	struct peer *p = by_server ? &peers[peers_n - 1] : &peers[0];

	if (p->client != by_server) { /* else nobody was dialled yet */
		if (!p->h1 && type <= NGHTTP2_CONTINUATION)
			buf_add(&p->out, frame, sizeof(frame));
		buf_add(&p->out, record + RECORD_HEAD_B, len);
	}
	if (!(record[0] & RECORD_SAME_TURN))
		settle(mode);
	return RECORD_HEAD_B + len;
}

static void speak_both(const uint8_t *bytes, size_t n, uint8_t mode)
{
	/* With the NUL at its end, which is the last byte of an empty SETTINGS. */
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
	size_t at = 0;

	buf_add(&peers[0].out, preface, sizeof(preface));
	while (n - at >= RECORD_HEAD_B)
		at += speak_record(bytes + at, n - at, mode);
}

/* What the clock does once a second, long after. */
static void let_time_pass(void)
{
	struct http_pool *pool = world.g.pool;
	uint64_t then = loop_now_ms(world.g.loop) + YEAR_MS;
	struct exchange *x, *next;

	for (x = pool->fronts ? pool->fronts->exchanges : NULL; x; x = next) {
		next = x->next;
		exchange_tick(x, then);
	}
	pool_tick(pool, then);
	if (pool->fronts && pool->fronts->deadline_ms)
		pool->fronts->late(pool->fronts);
}

/* Nobody waits on a connection that is over. */
static void check_alive(void)
{
	for (const struct back *b = world.g.pool->backs; b; b = b->next)
		MUST(b->state != BACK_H2 || !b->running || nghttp2_session_want_read(b->h2) ||
			nghttp2_session_want_write(b->h2));
}

static void finish(uint8_t mode)
{
	check_alive();
	if (world.flow.still)
		(void)world.flow.still(&world.flow, world.gen.policy);
	if (mode & MODE_TIME)
		let_time_pass();
	settle(mode);
	world_end();
	for (size_t i = 0; i < peers_n; i++) {
		nghttp2_session_del(peers[i].h2);
		buf_done(&peers[i].in);
		buf_done(&peers[i].out);
	}
	peers_n = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t mode = size ? data[0] : 0, speaker = mode & MODE_SPEAKER;
	bool other_h1 = mode & MODE_OTHER_H1, by_server = speaker == FROM_SERVER;

	if (!size)
		return 0;
	requests = 0;
	world_begin((mode & MODE_GIT) && !by_server ? "git.example" : "test.example",
		by_server && other_h1, !by_server && other_h1);
	world.dial_fails = speaker == FROM_CLIENT_UNREACHED;
	peer_add(world.client, by_server && other_h1, !by_server);
	if (by_server)
		answer_with(data + 1, size - 1, mode);
	else if (speaker == FROM_BOTH)
		speak_both(data + 1, size - 1, mode);
	else
		say(&peers[0], data + 1, size - 1, mode);
	if ((mode & MODE_CLOSE) && !by_server) {
		close_fd(&world.client);
		peers[0].fd = -1;
	}
	finish(mode);
	return 0;
}
