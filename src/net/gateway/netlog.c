/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network journal: see netlog.h.
 *
 * Order:   a line is built in memory, and written with others when there are NETLOG_FLUSH_B of
 *          them or after NETLOG_FLUSH_MS. A refusal has a line, and a message, the first time
 *          only: a sandbox that tries the same thing for ever must not push everything else out of
 *          the file.
 */
#include "net/gateway/netlog.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/credential.h"
#include "base/json.h"
#include "base/str.h"
#include "net/dns/dns.h"
#include "net/gateway/tally.h"

#define LINE_MAX_B (32u << 10)
#define TEXT_MAX_B 2048

struct netlog {
	struct gateway *g;
	struct buf out;
	struct timer timer;
	uint64_t written_b;
	bool capped, broken;
	struct tally tally;
};

struct netlog *netlog_new(struct gateway *g)
{
	struct netlog *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->g = g;
	j->out = BUF_INIT(NETLOG_FLUSH_B + LINE_MAX_B);
	return j;
}

void netlog_free(struct netlog *j)
{
	if (!j)
		return;
	loop_cancel(&j->timer);
	tally_done(&j->tally);
	buf_done(&j->out);
	free(j);
}

/* ---- the file ---- */

static void flush(struct netlog *j)
{
	size_t at = 0;

	while (!j->broken && at < j->out.len) {
		ssize_t n = write(j->g->journal_fd, j->out.data + at, j->out.len - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			j->broken = true;
			gateway_note(j->g, "the network journal could not be written: %s",
				strerror(errno));
			break;
		}
		at += (size_t)n;
	}
	buf_reset(&j->out);
}

static void flush_timed(void *arg)
{
	flush(arg);
}

static void put(struct netlog *j, const struct buf *line)
{
	if (j->broken || j->g->journal_fd < 0 || line->failed)
		return;
	if (j->out.len + line->len + 1 > j->out.max)
		flush(j);
	buf_add(&j->out, line->data, line->len);
	buf_addc(&j->out, '\n');
	j->written_b += line->len + 1;
	if (j->out.len >= NETLOG_FLUSH_B)
		flush(j);
	else if (!j->timer.slot)
		loop_timer(j->g->loop, &j->timer, NETLOG_FLUSH_MS, flush_timed, j);
}

static uint64_t wall_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Open a line; false when the file is full, which it says itself. */
static bool line_begin(struct netlog *j, struct json *w, struct buf *b, const char *type)
{
	bool full = j->written_b >= NETLOG_MAX_B;

	if (j->capped)
		return false;
	json_init(w, b, false);
	json_object(w, NULL);
	json_uint(w, "time_ms", wall_ms());
	json_str(w, "type", full ? "capped" : type);
	if (!full)
		return true;
	j->capped = true;
	json_str(w, "text", "the journal is full; what follows is only counted");
	json_end(w);
	put(j, b);
	return false;
}

/* Text from inside, printable and bounded. */
static void show(struct json *w, const char *key, const char *text)
{
	cleanup_buf struct buf b = BUF_INIT(4 * TEXT_MAX_B);

	str_show(&b, text, MIN_OF(strlen(text), (size_t)TEXT_MAX_B));
	json_strn(w, key, buf_str(&b), b.len);
}

static const char *rule_name(const struct net_rule *r)
{
	return r && r->name ? r->name : "";
}

/* Where a flow goes: its name, or the address as text in b. */
static const char *host_of(const struct flow *f, struct buf *b)
{
	if (f->dest.host)
		return f->host;
	if (f->publish)
		return "(published)";
	net_addr_show(b, &f->dest.addr);
	return buf_str(b);
}

static void line_flow(struct json *w, const struct flow *f, const char *host)
{
	json_uint(w, "connection", f->id);
	show(w, "host", host);
	json_uint(w, "port", f->dest.port);
	json_str(w, "mode", f->publish ? "publish" : net_mode_names[f->mode]);
}

/* ---- what is told ---- */

void netlog_connection(struct flow *f, const char *why)
{
	cleanup_buf struct buf line = BUF_INIT(LINE_MAX_B), text = BUF_INIT(128);
	struct netlog *j = f->gw->netlog;
	const char *host = host_of(f, &text);
	bool opaque = f->mode == NET_TCP || f->mode == NET_TLS;
	struct json w;

	tally_host(&j->tally, &(struct tally_use){.host = host,
				      .port = f->dest.port,
				      .rule = f->publish ? "publish" : rule_name(f->rule),
				      .mode = f->mode,
				      .connections = 1,
				      /* Of an inspected connection each exchange was counted. */
				      .up_b = opaque ? f->up_b : 0,
				      .down_b = opaque ? f->down_b : 0});
	if (!line_begin(j, &w, &line, f->publish ? "publish" : "connection"))
		return;
	line_flow(&w, f, host);
	json_str(&w, "rule", rule_name(f->rule));
	json_uint(&w, "up_b", f->up_b);
	json_uint(&w, "down_b", f->down_b);
	json_uint(&w, "duration_ms", loop_now_ms(f->gw->loop) - f->since_ms);
	if (f->asked)
		json_bool(&w, "asked", true);
	if (f->ech)
		json_bool(&w, "ech", true);
	show(&w, "end", why);
	json_end(&w);
	put(j, &line);
}

