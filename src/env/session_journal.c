/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's journal: its file, when to seal, its end. See session_journal.h; session_record.c writes the
 * records, session_seal.c makes events of them.
 */
#include "env/session_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "env/env_impl.h"
#include "env/session_journal_impl.h"
#include "os/clock.h"
#include "os/forced.h"
#include "os/path.h"
#include "os/tree.h"
#include "session/config/state.h"
#include "session/run/hidden.h"
#include "session/run/receipt_data.h"

#define SESSION_LEFT_MAX_B (1u << 20)
#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define ROTATE_B (16u << 20) /* by so much the file may have grown */

/* ---- the file ---- */

int sjournal_append_locked(struct sjournal *j, const struct sframe *f, struct err *e)
{
	unsigned char head[SFRAME_HEAD_LEN];
	struct iovec iov[1 + SFRAME_PARTS];
	size_t n = sframe_write(f, head, iov);
	ssize_t done;

	if (!n || j->log_b + n > SJOURNAL_LOG_MAX_B)
		return err_set(e, EFBIG, "write the journal of session %s", j->id);
	if (j->broken)
		return err_set(e, EIO, "write the journal of session %s", j->id);
	do {
		done = writev(j->log_fd, iov, 1 + SFRAME_PARTS);
	} while (done < 0 && errno == EINTR);
	if (done == (ssize_t)n) {
		j->log_b += n;
		return 0;
	}
	err_set(e, done < 0 ? errno : ENOSPC, "write the journal of session %s", j->id);
	/* Nothing may come after half a record: nobody would read it. */
	if (done > 0 && ftruncate(j->log_fd, (off_t)j->log_b) < 0)
		j->broken = true;
	return -e->errnum;
}

int sjournal_append(struct sjournal *j, const struct sframe *f, struct err *e)
{
	int r;

	pthread_mutex_lock(&j->lock);
	if (f->kind == SFRAME_STARTED)
		j->starts++;
	r = sjournal_append_locked(j, f, e);
	pthread_mutex_unlock(&j->lock);
	return r;
}

void sjournal_boot(char ret[SESSION_BOOT_MAX])
{
	cleanup_buf struct buf b = BUF_INIT(4096);

	ret[0] = '\0';
	if (forced_fail("boot-id") || file_read_at(AT_FDCWD, BOOT_ID, &b) < 0)
		return;
	snprintf(ret, SESSION_BOOT_MAX, "%.*s", (int)strcspn(buf_str(&b), "\n"), buf_str(&b));
}

static void head_json(const struct sjournal *j, struct buf *out)
{
	struct json w;
	char when[40];

	json_init(&w, out, false);
	json_object(&w, NULL);
	json_str(&w, "session", j->id);
	json_str(&w, "boot", j->boot);
	json_str(&w, "begin", j->begin);
	json_uint(&w, "next", j->first ? j->first->no : j->batch_next);
	env_time_text(&j->settled, when);
	json_str(&w, "settled", when);
	sranges_json(&j->alive, &w, "alive");
	json_array(&w, "running");
	for (size_t i = 0; i < j->running_n; i++) {
		json_object(&w, NULL);
		json_uint(&w, "process", j->running[i].id);
		json_str(&w, "run", j->running[i].run);
		json_bool(&w, "test", j->running[i].test);
		json_end(&w);
	}
	json_end(&w);
	json_end(&w);
}

int sjournal_head(struct sjournal *j, int log_fd, uint64_t *ret_b, struct err *e)
{
	cleanup_buf struct buf text = BUF_INIT(SESSION_TEXT_MAX_B);
	struct sframe f = {.kind = SFRAME_SESSION};
	unsigned char head[SFRAME_HEAD_LEN];
	struct iovec iov[1 + SFRAME_PARTS];
	size_t n;

	head_json(j, &text);
	if (text.failed)
		return err_set(e, E2BIG, "write the journal of session %s", j->id);
	f.part[0] = (struct sframe_part){buf_str(&text), text.len};
	n = sframe_write(&f, head, iov);
	if (!n || writev(log_fd, iov, 1 + SFRAME_PARTS) != (ssize_t)n)
		return err_set(e, ENOSPC, "write the journal of session %s", j->id);
	*ret_b = n;
	return 0;
}

