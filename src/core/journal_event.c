/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a journal to an event of the ledger.
 *
 * What the event will say is written down before it is said: event.json holds kind, time, predicate
 * and subjects, and the files of the event lie beside it under the names they will have. Appending reads
 * only these, so whoever does it, and however often, makes the same event.
 */
#include "core/journal_event.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/jsonread.h"
#include "core/env_impl.h"
#include "core/secret.h"
#include "ledger/predicate.h"
#include "ledger/redact.h"
#include "os/path.h"

#define EVENT_MAX_B (32u << 20)
#define NETWORK_MAX_B (4u << 20)

/* The files an event of a command may have, in this order. */
static const char *const event_files[] = {
	"receipt.json", "stdout.txt", "stderr.txt", "output.txt", "network.jsonl"};

/* ---- what is known and what is secret ---- */

static bool looks_secret(const char *name, size_t n)
{
	static const char *const words[] = {"TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL",
		"API_KEY", "APIKEY", "PRIVATE"};
	char upper[128];

	if (n >= sizeof(upper))
		return false;
	for (size_t i = 0; i < n; i++)
		upper[i] = (char)(name[i] >= 'a' && name[i] <= 'z' ? name[i] - 32 : name[i]);
	upper[n] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strstr(upper, words[i]))
			return true;
	return false;
}

static int know(struct redact *r, const char *name, const char *value, struct err *e)
{
	if (!value || strlen(value) < 8 || !looks_secret(name, strlen(name)))
		return 0;
	return redact_add(r, name, value, e);
}

static int know_stored(void *arg, const char *name, const struct secret *value)
{
	struct err e = ERR_INIT;
	char text[SECRET_MAX_B + 1];
	int r;

	if (value->len >= sizeof(text))
		return -EBADMSG;
	memcpy(text, value->data, value->len);
	text[value->len] = '\0';
	r = redact_add(arg, name, text, &e);
	explicit_bzero(text, sizeof(text));
	return r;
}

/* Stored secrets, and variables that the policy hands to the command and whose names say so. */
static int know_values(struct redact *r, const struct policy *p, struct err *e)
{
	for (size_t i = 0; i < p->env_set_n; i++)
		if (know(r, p->env_set[i].name, p->env_set[i].value, e) < 0)
			return -e->errnum;
	for (size_t i = 0; i < p->env_pass.n; i++)
		if (know(r, p->env_pass.v[i], getenv(p->env_pass.v[i]), e) < 0)
			return -e->errnum;
	if (secret_each(know_stored, r, e) < 0)
		return e->errnum ? -e->errnum
				 : err_set(e, ENOMEM, "take secrets out of the output");
	return 0;
}

static void redact_command(struct redact *rd, struct receipt *r)
{
	for (size_t i = 0; i < r->command.n; i++) {
		cleanup_buf struct buf b = BUF_INIT(EVENT_MAX_B);
		char *fresh;

		redact_text(rd, r->command.v[i], strlen(r->command.v[i]), &b);
		fresh = buf_take(&b);
		if (fresh) {
			free(r->command.v[i]);
			r->command.v[i] = fresh;
		}
	}
}

/* ---- sealing ---- */

struct seal {
	struct journal *journal;
	struct env *env;
	struct receipt *receipt;
	struct redact redact;
	struct predicate_output output;
};

/* On the disk when event.json is: that one also syncs the directory. */
static int put_file(struct seal *s, const char *name, const void *p, size_t n, struct err *e)
{
	cleanup_fd int fd = openat(s->journal->dir_fd, name,
		O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0 || fd_write_all(fd, p, n) < 0 || fdatasync(fd) < 0)
		return err_set(e, errno, "write the journal of %s", s->env->name);
	return 0;
}

static int seal_output(struct seal *s, enum capture_stream which, const char *name, struct err *e)
{
	const struct capture_file *f = &s->journal->capture.file[which];
	cleanup_buf struct buf raw = BUF_INIT(CAPTURE_HEAD_B + CAPTURE_TAIL_B + 4096);
	cleanup_buf struct buf clean = BUF_INIT(EVENT_MAX_B);
	int r;

	if (f->fd < 0 || f->bytes == 0)
		return 0;
	if (lseek(f->fd, 0, SEEK_SET) < 0)
		return err_set(e, errno, "read captured output");
	r = file_read_fd(f->fd, &raw);
	if (r < 0)
		return err_set(e, -r, "read captured output");
	redact_text(&s->redact, raw.data, raw.len, &clean);
	s->output.captured = true;
	s->output.bytes += f->bytes;
	s->output.truncated = s->output.truncated || f->cut > 0;
	return put_file(s, name, buf_str(&clean), clean.len, e);
}

