/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes both ways: see splice.h.
 *
 * Order:   both sockets are watched edge-triggered for everything, once, and what is known of them
 *          is kept in `readable` and `writable` until the kernel says EAGAIN: a long transfer needs
 *          no epoll_ctl at all. splice() into a pipe that holds bytes cannot tell "pipe full" from
 *          "nothing to read", so a pipe is emptied before EAGAIN is believed.
 * Limits:  TURN_MAX_B per way and turn, then the others have theirs. BIG_PIPES_MAX pipes are
 *          enlarged: the kernel counts them against the user, whose other programs must not get
 *          short ones.
 * Failure: a reset of one side resets the other. Where splice() or pipes are refused, bytes are
 *          copied.
 */
#include "net/io/splice.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "net/reach/addr.h"

#define TURN_MAX_B (2u << 20)
#define COPY_B (16u << 10)    /* one that fills this is bulk */
#define SCRATCH_B (64u << 10) /* where there is no splice */
#define PIPE_B (1u << 20)
#define PIPE_SMALL_B (64u << 10)
#define BIG_PIPES_MAX 16
#define FREE_PIPES_MAX 32
#define QUIET_TURNS 16 /* small ones after which a way is copied again */

struct channel { /* a pipe */
	int in, out;
	size_t size_b;
	bool big;
	struct channel *next;
};

struct splice_pool {
	struct channel *free;
	unsigned free_n, big_n;
	char *scratch;
};

struct way {
	struct channel *pipe;
	size_t in_pipe;
	char *left; /* copied, and not taken by the receiver yet */
	size_t left_at, left_n;
	bool eof, shut, bulk, no_splice;
	unsigned quiet;
};

enum side { INNER, OUTER };

struct splice {
	struct flow *f;
	int fd[2]; /* INNER is the flow's */
	struct watch outer;
	bool readable[2], writable[2];
	bool careful[2];   /* a short read need not mean that there is no more: see copy() */
	struct way way[2]; /* by the side it comes from */
	bool again;        /* a turn is in the later list */
	bool over;
};

/* ---- pipes ---- */

struct splice_pool *splice_pool_new(void)
{
	return calloc(1, sizeof(struct splice_pool));
}

static void channel_close(struct splice_pool *p, struct channel *c)
{
	p->big_n -= c->big;
	close(c->in);
	close(c->out);
	free(c);
}

void splice_pool_free(struct splice_pool *p)
{
	if (!p)
		return;
	while (p->free) {
		struct channel *c = p->free;

		p->free = c->next;
		channel_close(p, c);
	}
	free(p->scratch);
	free(p);
}

static struct channel *channel_get(struct splice_pool *p)
{
	struct channel *c = p->free;
	int fd[2], size;

	if (c) {
		p->free = c->next;
		p->free_n--;
		return c;
	}
	if (pipe2(fd, O_CLOEXEC | O_NONBLOCK) < 0)
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c) {
		close(fd[0]);
		close(fd[1]);
		return NULL;
	}
	*c = (struct channel){.out = fd[0], .in = fd[1], .size_b = PIPE_SMALL_B};
	if (p->big_n < BIG_PIPES_MAX) {
		size = fcntl(c->in, F_SETPIPE_SZ, PIPE_B);
		if (size > (int)PIPE_SMALL_B) {
			c->size_b = (size_t)size;
			c->big = true;
			p->big_n++;
		}
	}
	return c;
}

/* One that holds bytes of a connection must not meet another. */
static void channel_put(struct splice_pool *p, struct channel *c, bool empty)
{
	if (!empty || p->free_n >= FREE_PIPES_MAX) {
		channel_close(p, c);
		return;
	}
	c->next = p->free;
	p->free = c;
	p->free_n++;
}

/* ---- the end ---- */

static void splice_free(void *arg)
{
	free(arg);
}

