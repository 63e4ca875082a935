/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper's process between a gateway that is played here and a TLS server of ours.
 *
 * The process is the real one, started as the supervisor would: CONFIG, confinement, READY. It
 * reaches the server on this machine by the one name that may mean it (host ports); its authority
 * comes by `trust`.
 */
#ifndef CROFT_TESTS_UNIT_KEEPER_WORLD_H
#define CROFT_TESTS_UNIT_KEEPER_WORLD_H

#include "keeper_store.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "ipc/gateway_message.h"
#include "net/gateway/gateway.h"
#include "net/http/http1.h"
#include "net/keeper/keeper.h"
#include "net/http/websocket.h"

/* ---- a server of ours ---- */

struct server {
	SSL_CTX *ctx;
	int listener;
	uint16_t port;
	pthread_t thread;
	pthread_mutex_t lock;
	struct buf seen; /* every byte of every request, as it came out of TLS */
	atomic_uint connections, requests;
};

static X509 *certificate(
	EVP_PKEY *key, const char *name, bool ca, X509 *issuer, EVP_PKEY *issuer_key)
{
	X509 *x = X509_new();
	X509_NAME *n = X509_get_subject_name(x);
	X509V3_CTX v3;
	char san[128];
	X509_EXTENSION *ext;

	X509_set_version(x, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(x), ca ? 1 : 2);
	X509_gmtime_adj(X509_getm_notBefore(x), -3600);
	X509_gmtime_adj(X509_getm_notAfter(x), 3600);
	X509_set_pubkey(x, key);
	X509_NAME_add_entry_by_txt(n, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
	X509_set_issuer_name(x, issuer ? X509_get_subject_name(issuer) : n);
	X509V3_set_ctx(&v3, issuer ? issuer : x, x, NULL, NULL, 0);
	snprintf(san, sizeof(san), "DNS:%s", name);
	ext = X509V3_EXT_conf_nid(NULL, &v3, ca ? NID_basic_constraints : NID_subject_alt_name,
		ca ? "critical,CA:TRUE" : san);
	X509_add_ext(x, ext, -1);
	X509_EXTENSION_free(ext);
	X509_sign(x, issuer_key ? issuer_key : key, EVP_sha256());
	return x;
}

/* An authority in a file, and a context with a leaf for `name` of it. */
static SSL_CTX *server_context(const char *ca_file, const char *name)
{
	EVP_PKEY *ca_key = EVP_EC_gen("P-256"), *key = EVP_EC_gen("P-256");
	X509 *ca = certificate(ca_key, "test authority", true, NULL, NULL);
	X509 *leaf = certificate(key, name, false, ca, ca_key);
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	FILE *f = fopen(ca_file, "w");

	if (f) {
		PEM_write_X509(f, ca);
		fclose(f);
	}
	SSL_CTX_use_certificate(ctx, leaf);
	SSL_CTX_use_PrivateKey(ctx, key);
	X509_free(ca);
	X509_free(leaf);
	EVP_PKEY_free(ca_key);
	EVP_PKEY_free(key);
	return ctx;
}

static bool ssl_add(SSL *s, struct buf *b)
{
	char p[4096];
	int n = SSL_read(s, p, sizeof(p));

	if (n > 0)
		buf_add(b, p, (size_t)n);
	return n > 0;
}

/* One whole request; its head's length, or 0 at the end. */
static size_t server_read(SSL *s, struct buf *b)
{
	const char *end, *length;
	size_t head, want = 0;

	while (!(end = strstr(buf_str(b), "\r\n\r\n")))
		if (!ssl_add(s, b))
			return 0;
	head = (size_t)(end - b->data) + 4;
	if (strstr(b->data, " /early ") || strstr(b->data, " /back ")) /* the body is not awaited */
		return head;
	length = strstr(b->data, "\r\ncontent-length: ");
	if (length && length < end)
		want = strtoul(length + 18, NULL, 10);
	if (strstr(b->data, "transfer-encoding: chunked"))
		while (!strstr(b->data + head, "0\r\n\r\n"))
			if (!ssl_add(s, b))
				return 0;
	while (b->len < head + want)
		if (!ssl_add(s, b))
			return 0;
	return head;
}

static void reply(struct buf *out, const char *fields, const char *body, size_t n)
{
	buf_addf(out, "HTTP/1.1 200 OK\r\ncontent-length: %zu\r\n%s\r\n", n, fields);
	buf_add(out, body, n);
}

/* What the answer is, by the path. Returns false when the connection closes afterwards. */
static bool server_answer(const struct buf *request, size_t head, struct buf *out)
{
	const char *text = buf_str(request);
	cleanup_buf struct buf body = BUF_INIT(8u << 20);

	if (strstr(text, " /echo ")) { /* everything that came, and each header again */
		buf_addf(out, "HTTP/1.1 200 OK\r\nx-echo: %s\r\ncontent-length: %zu\r\n\r\n", VALUE,
			head);
		buf_add(out, text, head);
	} else if (strstr(text, " /base64 ")) {
		add_base64(&body, text, head);
		reply(out, "", buf_str(&body), body.len);
	} else if (strstr(text, " /percent ")) {
		text_escape(&body, text, head);
		reply(out, "", buf_str(&body), body.len);
	} else if (strstr(text, " /chunked ")) { /* a byte at a time */
		buf_adds(out, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
		for (size_t i = 0; i < head; i++)
			buf_addf(out, "1\r\n%c\r\n", text[i]);
		buf_adds(out, "0\r\n\r\n");
	} else if (strstr(text, " /close ")) {
		buf_adds(out, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n");
		buf_add(out, text, head);
		return false;
	} else if (strstr(text, " /gzip ")) {
		reply(out, "content-encoding: gzip\r\n", "xxxxxxxx", 8);
	} else if (strstr(text, " /cut ")) {
		buf_adds(out, "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nonly this");
		return false;
	} else if (strstr(text, " /smuggle ")) {
		buf_adds(out, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: "
			      "chunked\r\n\r\n0\r\n\r\n");
	} else if (strstr(text, " /hints ")) {
		buf_adds(out, "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n");
		reply(out, "", "hinted", 6);
	} else if (strstr(text, " /big ")) {
		for (size_t i = 0; i < (4u << 20) / 16; i++)
			buf_adds(&body, "0123456789abcdef");
		reply(out, "", buf_str(&body), body.len);
	} else if (strstr(text, " /early ")) {
		reply(out, "connection: close\r\n", "early", 5);
		return false;
	} else if (strstr(text, " /drop ")) {
		return false;
	} else if (strncmp(text, "HEAD ", 5) == 0) {
		buf_adds(out, "HTTP/1.1 200 OK\r\ncontent-length: 12345\r\n\r\n");
	} else if (strstr(text, "upgrade: websocket")) {
		buf_adds(out, "HTTP/1.1 101 Switching Protocols\r\nupgrade: "
			      "websocket\r\nconnection: upgrade\r\n"
			      "sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n");
	} else {
		buf_addf(&body, "took %zu", request->len - head);
		reply(out, "", buf_str(&body), body.len);
	}
	return true;
}

static bool ssl_all(SSL *s, uint8_t *p, size_t n)
{
	for (int k; n; p += k, n -= (size_t)k)
		if ((k = SSL_read(s, p, (int)n)) <= 0)
			return false;
	return true;
}

/* Frames of less than 64 KiB as they came, unmasked. late: what begins as VALUE does is delayed. */
static void server_frames(SSL *s, bool late)
{
	uint8_t head[WS_HEAD_MAX], mask[4], p[65536 + 4];
	const struct timespec delay = {.tv_nsec = 15000000};

	while (ssl_all(s, head, 2)) {
		size_t n = head[1] & 0x7f;

		if (n == 126 && ssl_all(s, p, 2))
			n = (size_t)p[0] << 8 | p[1];
		if (!(head[1] & 0x80) || !ssl_all(s, mask, 4) || !ssl_all(s, p + 4, n))
			return;
		for (size_t i = 0; i < n; i++)
			p[4 + i] ^= mask[i % 4];
		if (late && n < VALUE_LEN && memcmp(p + 4, VALUE, n) == 0)
			nanosleep(&delay, NULL);
		mask[0] = (uint8_t)ws_head(head, head[0] & 0x80, head[0] & 0x0f, n);
		memcpy(p + 4 - (mask[0] == 2 ? 2 : 4), head, mask[0]);
		if (SSL_write(s, p + 4 - mask[0], (int)n + mask[0]) <= 0)
			return;
	}
}

/* Whatever comes goes back as a chunk. */
static void server_chunks(SSL *s)
{
	static const char head[] = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
	char p[4096], out[4096 + 16];
	int n;

	SSL_write(s, head, sizeof(head) - 1);
	while ((n = SSL_read(s, p, sizeof(p))) > 0) {
		int k = snprintf(out, sizeof(out), "%x\r\n", (unsigned)n);

		memcpy(out + k, p, (size_t)n);
		memcpy(out + k + n, "\r\n", 2);
		SSL_write(s, out, k + n + 2);
	}
}

static void server_talk(struct server *sv, SSL *s)
{
	bool more = true;

	while (more) {
		cleanup_buf struct buf request = BUF_INIT(64u << 20);
		cleanup_buf struct buf out = BUF_INIT(64u << 20);
		size_t head = server_read(s, &request);

		if (!head)
			return;
		pthread_mutex_lock(&sv->lock);
		buf_add(&sv->seen, request.data, request.len);
		pthread_mutex_unlock(&sv->lock);
		atomic_fetch_add(&sv->requests, 1);
		if (strstr(buf_str(&request), " /back ")) {
			server_chunks(s);
			return;
		}
		more = server_answer(&request, head, &out);
		if (out.len && SSL_write(s, out.data, (int)out.len) <= 0)
			return;
		if (strstr(buf_str(&out), "101 Switching")) {
			server_frames(s, strstr(buf_str(&request), " /late "));
			return;
		}
	}
	SSL_shutdown(s);
}

struct talk {
	struct server *sv;
	int fd;
};

static void *server_one(void *arg)
{
	struct talk t = *(struct talk *)arg;
	SSL *s = SSL_new(t.sv->ctx);
	char rest[4096];

	free(arg);
	SSL_set_fd(s, t.fd);
	if (SSL_accept(s) == 1)
		server_talk(t.sv, s);
	/* Closing with something unread would reset what was just said. */
	shutdown(t.fd, SHUT_WR);
	while (read(t.fd, rest, sizeof(rest)) > 0)
		;
	SSL_free(s);
	close(t.fd);
	return NULL;
}

static void *server_loop(void *arg)
{
	struct server *sv = arg;
	int fd;

	while ((fd = accept(sv->listener, NULL, NULL)) >= 0) {
		struct talk *t = malloc(sizeof(*t));
		pthread_t thread;

		*t = (struct talk){sv, fd};
		atomic_fetch_add(&sv->connections, 1);
		pthread_create(&thread, NULL, server_one, t);
		pthread_detach(thread);
	}
	return NULL;
}

static bool server_start(struct server *sv)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);

	pthread_mutex_init(&sv->lock, NULL);
	sv->seen = BUF_INIT(64u << 20);
	sv->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (sv->listener < 0 || bind(sv->listener, (struct sockaddr *)&a, sizeof(a)) < 0 ||
		listen(sv->listener, 16) < 0 ||
		getsockname(sv->listener, (struct sockaddr *)&a, &n) < 0)
		return false;
	sv->port = ntohs(a.sin_port);
	return true;
}

static inline bool server_saw(struct server *sv, const char *text)
{
	bool found;

	pthread_mutex_lock(&sv->lock);
	found = memmem(buf_str(&sv->seen), sv->seen.len, text, strlen(text));
	pthread_mutex_unlock(&sv->lock);
	return found;
}

static inline void server_forget(struct server *sv)
{
	pthread_mutex_lock(&sv->lock);
	buf_reset(&sv->seen);
	pthread_mutex_unlock(&sv->lock);
}

/* ---- the process ---- */

struct world {
	struct place_dir d;
	struct server sv;
	struct gateway gw; /* only its keeper is used */
	int control;
	pid_t pid;
	int want_exit; /* how the keeper is to end */
};

static int memfd_with(const void *p, size_t n)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	return fd >= 0 && write(fd, p, n) == (ssize_t)n ? fd : -1;
}