/*
 * Query strings hold what people type; credentials, and placeholders, though no secrets, have no place
 * in a file.
 */
static void show_query(struct json *w, const char *query)
{
	cleanup_buf struct buf text = BUF_INIT(LINE_MAX_B);

	if (strcasestr(query, "croft")) {
		json_str(w, "query", "(not recorded)");
		return;
	}
	for (const char *p = query; *p;) {
		size_t n = strcspn(p, "&;");
		const char *is = memchr(p, '=', n);
		size_t name = is ? (size_t)(is - p) : n;
		bool hide = is && credential_is(CREDENTIAL_QUERY, p, name, is + 1, n - name - 1);

		buf_add(&text, p, hide ? name + 1 : n);
		if (hide)
			buf_adds(&text, "(not recorded)");
		p += n;
		if (*p)
			buf_addc(&text, *p++);
	}
	show(w, "query", text.failed ? "(not recorded)" : buf_str(&text));
}

void netlog_request(struct flow *f, const struct net_verdict *v, const struct exchange_record *x)
{
	cleanup_buf struct buf line = BUF_INIT(LINE_MAX_B), text = BUF_INIT(128);
	struct netlog *j = f->gw->netlog;
	const char *host = host_of(f, &text);
	struct json w;

	if (v->effect != NET_DENY)
		tally_host(&j->tally, &(struct tally_use){.host = host,
					      .port = f->dest.port,
					      .rule = rule_name(v->rule),
					      .mode = v->rule ? v->rule->mode : f->mode,
					      .requests = 1,
					      .up_b = x->up_b,
					      .down_b = x->down_b});
	if (!line_begin(j, &w, &line, "request"))
		return;
	line_flow(&w, f, host);
	json_str(&w, "rule", rule_name(v->rule));
	json_str(&w, "effect", net_effect_names[v->effect]);
	show(&w, "method", x->method ? x->method : "");
	show(&w, "path", x->path ? x->path : "");
	if (x->query && x->query[0] && f->gw->gen->policy->record_query)
		show_query(&w, x->query);
	json_uint(&w, "status", x->status);
	json_uint(&w, "up_b", x->up_b);
	json_uint(&w, "down_b", x->down_b);
	json_uint(&w, "duration_us", x->duration_us);
	if (x->secret)
		json_str(&w, "secret", x->secret);
	json_end(&w);
	put(j, &line);
}

/* A message for what is new, or happens again; a line for what is new. */
static void denied(struct gateway *g, const struct flow *f, const struct tally_denial *key,
	const struct net_verdict *v, uint32_t status)
{
	cleanup_buf struct buf line = BUF_INIT(LINE_MAX_B);
	struct netlog *j = g->netlog;
	struct gateway_msg m;
	struct json w;
	enum tally_news news = tally_denied(&j->tally, key, v, status, loop_now_ms(g->loop), &m);

	if (news != TALLY_KNOWN)
		gateway_tell(g, &m);
	if (news != TALLY_FIRST || !line_begin(j, &w, &line, "denial"))
		return;
	if (f)
		line_flow(&w, f, key->host);
	else
		show(&w, "host", key->host);
	json_str(&w, "rule", key->rule);
	show(&w, "method", key->method);
	if (key->path[0])
		show(&w, "path", key->path);
	if (status)
		json_uint(&w, "status", status);
	show(&w, "reason", v->why);
	if (v->fix[0])
		show(&w, "fix", v->fix);
	json_end(&w);
	put(j, &line);
}

void netlog_denial(struct flow *f, const char *method, const char *path, uint32_t status,
	const struct net_verdict *v)
{
	cleanup_buf struct buf text = BUF_INIT(128);
	struct tally_denial key = {.host = host_of(f, &text),
		.port = f->dest.port,
		.mode = f->mode,
		.method = method ? method : "",
		.path = path ? path : "",
		.rule = rule_name(v->rule)};

	denied(f->gw, f, &key, v, status);
}

void netlog_name_denied(struct gateway *g, const char *name)
{
	struct net_verdict v = {.effect = NET_DENY};
	struct tally_denial key = {
		.host = name, .port = 53, .method = "DNS", .path = "", .rule = ""};

	snprintf(v.why, sizeof(v.why), "no rule covers this name");
	net_fix_host(v.fix, name, 0);
	denied(g, NULL, &key, &v, 0);
}

/* ---- the end ---- */

static bool tell(void *arg, struct gateway_msg *m)
{
	return gateway_tell(arg, m);
}

void netlog_end(struct netlog *j)
{
	struct gateway_msg done = {.type = GATEWAY_DONE};

	loop_cancel(&j->timer);
	flush(j); /* first: whoever hears DONE may end us, and read the file */
	tally_tell(&j->tally, &done, tell, j->g);
}

void netlog_rest(struct netlog *j, struct gateway_msg *last)
{
	loop_cancel(&j->timer);
	flush(j);
	tally_tell(&j->tally, last, tell, j->g);
}

bool netlog_capped(const struct netlog *j)
{
	return j->capped;
}

void netlog_continue(struct netlog *j, bool capped)
{
	struct stat st;

	j->capped = capped;
	if (j->g->journal_fd >= 0 && fstat(j->g->journal_fd, &st) == 0)
		j->written_b = (uint64_t)st.st_size;
}