static void splice_over(struct splice *r, const char *why, bool reset)
{
	struct flow *f = r->f;

	if (r->over)
		return;
	r->over = true;
	for (int i = 0; i < 2; i++) {
		struct way *w = &r->way[i];

		if (w->pipe)
			channel_put(f->gw->pipes, w->pipe, w->in_pipe == 0);
		w->pipe = NULL;
		free(w->left);
		w->left = NULL;
	}
	loop_unwatch(&r->outer);
	if (reset) {
		flow_reset_on_close(r->fd[INNER]);
		flow_reset_on_close(r->fd[OUTER]);
	}
	close_fd(&r->fd[OUTER]);
	f->state = NULL;
	f->abort = NULL;
	f->drained = NULL;
	f->still = NULL;
	if (!r->again) /* else the turn that is still to come frees it */
		loop_later(f->gw->loop, splice_free, r);
	flow_end(f, why);
}

static void splice_abort(struct flow *f)
{
	splice_over(f->state, f->aborted ? f->aborted : "aborted", true);
}

/* What the sandbox wrote is in the kernel's hands; nobody is left there to read an answer. */
static bool splice_drained(struct flow *f)
{
	const struct splice *r = f->state;

	return r->way[INNER].shut;
}

/* The name is judged by whoever asks; the address it turned out to have is known only here. */
static bool splice_still(struct flow *f, const struct net_policy *p)
{
	const struct splice *r = f->state;

	return addr_peer_allowed(r->fd[OUTER], f->dest.host, f->dest.port, p);
}

/* ---- moving ---- */

/* What a step says: more may be possible, the kernel has to say when, or it is over. */
enum step { STEP_ON, STEP_WAIT, STEP_OVER };

static bool count(struct splice *r, enum side from, size_t n)
{
	struct net_verdict v = {.effect = NET_DENY,
		.rule = r->f->rule,
		.why = "the rule's limit of bytes is used up"};
	struct flow *f = r->f;
	uint64_t up = from == INNER ? n : 0, down = from == INNER ? 0 : n;

	f->up_b += up;
	f->down_b += down;
	if (f->publish || !f->rule || usage_bytes(f->gw, f->rule, up, down))
		return true;
	netlog_denial(f, "LIMIT", "", 0, &v);
	splice_over(r, v.why, true);
	return false;
}

static enum step failed(struct splice *r, const char *what)
{
	splice_over(r, errno == ECONNRESET || errno == EPIPE ? "reset" : what, true);
	return STEP_OVER;
}

static enum step send_left(struct splice *r, struct way *w, enum side to)
{
	ssize_t n = send(r->fd[to], w->left + w->left_at, w->left_n, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0) {
		if (errno == EINTR)
			return STEP_ON;
		if (errno != EAGAIN)
			return failed(r, "sending failed");
		r->writable[to] = false;
		return STEP_WAIT;
	}
	w->left_at += (size_t)n;
	w->left_n -= (size_t)n;
	if (w->left_n == 0) {
		free(w->left);
		w->left = NULL;
	}
	return STEP_ON;
}

/* Keep what the receiver did not take. */
static bool keep(struct way *w, const char *p, size_t n)
{
	w->left = malloc(n);
	if (!w->left)
		return false;
	memcpy(w->left, p, n);
	w->left_at = 0;
	w->left_n = n;
	return true;
}

static enum step copy(struct splice *r, enum side from)
{
	struct splice_pool *pool = r->f->gw->pipes;
	struct way *w = &r->way[from];
	enum side to = from == INNER ? OUTER : INNER;
	ssize_t n, sent;