/* secrets: what stands below network.secrets. */
static int policy_fd(const struct world *w, const char *secrets, const char *extra)
{
	cleanup_buf struct buf b = BUF_INIT(65536);

	buf_addf(&b,
		"version: 1\nnetwork:\n  allow:\n    - host: " HOST
		"\n      ports: [%u]\n      mode: ws\n%s"
		"  host-ports: [%u]\n  trust: [%s/ca.pem]\n",
		w->sv.port, extra, w->sv.port, w->d.top);
	if (*secrets)
		buf_addf(&b, "  secrets:\n%s", secrets);
	return memfd_with(b.data, b.len);
}

static const char *one_secret(const struct world *w, const char *name, const char *more)
{
	static char text[2][512];
	static int turn;
	char *t = text[turn++ % 2];

	snprintf(t, sizeof(text[0]), "    - name: %s\n      host: " HOST "\n      port: %u\n%s",
		name, w->sv.port, more);
	return t;
}

static void world_done(struct world *w)
{
	close_fd(&w->control);
	close_fd(&w->gw.keeper);
	if (w->pid > 0) {
		int status = 0;

		waitpid(w->pid, &status, 0); /* its supervisor is gone: it ends by itself */
		if (!WIFEXITED(status) || WEXITSTATUS(status) != w->want_exit)
			test_fail(__FILE__, __LINE__, "the keeper ended with status %#x",
				(unsigned)status);
	}
	if (w->sv.thread) {
		shutdown(w->sv.listener, SHUT_RDWR);
		pthread_join(w->sv.thread, NULL);
	}
	close_fd(&w->sv.listener);
	SSL_CTX_free(w->sv.ctx);
	buf_done(&w->sv.seen);
	dir_done(&w->d);
}
#define cleanup_world __attribute__((cleanup(world_done)))