/* What the gateway wrote down, as far as it fits. */
static int seal_network(struct seal *s, struct err *e)
{
	cleanup_buf struct buf path = BUF_INIT(4096), text = BUF_INIT(NETWORK_MAX_B);
	cleanup_fd int fd = -1;
	char *end;

	buf_addf(&path, "%s/runs/%s.net.jsonl", s->env->state_dir, s->receipt->id);
	fd = open(buf_str(&path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno == ENOENT ? 0 : err_set(e, errno, "read the network journal");
	for (;;) {
		char part[65536];
		ssize_t n = read(fd, part, MIN_OF(sizeof(part), text.max - text.len));

		if (n <= 0)
			break;
		buf_add(&text, part, (size_t)n);
		if (text.len == text.max)
			break;
	}
	end = text.len ? memrchr(text.data, '\n', text.len) : NULL; /* whole lines only */
	return end ? put_file(s, "network.jsonl", text.data, (size_t)(end + 1 - text.data), e) : 0;
}

static void event_json(struct seal *s, const char *members, const struct oid *tree,
	const struct timespec *now, struct buf *out)
{
	struct json j;

	json_init(&j, out, false);
	json_object(&j, NULL);
	json_str(&j, "kind", event_names[EVENT_EXEC]);
	json_int(&j, "seconds", now->tv_sec);
	json_int(&j, "nanoseconds", now->tv_nsec);
	json_str(&j, "type", s->journal->as_test ? PREDICATE_TEST : PREDICATE_TRACE);
	json_str(&j, "predicate", members);
	json_str(&j, "tree", oid_is_none(tree) ? NULL : oid_hex(tree).s);
	json_strf(&j, "title", "%s%s: exit %d", s->journal->as_test ? "test " : "exec ",
		s->receipt->command.n ? s->receipt->command.v[0] : "", s->receipt->exit_code);
	json_end(&j);
}

/* Names this machine to itself: the same every time, and telling nobody which one it is. */
static void host_id(struct digest *ret)
{
	cleanup_buf struct buf b = BUF_INIT(256);

	buf_adds(&b, "croft host ");
	if (file_read_at(AT_FDCWD, "/etc/machine-id", &b) < 0)
		buf_adds(&b, "unknown");
	digest_sha256(ret, buf_str(&b), b.len);
}

static int seal_event(struct seal *s, struct err *e)
{
	cleanup_buf struct buf receipt = BUF_INIT(RECEIPT_JSON_MAX),
			       members = BUF_INIT(EVENT_MAX_B), event = BUF_INIT(EVENT_MAX_B);
	cleanup_changes struct changes c = {0};
	cleanup_jdoc struct jdoc *doc = NULL;
	struct predicate_exec x = {.run_id = s->receipt->id, .output = s->output};
	struct digest host;
	struct timespec now;
	struct oid_hex tree;
	char started[40], finished[40];
	int r;

	receipt_json(s->receipt, &receipt, true);
	if (receipt.failed)
		return err_set(e, E2BIG, "the receipt of run %s", s->receipt->id);
	if (jdoc_parse(&doc, receipt.data, receipt.len, e) < 0 ||
		put_file(s, "receipt.json", receipt.data, receipt.len, e) < 0 ||
		env_settle(s->env, &c, e) < 0)
		return -e->errnum;
	host_id(&host);
	env_now(&now);
	env_time_text(&s->receipt->started, started);
	env_time_text(&now, finished);
	tree = oid_hex(&c.tree);
	x.receipt = jdoc_root(doc);
	x.host_id = host.hex;
	x.started = started;
	x.finished = finished;
	x.tree_after = *tree.s ? tree.s : NULL;
	x.output.redactions = &s->redact;
	(s->journal->as_test ? predicate_test : predicate_trace)(&x, &members);
	if (members.failed)
		return err_set(e, E2BIG, "the record of run %s", s->receipt->id);
	event_json(s, buf_str(&members), &c.tree, &now, &event);
	r = file_replace_synced_at(s->journal->dir_fd, "event.json", event.data, event.len, 0600);
	return r < 0 ? err_set(e, -r, "write the journal of %s", s->env->name) : 0;
}

int journal_seal(struct journal *j, struct env *v, struct receipt *r, struct err *e)
{
	struct seal s = {.journal = j, .env = v, .receipt = r};
	int rc;

	redact_init(&s.redact);
	rc = know_values(&s.redact, &r->policy, e);
	if (rc == 0) {
		redact_command(&s.redact, r);
		rc = seal_output(
			&s, CAPTURE_OUT, j->capture.terminal ? "output.txt" : "stdout.txt", e);
	}
	if (rc == 0)
		rc = seal_output(&s, CAPTURE_ERR, "stderr.txt", e);
	if (rc == 0)
		rc = seal_network(&s, e);
	if (rc == 0)
		rc = seal_event(&s, e);
	redact_done(&s.redact);
	return rc;
}

/* ---- appending ---- */

/* The event's files, in memory; texts[] owns them. */
static int load_files(int dir, struct ledger_event *ev, struct buf *texts, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(event_files); i++) {
		int r = file_read_at(dir, event_files[i], &texts[i]);

		if (r == -ENOENT)
			continue;
		if (r < 0)
			return err_set(e, -r, "read the journal");
		ev->files[ev->files_n++] =
			(struct ledger_file){event_files[i], buf_str(&texts[i]), texts[i].len};
	}
	return 0;
}

static int append(struct env *v, int dir, struct ledger_event *ev, struct err *e)
{
	struct buf texts[ARRAY_SIZE(event_files)];
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		texts[i] = BUF_INIT(LEDGER_FILE_MAX_B);
	r = load_files(dir, ev, texts, e);
	if (r == 0)
		r = env_event(v, ev, e);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		buf_done(&texts[i]);
	return r;
}

int journal_event(struct env *v, int dir, const char *run_id, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(EVENT_MAX_B);
	cleanup_jdoc struct jdoc *d = NULL;
	struct ledger_event ev = {
		.kind = EVENT_EXEC, .env_id = v->id, .env_name = v->name, .run_id = run_id};
	const struct jnode *root;
	const char *tree;
	int64_t sec = 0, nsec = 0;
	int r = file_read_at(dir, "event.json", &b);

	if (r < 0)
		return err_set(e, -r, "read the journal of run %s", run_id);
	if (jdoc_parse(&d, b.data, b.len, e) < 0)
		return err_wrap(e, "the journal of run %s is damaged", run_id);
	root = jdoc_root(d);
	ev.predicate_type = jstr(jget(root, "type"));
	ev.predicate = jstr(jget(root, "predicate"));
	ev.title = jstr(jget(root, "title"));
	tree = jstr(jget(root, "tree"));
	if (!ev.predicate_type || !ev.predicate || !ev.title ||
		!jint(jget(root, "seconds"), &sec) || !jint(jget(root, "nanoseconds"), &nsec))
		return err_set(e, EBADMSG, "the journal of run %s is damaged", run_id);
	ev.time = (struct timespec){sec, (long)nsec};
	if (tree)
		ev.subjects[ev.subjects_n++] =
			(struct ledger_subject){"workspace", "gitTree", tree};
	return append(v, dir, &ev, e);
}

/* ---- a supervisor that died ---- */

/* Raw output that was captured before: secrets out, under the event's names. */
static void salvage(int dir, const char *from, const char *to)
{
	cleanup_buf struct buf raw = BUF_INIT(CAPTURE_HEAD_B + CAPTURE_TAIL_B + 4096);
	cleanup_buf struct buf clean = BUF_INIT(EVENT_MAX_B);
	struct redact rd;

	if (file_read_at(dir, from, &raw) < 0 || raw.len == 0)
		return;
	redact_init(&rd);
	redact_text(&rd, raw.data, raw.len, &clean);
	redact_done(&rd);
	file_replace_at(dir, to, buf_str(&clean), clean.len, 0600);
}

int journal_interrupted(struct env *v, int dir, const char *run_id, struct err *e)
{
	cleanup_buf struct buf started = BUF_INIT(EVENT_MAX_B), members = BUF_INIT(EVENT_MAX_B);
	cleanup_jdoc struct jdoc *d = NULL;
	struct ledger_event ev = {.kind = EVENT_INTERRUPTED,
		.env_id = v->id,
		.env_name = v->name,
		.run_id = run_id,
		.predicate_type = PREDICATE_TRACE,
		.title = "a command that was cut short"};
	struct predicate_exec x = {.run_id = run_id, .note = "croft ended before the command did"};
	cleanup_free const char **argv = NULL;
	const struct jnode *command;
	int r = file_read_at(dir, "started.json", &started);

	if (r < 0)
		return err_set(e, -r, "read the journal of run %s", run_id);
	if (jdoc_parse(&d, started.data, started.len, e) < 0)
		return err_wrap(e, "the journal of run %s is damaged", run_id);
	command = jget(jdoc_root(d), "command");
	salvage(dir, "stdout", "stdout.txt");
	salvage(dir, "stderr", "stderr.txt");
	x.argv = argv = calloc(jlen(command) + 1, sizeof(*argv));
	for (size_t i = 0; argv && i < jlen(command); i++)
		argv[i] = jstr(jat(command, i)) ? jstr(jat(command, i)) : "";
	x.started = jstr(jget(jdoc_root(d), "started"));
	x.policy_digest = jstr(jget(jdoc_root(d), "policy"));
	predicate_trace(&x, &members);
	env_now(&ev.time);
	ev.predicate = buf_str(&members);
	return append(v, dir, &ev, e);
}