	if (!pool->scratch && !(pool->scratch = malloc(SCRATCH_B))) {
		errno = ENOMEM;
		return failed(r, "out of memory");
	}
	n = recv(r->fd[from], pool->scratch, w->no_splice ? SCRATCH_B : COPY_B, MSG_DONTWAIT);
	if (n < 0 && errno == EINTR)
		return STEP_ON;
	if (n < 0 && errno != EAGAIN)
		return failed(r, "receiving failed");
	if (n <= 0) {
		r->readable[from] = false;
		w->eof = n == 0;
		return STEP_WAIT;
	}
	if (!count(r, from, (size_t)n))
		return STEP_OVER;
	/*
	 * A TCP socket that gave less than was asked for is empty, and says so when it is not any
	 * more. Not so when an end was announced (it is still to be read), or urgent data, at which
	 * reading stops short.
	 */
	if ((size_t)n < COPY_B && !r->careful[from])
		r->readable[from] = false;
	w->bulk = !w->no_splice && (size_t)n == COPY_B;
	sent = r->writable[to]
		       ? send(r->fd[to], pool->scratch, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT)
		       : 0;
	if (sent < 0 && errno != EAGAIN && errno != EINTR)
		return failed(r, "sending failed");
	if (sent < 0)
		sent = 0;
	if (sent == n)
		return STEP_ON;
	r->writable[to] = sent > 0; /* the rest is tried once more, then EAGAIN tells */
	if (!keep(w, pool->scratch + sent, (size_t)(n - sent))) {
		errno = ENOMEM;
		return failed(r, "out of memory");
	}
	return STEP_ON;
}

/*
 * The receiver cannot be spliced to: what is in the pipe is copied out, and everything from here
 * on.
 */
static enum step unpipe(struct splice *r, struct way *w)
{
	char *p = malloc(w->in_pipe);
	size_t got = 0;

	while (p && got < w->in_pipe) {
		ssize_t n = read(w->pipe->out, p + got, w->in_pipe - got);

		if (n <= 0)
			break;
		got += (size_t)n;
	}
	if (!p || got < w->in_pipe) {
		free(p);
		errno = EIO;
		return failed(r, "a pipe lost bytes");
	}
	w->left = p;
	w->left_at = 0;
	w->left_n = got;
	w->in_pipe = 0;
	w->no_splice = true;
	w->bulk = false;
	return STEP_ON;
}

static enum step splice_out(struct splice *r, enum side from)
{
	struct way *w = &r->way[from];
	enum side to = from == INNER ? OUTER : INNER;
	ssize_t n = splice(
		w->pipe->out, NULL, r->fd[to], NULL, w->in_pipe, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

	if (n > 0) {
		w->in_pipe -= (size_t)n;
		return STEP_ON;
	}
	if (n < 0 && errno == EINTR)
		return STEP_ON;
	if (n < 0 && errno == EAGAIN) {
		r->writable[to] = false;
		return STEP_WAIT;
	}
	if (n < 0 && (errno == EINVAL || errno == ENOSYS))
		return unpipe(r, w);
	return failed(r, "sending failed");
}

static enum step splice_in(struct splice *r, enum side from)
{
	struct way *w = &r->way[from];
	ssize_t n;

	if (!w->pipe)
		w->pipe = channel_get(r->f->gw->pipes);
	if (!w->pipe) { /* out of descriptors: copying needs none */
		w->bulk = false;
		return STEP_ON;
	}
	n = splice(r->fd[from], NULL, w->pipe->in, NULL, w->pipe->size_b,
		SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (n > 0) {
		w->in_pipe = (size_t)n;
		w->quiet = (size_t)n < COPY_B ? w->quiet + 1 : 0;
		w->bulk = w->quiet < QUIET_TURNS;
		return count(r, from, (size_t)n) ? STEP_ON : STEP_OVER;
	}
	if (n < 0 && errno == EINTR)
		return STEP_ON;
	if (n == 0 || errno == EAGAIN) {
		r->readable[from] = false;
		w->eof = n == 0;
		return STEP_WAIT;
	}
	if (errno == EINVAL || errno == ENOSYS) {
		w->no_splice = true;
		w->bulk = false;
		return STEP_ON;
	}
	return failed(r, "receiving failed");
}

static enum step step(struct splice *r, enum side from)
{
	struct way *w = &r->way[from];
	enum side to = from == INNER ? OUTER : INNER;

