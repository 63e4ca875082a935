/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who gets what a process writes: the caller that started it, and those who look later. Each has an offset
 * and is sent as much as its connection has room for.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "session/run/receipt_data.h"
#include "session/serve/process_impl.h"

#define RECEIPT_TEXT_MAX (1u << 20)

int process_add_reader(
	struct process *p, struct caller *c, uint32_t tag, uint64_t offset, bool owner)
{
	struct reader *rd = calloc(1, sizeof(*rd));

	if (!rd)
		return -ENOMEM;
	*rd = (struct reader){.next = p->readers,
		.caller = c,
		.tag = tag,
		.offset = offset,
		.owner = owner,
		.follow = true};
	p->readers = rd;
	return 0;
}

/* From where on nothing may be dropped. */
uint64_t process_held_from(const struct process *p)
{
	uint64_t from = UINT64_MAX;

	for (const struct reader *r = p->readers; r; r = r->next)
		if (r->owner)
			from = MIN_OF(from, r->offset);
	return from;
}

void process_free_reader(struct process *p, struct reader **at)
{
	struct reader *r = *at;

	*at = r->next;
	view_forget(p, r);
	free(r);
}

/* Whoever started it gets its receipt: as data, and in words if it asked for them. */
static void send_exit(struct process *p, const struct reader *r)
{
	cleanup_buf struct buf b = BUF_INIT(SESSION_BODY_MAX), data = BUF_INIT(SESSION_BODY_MAX);
	cleanup_buf struct buf json = BUF_INIT(RECEIPT_JSON_MAX), text = BUF_INIT(RECEIPT_TEXT_MAX);
	struct redact *hidden = p->session->hidden;
	struct session_exit x = {
		.code = p->receipt ? p->receipt->exit_code : p->was.exit_code,
		.signal = p->receipt ? p->receipt->exit_signal : p->was.exit_signal};

	if (r->owner)
		receipt_pack(p->receipt, hidden, p->event, &data);
	if (r->owner && p->wants_json)
		receipt_json_hiding(p->receipt, hidden, &json, true);
	if (r->owner && p->wants_text)
		receipt_text(p->receipt, &text, p->verbose);
	if (r->owner && p->wants_text && p->session->stopping && p->signalled)
		buf_addf(&text, "croft: the session of %s ended, and the command with it\n",
			p->session->o->name);
	x.json = buf_str(&json);
	x.text = buf_str(&text);
	x.receipt = data.data;
	x.receipt_n = data.len;
	session_exit_pack(&b, &x);
	caller_send(r->caller, SESSION_EXITED, r->tag, p->id, b.data, b.len);
}

/* As much as this reader has room for. False when it is done. */
static bool feed(struct process *p, struct reader *r)
{
	uint64_t end = r->follow ? p->log.end : MIN_OF(r->until, p->log.end);
	unsigned stream;
	const void *bytes;
	size_t n;

	if (r->waits && p->state < PROCESS_LEFT)
		return true;
	if (!p->told_started && p->state == PROCESS_RUNNING)
		return true; /* STARTED comes first; who starts it detached wants no more than that */
	if (r->offset < p->log.begin) {
		unsigned char gone[8];
		struct buf b = BUF_INIT(sizeof(gone));

		pack_u64(&b, p->log.begin);
		caller_send(r->caller, SESSION_GONE, r->tag, p->id, b.data, b.len);
		buf_done(&b);
		r->offset = p->log.begin;
	}
	while (r->offset < end && session_link_room(&r->caller->link) &&
		(n = log_at(&p->log, r->offset, &stream, &bytes))) {
		cleanup_buf struct buf b = BUF_INIT(SESSION_CHUNK_MAX + 64);

		n = MIN_OF(MIN_OF(n, (size_t)SESSION_CHUNK_MAX), (size_t)(end - r->offset));
		pack_u32(&b, stream);
		pack_u64(&b, r->offset);
		pack_bytes(&b, bytes, n);
		caller_send(r->caller, SESSION_OUTPUT, r->tag, p->id, b.data, b.len);
		r->offset += n;
	}
	if (r->offset < end) {
		r->caller->starved = true; /* else nobody comes back once the queue is written */
		return true;
	}
	if (!r->follow) {
		caller_send(r->caller, SESSION_OK, r->tag, p->id, NULL, 0);
		return false;
	}
	if (p->state < PROCESS_LEFT)
		return true;
	send_exit(p, r);
	return false;
}

void process_feed_all(struct process *p)
{
	for (struct reader **at = &p->readers; *at;) {
		if (feed(p, *at))
			at = &(*at)->next;
		else
			process_free_reader(p, at);
	}
}

void process_pump(struct process *p)
{
	process_feed_all(p);
	process_set_events(p);
	if (p->state == PROCESS_EXITED)
		process_finish_if_drained(p);
}

int process_read(struct process *p, struct caller *c, uint32_t tag, uint64_t offset, unsigned how)
{
	bool screen = how & SESSION_READ_SCREEN && p->tty && p->state == PROCESS_RUNNING;

	if (how & SESSION_READ_END || screen)
		offset = p->log.end;
	if (offset > p->log.end || process_add_reader(p, c, tag, offset, false) < 0)
		return -EINVAL;
	p->readers->follow = how & SESSION_READ_FOLLOW;
	p->readers->until = p->log.end;
	if (screen)
		view_show(p, p->readers);
	process_pump(p);
	return 0;
}

void process_forget_caller(struct process *p, const struct caller *c)
{
	bool owned = false;

	for (struct reader **at = &p->readers; *at;) {
		if ((*at)->caller == c) {
			owned |= (*at)->owner;
			process_free_reader(p, at);
		} else {
			at = &(*at)->next;
		}
	}
	if (!owned)
		return;
	if (p->state == PROCESS_RUNNING)
		process_end(p, PROCESS_GRACE_MS); /* nobody waits for it any more */
	process_pump(p);
}