/* The next message of the keeper within 20 seconds, or 0. */
static uint32_t hear(struct world *w, struct gateway_msg *m)
{
	struct pollfd p = {.fd = w->control, .events = POLLIN};
	int fds[GATEWAY_FD_NUM];

	m->type = 0;
	if (poll(&p, 1, 20000) == 1 && gateway_receive(w->control, m, fds) != 1)
		m->type = 0;
	return m->type;
}

/* What the keeper says when it was started, degradations aside. */
static uint32_t hear_start(struct world *w, struct gateway_msg *m)
{
	while (hear(w, m) == GATEWAY_NOTE && strstr(m->text, "lock"))
		;
	return m->type;
}

static bool world_spawn(struct world *w, const char *secrets, const char *extra)
{
	int control[2], opens[2], fds[GATEWAY_FD_NUM];
	struct gateway_msg m = {.type = GATEWAY_CONFIG};
	bool ok;

	for (int i = 0; i < GATEWAY_FD_NUM; i++)
		fds[i] = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) < 0 ||
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, opens) < 0)
		return false;
	fds[GATEWAY_FD_POLICY] = policy_fd(w, secrets, extra);
	fds[GATEWAY_FD_CA] = memfd_with(seed, sizeof(seed));
	fds[GATEWAY_FD_KEEPER] = opens[1];
	fds[GATEWAY_FD_OUTER] = w->d.fd;
	w->control = control[0];
	w->gw.keeper = opens[0];
	w->pid = fork();
	if (w->pid == 0) {
		if (dup2(control[1], GATEWAY_CONTROL_FD) < 0)
			_exit(99);
		_exit(keeper_main());
	}
	ok = w->pid > 0 && gateway_send(w->control, &m, fds) == 0;
	close(fds[GATEWAY_FD_POLICY]);
	close(fds[GATEWAY_FD_CA]);
	close(opens[1]);
	close(control[1]);
	return ok;
}