	if (w->in_pipe)
		return r->writable[to] ? splice_out(r, from) : STEP_WAIT;
	if (w->left_n)
		return r->writable[to] ? send_left(r, w, to) : STEP_WAIT;
	if (w->eof || !r->readable[from])
		return STEP_WAIT;
	return w->bulk ? splice_in(r, from) : copy(r, from);
}

/* Move one way's bytes. false: it is over. */
static bool pump(struct splice *r, enum side from, bool *ret_more)
{
	struct way *w = &r->way[from];
	uint64_t *moved = from == INNER ? &r->f->up_b : &r->f->down_b, start = *moved;
	enum step s = STEP_ON;

	while (s == STEP_ON && *moved - start < TURN_MAX_B)
		s = step(r, from);
	if (s == STEP_OVER)
		return false;
	*ret_more |= s == STEP_ON;
	if (w->pipe && w->in_pipe == 0) {
		channel_put(r->f->gw->pipes, w->pipe, true);
		w->pipe = NULL;
	}
	if (w->eof && !w->shut && w->in_pipe == 0 && w->left_n == 0) {
		w->shut = true;
		shutdown(r->fd[from == INNER ? OUTER : INNER], SHUT_WR);
	}
	return true;
}

static void turn(struct splice *r);

static void turn_again(void *arg)
{
	struct splice *r = arg;

	r->again = false;
	if (r->over)
		free(r);
	else
		turn(r);
}

static void turn(struct splice *r)
{
	bool more = false;

	if (!pump(r, INNER, &more) || !pump(r, OUTER, &more))
		return;
	if (r->way[INNER].shut && r->way[OUTER].shut) {
		splice_over(r, "closed", false);
	} else if (more && !r->again) {
		r->again = true;
		loop_later(r->f->gw->loop, turn_again, r);
	}
}

static void ready(struct splice *r, enum side s, uint32_t events)
{
	if (events & (EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		r->readable[s] = true;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		r->writable[s] = true;
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR | EPOLLPRI))
		r->careful[s] = true;
	if (!r->again)
		turn(r);
}

static void inner_ready(void *arg, uint32_t events)
{
	ready(arg, INNER, events);
}

static void outer_ready(void *arg, uint32_t events)
{
	ready(arg, OUTER, events);
}

/* Watch the sandbox's side, whoever did before. */
static int watch_inner(struct splice *r, uint32_t events)
{
	struct flow *f = r->f;

	if (!f->watch.loop)
		return loop_watch(f->gw->loop, &f->watch, f->fd, events, inner_ready, r);
	f->watch.ready = inner_ready;
	f->watch.arg = r;
	loop_change(&f->watch, events);
	return f->watch.events == events ? 0 : -EIO;
}

void splice_start(struct flow *f, int upstream)
{
	const uint32_t events = EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDHUP | EPOLLET;
	struct splice *r = calloc(1, sizeof(*r));
	int one = 1;

	if (!r) {
		close(upstream);
		flow_reset_on_close(f->fd);
		flow_end(f, "out of memory");
		return;
	}
	*r = (struct splice){.f = f, .fd = {f->fd, upstream}};
	f->state = r;
	f->abort = splice_abort;
	f->drained = splice_drained;
	f->still = splice_still;
	/* The ends decide what to send together; here nothing waits for more. Not TCP: refused. */
	for (int s = INNER; s <= OUTER; s++)
		r->careful[s] =
			setsockopt(r->fd[s], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0;
	loop_cancel(&f->timer);
	if (watch_inner(r, events) < 0 ||
		loop_watch(f->gw->loop, &r->outer, upstream, events, outer_ready, r) < 0)
		splice_over(r, "out of memory", true);
}
