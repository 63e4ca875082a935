/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of a ledger as a stranger may give them: commits, trees, stored objects, statements. What is
 * read is what is there. An event that nobody signed is never good, one of our own always is, and
 * never after a byte of it was changed; a damaged object is refused or has the same bytes.
 *
 * Input: what it is (c, t, l, s or w), then its bytes; of l and w first where it is changed (2 bytes),
 *        how, and what (w: envelope, commit, tree) or the size of a block.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "ledger/chain/dsse.h"
#include "ledger/chain/entry.h"
#include "ledger/chain/loose.h"
#include "ledger/chain/statement.h"
#include "place.h"

#define CHANGE_LEN 4u
#define OBJECT_MAX_B (1u << 20)
#define ENV_ID "0123456789abcdef"

/* ------------------------------------------------------------------ a place for objects */

static struct {
	struct git_store store;
	struct oid kept[16];
	size_t kept_n;
} place = {.store = {.objects_fd = -1}};

static void place_make(void)
{
	if (place.store.objects_fd >= 0)
		return;
	MUST(mkdirat(place_fd(), "objects", 0700) == 0);
	place.store.objects_fd = openat(place_fd(), "objects", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(place.store.objects_fd >= 0);
}

static struct oid keep(enum git_type t, const struct buf *b)
{
	struct err e = ERR_INIT;
	struct oid o;

	MUST(!b->failed && git_write(&place.store, t, buf_str(b), b->len, &o, &e) == 0);
	MUST(place.kept_n < ARRAY_SIZE(place.kept));
	place.kept[place.kept_n++] = o;
	return o;
}

static void drop_all(void)
{
	while (place.kept_n) {
		struct oid_hex hex = oid_hex(&place.kept[--place.kept_n]);
		char name[OID_HEX_MAX + 2];

		snprintf(name, sizeof(name), "%.2s/%s", hex.s, hex.s + 2);
		unlinkat(place.store.objects_fd, name, 0);
	}
}

static bool verdict(const struct oid *tip)
{
	const struct repo r = {.store = place_dir};
	struct ledger_verdict v;
	struct err e = ERR_INIT;

	MUST(ledger_verify(&r, tip, NULL, &v, &e) == 0);
	MUST(v.good == !v.why[0] && v.events == v.good);
	return v.good;
}

/* ------------------------------------------------------------------ commits and trees */

static void commit(const uint8_t *data, size_t size, enum git_hash h)
{
	cleanup_buf struct buf head = BUF_INIT(OBJECT_MAX_B);
	struct err e = ERR_INIT;
	struct commit_info c;

	if (git_commit_parse(data, size, h, &c, &e) < 0) {
		MUST(e.kind != ERR_NONE && e.msg[0]);
		return;
	}
	MUST(c.tree.n == git_hash_len(h) && !strchr(c.author, '\n') && !strchr(c.committer, '\n'));
	MUST(c.parents_n >= 0 && (size_t)c.parents_n <= ARRAY_SIZE(c.parents));
	buf_addf(&head, "tree %s\n", oid_hex(&c.tree).s);
	MUST(memmem(data, size, buf_str(&head), head.len));
	for (int i = 0; i < c.parents_n; i++) {
		buf_reset(&head);
		buf_addf(&head, "parent %s\n", oid_hex(&c.parents[i]).s);
		MUST(c.parents[i].n == c.tree.n && memmem(data, size, buf_str(&head), head.len));
	}
	commit_info_done(&c);
}

static void tree(const uint8_t *data, size_t size, enum git_hash h)
{
	size_t at = 0, before = 0, n = git_hash_len(h);
	struct tree_entry t;
	int r;

	while ((r = git_tree_next(data, size, h, &at, &t)) > 0) {
		const uint8_t *name = (const uint8_t *)t.name;

		MUST(at <= size && t.oid.n == n && memcmp(t.oid.v, data + at - n, n) == 0);
		MUST(name > data + before && name + t.name_n + 1 + n == data + at);
		MUST(t.name_n && !memchr(name, '/', t.name_n) && !name[t.name_n]);
		MUST(strtoul((const char *)data + before, NULL, 8) == t.mode);
		before = at;
	}
	MUST(r < 0 || at == size);
}

/* ------------------------------------------------------------------ stored objects */

static void add_block(struct buf *out, const char *p, size_t n, bool last)
{
	const uint8_t head[] = {
		last, (uint8_t)n, (uint8_t)(n >> 8), (uint8_t)~n, (uint8_t)(~n >> 8)};

	buf_add(out, head, sizeof(head));
	buf_add(out, p, n);
}

static void wrap(struct buf *out, const struct buf *all, size_t block)
{
	size_t at = 0;

	buf_add(out, "\x78\x01", 2);
	for (; all->len - at > block; at += block)
		add_block(out, all->data + at, block, false);
	add_block(out, all->data + at, all->len - at, true);
	buf_add(out, "sum?", 4);
}

/* Exactly as large, so that a sanitizer sees a read past the end. */
static int parse(const struct buf *file, size_t n, const struct oid *o, struct buf *ret)
{
	cleanup_free char *exact = malloc(n ? n : 1);

	MUST(exact);
	memcpy(exact, file->data, n);
	return loose_parse(exact, n, GIT_SHA1, o, GIT_BLOB, ret);
}

static void loose(const uint8_t *data, size_t size)
{
	cleanup_buf struct buf all = BUF_INIT(OBJECT_MAX_B), file = BUF_INIT(2 * OBJECT_MAX_B);
	cleanup_buf struct buf got = BUF_INIT(OBJECT_MAX_B);
	const uint8_t *body = data + CHANGE_LEN;
	size_t n, at;
	struct oid o;

	if (size < CHANGE_LEN)
		return;
	n = size - CHANGE_LEN;
	oid_of(&o, GIT_SHA1, GIT_BLOB, body, n);
	MUST(loose_parse(body, n, GIT_SHA1, &o, GIT_BLOB, &got) < 0);
	buf_addf(&all, "blob %zu", n);
	buf_addc(&all, '\0');
	buf_add(&all, body, n);
	wrap(&file, &all, 1u + data[3]);
	if (file.failed)
		return;
	MUST(parse(&file, file.len, &o, &got) == 0);
	MUST(got.len == n && memcmp(buf_str(&got), body, n) == 0);
	at = (data[0] | (size_t)data[1] << 8) % file.len;
	buf_reset(&got);
	MUST(parse(&file, at, &o, &got) < 0);
	file.data[at] = (char)(file.data[at] ^ data[2]);
	buf_reset(&got);
	if (parse(&file, file.len, &o, &got) == 0)
		MUST(got.len == n && memcmp(buf_str(&got), body, n) == 0);
}

/* ------------------------------------------------------------------ whole events */

static const struct ledger_key *own_key(void)
{
	/* RFC 8032, 7.1, test 1. */
	static struct ledger_key k = {
		.public = {0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7, 0xd5, 0x4b, 0xfe, 0xd3,
			0xc9, 0x64, 0x07, 0x3a, 0x0e, 0xe1, 0x72, 0xf3, 0xda, 0xa6, 0x23, 0x25,
			0xaf, 0x02, 0x1a, 0x68, 0xf7, 0x07, 0x51, 0x1a},
		.seed = {0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4,
			0x92, 0xec, 0x2c, 0xc4, 0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19,
			0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60}};

	digest_sha256(&k.id, k.public, sizeof(k.public));
	return &k;
}

/* Where a byte is changed, and of what; NULL: nowhere. */
static void change(struct buf *b, const uint8_t *how, unsigned what, size_t from, size_t to)
{
	if (how && how[3] % 3 == what && to > from)
		b->data[from + (how[0] | (size_t)how[1] << 8) % (to - from)] ^= (char)(how[2] | 1);
}

/* Tree and commit around an envelope; names of objects stay, so that all of them are there. */
static struct oid store_event(
	struct buf *envelope, int64_t seconds, const char *title, const uint8_t *how)
{
	cleanup_buf struct buf raw_tree = BUF_INIT(LEDGER_TREE_MAX_B);
	cleanup_buf struct buf raw = BUF_INIT(LEDGER_COMMIT_MAX_B);
	struct ledger_blob blob = {.name = LEDGER_STATEMENT};
	struct oid o;

	change(envelope, how, 0, 0, envelope->len);
	blob.oid = keep(GIT_BLOB, envelope);
	ledger_tree_text(&blob, 1, &raw_tree);
	change(&raw_tree, how, 2, 0, strlen("100644 " LEDGER_STATEMENT) + 1);
	o = keep(GIT_TREE, &raw_tree);
	ledger_commit_text(&o, &(struct oid){0}, seconds, title, &raw);
	MUST(!raw.failed);
	change(&raw, how, 1, strlen("tree \n") + 2 * (size_t)o.n, raw.len);
	return keep(GIT_COMMIT, &raw);
}

/* A statement that nobody signed: read with care, and never good. */
static void unsigned_statement(const uint8_t *data, size_t size)
{
	static const uint8_t sig[KEY_SIGNATURE_LEN] = {1};
	cleanup_buf struct buf envelope = BUF_INIT(DSSE_ENVELOPE_MAX_B);
	struct entry_source s = {.objects_fd = place.store.objects_fd, .git_dir = place_dir};
	cleanup_entry_raw struct entry_raw raw = {0};
	cleanup_entry struct ledger_entry x = {0};
	struct err e = ERR_INIT;
	struct timespec t;
	struct oid tip;

	dsse_write_signed(DSSE_INTOTO, data, size, own_key()->id.hex, sig, &envelope);
	if (envelope.failed)
		return;
	tip = store_event(&envelope, 0, "created", NULL);
	if (entry_load(&s, &tip, &raw, &x, &e) < 0) {
		MUST(e.kind != ERR_NONE && e.msg[0]);
	} else {
		MUST(x.seq >= 1 && x.seq <= INT64_MAX && ledger_id_valid(x.env_id) &&
			ledger_time_parse(x.time, &t));
		MUST(strlen(x.env_name) <= LEDGER_NAME_MAX && x.kind <= EVENT_NUM);
		MUST(raw.parents_n == 0 && raw.dsse.payload.len == size);
		MUST(memcmp(buf_str(&raw.dsse.payload), data, size) == 0);
	}
	MUST(!verdict(&tip));
}

/* An event as croft writes it, of any words. */
static bool own_statement(
	const uint8_t *data, size_t size, struct ledger_title *ret_title, struct buf *ret)
{
	cleanup_buf struct buf members = BUF_INIT(OBJECT_MAX_B);
	struct ledger_event ev = {.kind = EVENT_CREATED, .env_id = ENV_ID, .version = "1"};
	struct statement_place at = {.seq = 1, .key = own_key()->public};
	char name[21] = "", title[200] = "";
	struct err e = ERR_INIT;
	struct ledger_time t;
	struct json j;

	MUST(ledger_time_text(&ev.time, &t));
	memcpy(name, data, MIN_OF(size, sizeof(name) - 1));
	memcpy(title, data, MIN_OF(size, sizeof(title) - 1));
	ledger_title(title, ev.kind, ret_title);
	json_init(&j, &members, false);
	json_strn(&j, NULL, (const char *)data, size);
	if (members.failed)
		return false;
	ev.env_name = name;
	ev.predicate_type = PREDICATE_EVENT;
	at.time = t.s;
	at.title = ret_title->s;
	{
		cleanup_buf struct buf member = BUF_INIT(OBJECT_MAX_B);

		buf_addf(&member, "\"text\":%s", buf_str(&members));
		ev.predicate = buf_str(&member);
		return !member.failed && statement_write(&ev, &at, ret, &e) == 0;
	}
}

static void written(const uint8_t *data, size_t size)
{
	cleanup_buf struct buf statement = BUF_INIT(OBJECT_MAX_B);
	cleanup_buf struct buf envelope = BUF_INIT(DSSE_ENVELOPE_MAX_B);
	struct ledger_title title;
	struct oid tip;

	if (size < CHANGE_LEN ||
		!own_statement(data + CHANGE_LEN, size - CHANGE_LEN, &title, &statement))
		return;
	dsse_write(own_key(), DSSE_INTOTO, statement.data, statement.len, &envelope);
	tip = store_event(&envelope, 0, title.s, NULL);
	MUST(verdict(&tip));
	tip = store_event(&envelope, 0, title.s, data);
	MUST(!verdict(&tip));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	place_make();
	switch (data[0]) {
	case 'c':
		commit(data + 1, size - 1, GIT_SHA1);
		commit(data + 1, size - 1, GIT_SHA256);
		break;
	case 't':
		tree(data + 1, size - 1, GIT_SHA1);
		tree(data + 1, size - 1, GIT_SHA256);
		break;
	case 'l':
		loose(data + 1, size - 1);
		break;
	case 's':
		unsigned_statement(data + 1, size - 1);
		break;
	case 'w':
		written(data + 1, size - 1);
		break;
	default:
		break;
	}
	drop_all();
	return 0;
}