/* name: whom the server's certificate is for. */
static bool world_prepare(struct world *w, const char *name)
{
	char ca[128];

	signal(SIGPIPE, SIG_IGN); /* the server's clients leave when they like */
	*w = (struct world){
		.control = -1, .gw = {.keeper = -1}, .sv = {.listener = -1}, .d = {.fd = -1}};
	if (!dir_make_one(&w->d) || !server_start(&w->sv))
		return false;
	snprintf(ca, sizeof(ca), "%s/ca.pem", w->d.top);
	w->sv.ctx = server_context(ca, name);
	return true;
}

/* The server's threads begin after the fork: a forked child of threads is a strange place. */
static bool world_serve(struct world *w)
{
	struct gateway_msg m;

	if (hear_start(w, &m) != GATEWAY_READY) {
		printf("# the keeper says %u: %s\n", m.type, m.text);
		return false;
	}
	return pthread_create(&w->sv.thread, NULL, server_loop, &w->sv) == 0;
}

#define WORLD(w, more)                                                                             \
	cleanup_world struct world w;                                                              \
	CHECK(world_prepare(&w, HOST));                                                            \
	CHECK(world_spawn(&w, one_secret(&w, "TOKEN", more), ""));                                 \
	CHECK(world_serve(&w))

/* ---- the gateway's side ---- */