static int open_log(const struct sjournal *j, const char *name)
{
	return openat(j->dir_fd, name,
		O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* Everything in it is in the ledger: go on with a file that says only what still runs. */
static int begin_anew(struct sjournal *j, struct err *e)
{
	cleanup_fd int fd = open_log(j, SESSION_LOG ".new");
	uint64_t b = 0;
	int r = fd < 0 ? err_set(e, errno, "write the journal of session %s", j->id)
		       : sjournal_head(j, fd, &b, e);

	if (r < 0)
		return r;
	if (renameat(j->dir_fd, SESSION_LOG ".new", j->dir_fd, SESSION_LOG) < 0)
		return err_set(e, errno, "write the journal of session %s", j->id);
	pthread_mutex_lock(&j->lock);
	close_fd(&j->log_fd);
	j->log_fd = take_fd(&fd);
	j->log_b = j->log_first_b = b;
	j->broken = false;
	pthread_mutex_unlock(&j->lock);
	return 0;
}

static int make_dir(struct sjournal *j, struct err *e)
{
	cleanup_fd int all = -1;

	if (mkdirat(j->env->dir_fd, "journal", 0700) < 0 && errno != EEXIST)
		return err_set(e, errno, "make the journal of %s", j->env->name);
	all = openat(j->env->dir_fd, "journal", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (all < 0 || mkdirat(all, j->dir, 0700) < 0)
		return err_set(e, errno, "make the journal of session %s", j->id);
	j->dir_fd = openat(all, j->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return j->dir_fd < 0 ? err_set(e, errno, "open the journal of session %s", j->id) : 0;
}

static int remove_dir(struct sjournal *j, struct err *e)
{
	cleanup_buf struct buf path = BUF_INIT(256);

	buf_addf(&path, "journal/%s", j->dir);
	return tree_remove_at(j->env->dir_fd, buf_str(&path)) < 0
		       ? err_set(e, errno, "remove the journal of session %s", j->id)
		       : 0;
}

/* ---- life ---- */

struct sjournal *sjournal_new(struct env *v, const char *id)
{
	struct sjournal *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->env = v;
	snprintf(j->id, sizeof(j->id), "%s", id);
	snprintf(j->dir, sizeof(j->dir), SESSION_DIR_PREFIX "%s", id);
	j->dir_fd = j->log_fd = -1;
	j->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	j->batch_next = 1;
	redact_init(&j->hidden);
	pthread_mutex_init(&j->lock, NULL);
	if (j->event_fd < 0) {
		sjournal_free(j);
		return NULL;
	}
	return j;
}

void sjournal_free(struct sjournal *j)
{
	if (!j)
		return;
	while (j->first) {
		struct sbatch *next = j->first->next;

		sbatch_free(j->first);
		j->first = next;
	}
	pthread_mutex_destroy(&j->lock);
	redact_done(&j->hidden);
	sranges_done(&j->alive);
	sranges_done(&j->job.alive);
	sranges_done(&j->job.running);
	free(j->running);
	free(j->begin);
	free(j->left);
	close_fd(&j->dir_fd);
	close_fd(&j->log_fd);
	close_fd(&j->event_fd);
	free(j);
}

int sjournal_learn(struct sjournal *j, struct err *e)
{
	return hidden_know_stored(&j->hidden, &j->stored, e);
}

/* Member "begin" of the first event. */
static int begin_json(struct sjournal *j, const struct sjournal_session *s, struct err *e)
{
	cleanup_buf struct buf plain = BUF_INIT(SJOURNAL_ENTRIES_MAX_B / 2),
			       clean = BUF_INIT(SJOURNAL_ENTRIES_MAX_B / 2);
	const struct {
		const char *name, *value;
	} m[] = {{"tier", s->tier}, {"policy", s->policy_digest}, {"enforced", s->enforced_digest},
		{"label", s->label}};
	struct json w;
	char when[40];
	int r;

	env_time_text(&j->started, when);
	json_init(&w, &plain, false);
	json_object(&w, NULL);
	json_str(&w, "time", when);
	for (size_t i = 0; i < ARRAY_SIZE(m); i++)
		if (m[i].value)
			json_str(&w, m[i].name, m[i].value);
	if (s->degradations)
		json_list(&w, "degradations", s->degradations);
	json_end(&w);
	r = plain.failed ? -E2BIG : redact_json(&j->hidden, buf_str(&plain), plain.len, &clean);
	j->begin = r == 0 ? buf_take(&clean) : NULL;
	return j->begin ? 0 : err_set(e, r ? -r : ENOMEM, "begin session %s", j->id);
}

static int begin(struct sjournal *j, const struct sjournal_session *s, struct err *e)
{
	static const struct policy none;
	int r = env_need_ledger(j->env, e);

	sjournal_boot(j->boot);
	env_now(&j->started);
	j->settled = j->started;
	if (r == 0)
		r = hidden_know(&j->hidden, s->policy ? s->policy : &none, e);
	if (r == 0)
		r = begin_json(j, s, e);
	if (r == 0)
		r = make_dir(j, e);
	if (r == 0)
		r = begin_anew(j, e);
	if (r == 0 && !s->brief)
		r = sbatch_room(j, 0, 0, 0) ? sseal_begin(j, false, false, false, e)
					    : err_set(e, ENOMEM, "begin session %s", j->id);
	return r;
}

int sjournal_open(
	struct sjournal **ret, struct env *v, const struct sjournal_session *s, struct err *e)
{
	struct sjournal *j;
	struct err ignored = ERR_INIT;
	int r;

	if (!str_hex(s->id, 1, SJOURNAL_ID_MAX))
		return err_invalid(e, "the id of a session is made of hexadecimal digits");
	j = sjournal_new(v, s->id);
	if (!j)
		return err_set(e, ENOMEM, "begin session %s", s->id);
	r = begin(j, s, e);
	if (r < 0) {
		if (j->dir_fd >= 0)
			remove_dir(j, &ignored);
		sjournal_free(j);
		return r;
	}
	snprintf(v->session, sizeof(v->session), "%s", s->id);
	*ret = j;
	return 0;
}

/* ---- when to seal ---- */

int sjournal_fd(const struct sjournal *j)
{
	return j->event_fd;
}

bool sjournal_busy(const struct sjournal *j)
{
	return j->busy;
}

uint64_t sjournal_due_ms(const struct sjournal *j)
{
	uint64_t due;

	if (j->busy || !j->first)
		return UINT64_MAX;
	due = j->first != j->last || j->first->entries_n >= SJOURNAL_BATCH_MAX / 2
		      ? 0
		      : j->first->first_ms + SJOURNAL_SEAL_MS;
	return MAX_OF(due, j->retry_ms);
}

static int seal_all(struct sjournal *j, bool settle, bool quiescent, struct err *e)
{
	int r = 0;

	while (r == 0 && j->first) {
		r = sseal_begin(j, settle && j->first == j->last, quiescent, true, e);
		if (r == 0)
			r = sseal_finish(j, e);
	}
	return r;
}

/*
 * After a batch: a file that has grown is begun anew. All of it must be in the ledger then; under a steady
 * load there is always a little more that waits, so that is sealed without a thread.
 */
static int finish(struct sjournal *j, struct err *e)
{
	int r = sseal_finish(j, e);

	if (r < 0 || j->log_b <= j->log_first_b + ROTATE_B)
		return r;
	r = seal_all(j, false, false, e);
	return r < 0 ? r : begin_anew(j, e);
}

int sjournal_poll(struct sjournal *j, bool quiescent, struct err *e)
{
	struct pollfd p = {.fd = j->event_fd, .events = POLLIN};
	int r = 0;

	if (j->busy && poll(&p, 1, 0) > 0)
		r = finish(j, e);
	if (r == 0 && sjournal_due_ms(j) <= clock_ms())
		r = sjournal_seal(j, quiescent, e);
	return r;
}

uint64_t sjournal_recorded(const struct sjournal *j, struct oid *ret_tree)
{
	*ret_tree = j->tree;
	return j->tip_seq;
}

int sjournal_seal(struct sjournal *j, bool quiescent, struct err *e)
{
	/* The tree is what it is after all that waits, so only the last batch can tell of it. */
	bool settle = quiescent && j->first == j->last && !j->running_n;

	if (j->busy || !j->first)
		return 0;
	return sseal_begin(j, settle, true, false, e);
}

int sjournal_wait(struct sjournal *j, struct err *e)
{
	return j->busy ? finish(j, e) : 0;
}

int sjournal_flush(struct sjournal *j, bool quiescent, struct err *e)
{
	int r = sjournal_wait(j, e);

	/* A batch of its own tells of the tree when commands have run since the last look at it. */
	if (r == 0 && !j->first && j->alive.n && !sbatch_room(j, 0, 0, 0))
		r = err_set(e, ENOMEM, "record the tree");
	if (r == 0)
		r = seal_all(j, true, quiescent, e);
	return r;
}

/* ---- the end ---- */

/* What the gateway wrote down, as far as it fits, in whole lines. */
static int add_network(struct sjournal *j, struct err *e)
{
	cleanup_buf struct buf path = BUF_INIT(4096), raw = BUF_INIT(SESSION_NETWORK_MAX_B),
			       clean = BUF_INIT(SESSION_TEXT_MAX_B);
	struct sframe f = {.kind = SFRAME_NETWORK};
	struct err ignored = ERR_INIT;
	struct sbatch *b;
	char *end;
	int r;

	buf_addf(&path, "%s/runs/%s.net.jsonl", j->env->state_dir, j->id);
	r = file_read_at(AT_FDCWD, buf_str(&path), &raw);
	if (r < 0 && r != -EFBIG)
		return r == -ENOENT ? 0 : err_set(e, -r, "read the network journal");
	end = raw.len ? memrchr(raw.data, '\n', raw.len) : NULL;
	if (!end)
		return 0;
	if ((r = sjournal_learn(j, e)) < 0)
		return r;
	hidden_lines(&j->hidden, raw.data, (size_t)(end + 1 - raw.data), &clean);
	b = clean.failed ? NULL : sbatch_room(j, 0, 0, 0);
	if (!b)
		return err_set(e, ENOMEM, "record the network");
	f.batch = b->no;
	f.part[0] = (struct sframe_part){buf_str(&clean), clean.len};
	r = sjournal_append(j, &f, e);
	if (r < 0)
		return r;
	buf_add(&b->network, buf_str(&clean), clean.len);
	state_hide_journal(j->env->home, j->id, &j->hidden, &ignored); /* else it is gone */
	return 0;
}

/* Nothing is left out in silence: when names are too long for it, their number is told. */
static void left_json(const struct receipt *r, bool names, struct buf *out)
{
	static const struct planted none;
	struct planted numbers = {.beyond = r->planted.n + r->planted.beyond,
		.looked = r->planted.looked,
		.partly = true};
	struct json w;

	json_init(&w, out, false);
	json_object(&w, NULL);
	json_object(&w, "files");
	planted_json(!r->planted.looked ? &none : names ? &r->planted : &numbers, &w);
	json_end(&w);
	json_array(&w, "degradations");
	for (size_t i = r->left_from; i < r->degradations.n; i++)
		json_str(&w, NULL, r->degradations.v[i]);
	json_end(&w);
	json_end(&w);
}

int sjournal_left(struct sjournal *j, const struct receipt *r, struct err *e)
{
	cleanup_buf struct buf plain = BUF_INIT(SESSION_LEFT_MAX_B), clean = BUF_INIT(SESSION_LEFT_MAX_B);
	int rc;

	if (!r->planted.n && !r->planted.beyond && r->left_from >= r->degradations.n)
		return 0;
	if (sjournal_learn(j, e) < 0)
		return -e->errnum;
	left_json(r, true, &plain);
	if (plain.failed) {
		buf_reset(&plain);
		left_json(r, false, &plain);
	}
	rc = plain.failed ? -E2BIG : redact_json(&j->hidden, buf_str(&plain), plain.len, &clean);
	j->left = rc == 0 ? buf_take(&clean) : NULL;
	return j->left ? 0 : err_set(e, rc ? -rc : ENOMEM, "record what session %s left", j->id);
}

static int end_all(struct sjournal *j, struct err *e)
{
	struct sbatch *b;
	int r = sjournal_wait(j, e);

	while (r == 0 && j->running_n)
		r = sjournal_entry(j, j->running[0].id, "interrupted",
			"the session ended before the command did", e);
	if (r == 0)
		r = add_network(j, e);
	/* A session of one command that never came to be leaves nothing. */
	if (r < 0 || (j->batch_next == 1 && !j->first))
		return r;
	b = sbatch_room(j, 0, 0, 0);
	if (!b)
		return err_set(e, ENOMEM, "end session %s", j->id);
	b->end = true;
	return sjournal_flush(j, true, e);
}

int sjournal_close(struct sjournal *j, struct err *e)
{
	int r = end_all(j, e);

	j->env->session[0] = '\0';
	if (r == 0)
		r = remove_dir(j, e);
	sjournal_free(j);
	return r;
}

void sjournal_leave(struct sjournal *j)
{
	struct err ignored = ERR_INIT; /* then the record has less */

	if (sjournal_wait(j, &ignored) == 0)
		add_network(j, &ignored);
	sjournal_abandon(j);
}

void sjournal_abandon(struct sjournal *j)
{
	struct err ignored = ERR_INIT;

	sjournal_wait(j, &ignored);
	j->env->session[0] = '\0';
	sjournal_free(j);
}