static int join(struct world *w)
{
	int fd = keeper_connect(&w->gw, HOST, w->sv.port, true, false);

	if (fd >= 0)
		fcntl(fd, F_SETFL, 0);
	return fd;
}

static bool send_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t k = send(fd, p, n, MSG_NOSIGNAL);

		if (k <= 0)
			return false;
		p += k;
		n -= (size_t)k;
	}
	return true;
}

static bool more(int fd, struct buf *b)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char chunk[16384];
	ssize_t n = poll(&p, 1, 20000) == 1 ? recv(fd, chunk, sizeof(chunk), 0) : -1;

	if (n > 0)
		buf_add(b, chunk, (size_t)n);
	return n > 0;
}

/* One whole answer after any 100; its status, or 0 when it was cut off. */
static unsigned receive(int fd, const char *method, struct buf *ret)
{
	const struct http_problem *problem;
	struct http_response r;
	uint64_t want = 0;
	unsigned status;
	bool stream;
	int head;

	while ((head = http1_response(&r, method, buf_str(ret), ret->len, &problem)) == 0)
		if (!more(fd, ret))
			return 0;
	if (head < 0)
		return 0;
	status = r.status;
	stream = r.body == HTTP_BODY_STREAM;
	want = r.body == HTTP_BODY_LENGTH ? r.length : 0;
	response_done(&r);
	while (stream && !(ret->len >= 5 && memcmp(ret->data + ret->len - 5, "0\r\n\r\n", 5) == 0))
		if (!more(fd, ret))
			return 0;
	while (ret->len < (size_t)head + want)
		if (!more(fd, ret))
			return 0;
	return status;
}

/* Send (with @P and @O), and hear the answer. */
static unsigned ask_on(int fd, const char *method, const char *request, struct buf *ret)
{
	cleanup_buf struct buf text = BUF_INIT(8u << 20);

	expand(&text, request);
	buf_reset(ret);
	return send_all(fd, text.data, text.len) ? receive(fd, method, ret) : 0;
}

/* … on a connection of its own. */
static inline unsigned ask_fresh(
	struct world *w, const char *method, const char *request, struct buf *ret)
{
	cleanup_fd int fd = join(w);

	return ask_on(fd, method, request, ret);
}

/* ---- WebSockets ---- */

#define UPGRADE                                                                                    \
	"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"               \
	"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

/* A frame of a client, masked with nothing; n < 64 KiB. */
static inline bool send_frame(int fd, uint8_t first, const char *p, size_t n)
{
	uint8_t head[WS_HEAD_MAX];
	size_t k = ws_head(head, first & 0x80, first & 0x0f, n);

	head[0] = first;
	head[1] |= 0x80;
	memset(head + k, 0, 4);
	return send_all(fd, (const char *)head, k + 4) && send_all(fd, p, n);
}

/* The next whole frame of the server, in ret as it came; its first byte, 0 at the end. */
static inline uint8_t next_frame(int fd, struct buf *in, struct buf *ret)
{
	buf_reset(ret);
	for (;;) {
		const uint8_t *b = (const uint8_t *)buf_str(in);
		size_t n = in->len >= 2 ? b[1] & 0x7f : 0, k = n == 126 ? 4 : 2;
		uint8_t first = b[0];

		if (n == 126 && in->len >= 4)
			n = (size_t)b[2] << 8 | b[3];
		if (in->len >= k && in->len >= k + n) {
			buf_add(ret, b + k, n);
			memmove(in->data, in->data + k + n, in->len - k - n);
			in->len -= k + n;
			return first;
		}
		if (!more(fd, in))
			return 0;
	}
}

#define ASK(w, method, request)                                                                    \
	cleanup_buf struct buf got = BUF_INIT(16u << 20);                                          \
	cleanup_fd int fd = join(&w);                                                              \
	unsigned status = ask_on(fd, method, request, &got)
#define POST(target) "POST " target " HTTP/1.1\r\nhost: " HOST "\r\n"
#define KEY "x-api-key: @P\r\n"
#define AS_HEADER "      place: header\n      field: x-api-key\n"

#endif
