/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions that a crash cut off, from their journals: see session_journal.h.
 *
 * Order:   the file is read up to the first record that is not whole, and cut off there -> what the
 *          ledger has is left out -> processes that had not ended are interrupted -> all of it is sealed,
 *          and the session ended -> the journal goes. A crash in between leaves a journal that is read in
 *          the same way.
 * Power:   what is in the file survives any kill -9, but not a power cut: the kernel may not have sent its
 *          end to the disk. If the machine was started anew since, or the file has no beginning, nobody knows
 *          what is missing, and the session stays without an end: verifying says "interrupted".
 * Trust:   the file is the user's own; what does not fit together ends the reading like a torn record.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "env/env_impl.h"
#include "env/session_journal_impl.h"
#include "ledger/chain/statement.h"
#include "os/path.h"
#include "os/tree.h"
#include "session/config/state.h"

/* ---- reading ---- */

static bool add_running(struct sjournal *j, uint32_t process, const char *run, bool test)
{
	struct sprocess *more;

	if (j->running_n >= SJOURNAL_RUNNING_MAX || !run || strlen(run) >= sizeof(more->run))
		return false;
	more = reallocarray(j->running, j->running_n + 1, sizeof(*more));
	if (!more)
		return false;
	j->running = more;
	j->running_cap = j->running_n + 1;
	more[j->running_n] = (struct sprocess){.id = process, .test = test};
	snprintf(more[j->running_n++].run, sizeof(more->run), "%s", run);
	return true;
}

static bool drop_running(struct sjournal *j, uint32_t process)
{
	for (size_t i = 0; i < j->running_n; i++)
		if (j->running[i].id == process) {
			j->running[i] = j->running[--j->running_n];
			return true;
		}
	return false;
}

static bool number32(const struct jnode *n, uint32_t *ret)
{
	int64_t v;

	if (!jint(n, &v) || v < 0 || v > UINT32_MAX)
		return false;
	*ret = (uint32_t)v;
	return true;
}

static bool read_head(struct sjournal *j, const struct sframe *f)
{
	cleanup_jdoc struct jdoc *d = NULL;
	struct err ignored = ERR_INIT;
	const struct jnode *root, *list;
	const char *id, *begin, *settled, *boot;
	uint32_t a, b;

	if (jdoc_parse(&d, f->part[0].p, f->part[0].n, &ignored) < 0)
		return false;
	root = jdoc_root(d);
	id = jstr(jget(root, "session"));
	begin = jstr(jget(root, "begin"));
	settled = jstr(jget(root, "settled"));
	boot = jstr(jget(root, "boot"));
	snprintf(j->boot, sizeof(j->boot), "%s", boot ? boot : "");
	if (!id || !str_eq(id, j->id) || !begin || !settled ||
		!ledger_time_parse(settled, &j->settled) ||
		!number32(jget(root, "next"), &j->batch_next) || !j->batch_next)
		return false;
	list = jget(root, "alive");
	for (size_t i = 0; i < jlen(list); i++) {
		struct srange range;
		struct sranges one = {&range, 1, 1, false};

		if (!number32(jat(jat(list, i), 0), &a) || !number32(jat(jat(list, i), 1), &b) ||
			b < a)
			return false;
		range = (struct srange){a, b};
		if (!sranges_join(&j->alive, &one))
			return false;
	}
	list = jget(root, "running");
	for (size_t i = 0; i < jlen(list); i++)
		if (!number32(jget(jat(list, i), "process"), &a) ||
			!add_running(j, a, jstr(jget(jat(list, i), "run")),
				jtrue(jget(jat(list, i), "test"))))
			return false;
	j->begin = strdup(begin);
	return j->begin != NULL;
}

static bool add_batch(struct sjournal *j)
{
	struct sbatch *full = j->last, *b;
	bool end = full && full->end;

	if (full)
		full->end = true;
	b = sbatch_room(j, 0, 0, 0);
	if (full)
		full->end = end;
	return b != NULL;
}

/*
 * The batch of this number: the last, or the one after it. One without entries (the session began, or a look
 * at the tree) is first named by its SFRAME_SEAL, which a thread may write after the first entry of the next.
 */
static struct sbatch *batch_at(struct sjournal *j, uint32_t no)
{
	for (struct sbatch *b = j->first; b; b = b->next)
		if (b->no == no)
			return b;
	if (no != j->batch_next && no - 1 != j->batch_next)
		return NULL;
	while (j->batch_next <= no)
		if (!add_batch(j))
			return NULL;
	return j->last;
}

static bool add_part(struct buf *to, const struct sframe_part *p)
{
	if (p->n)
		buf_add(to, p->p, p->n);
	return !to->failed;
}

/* The run of a started process is in its entry. */
static bool read_started(struct sjournal *j, const struct sframe *f)
{
	cleanup_jdoc struct jdoc *d = NULL;
	struct err ignored = ERR_INIT;

	if (jdoc_parse(&d, f->part[0].p, f->part[0].n, &ignored) < 0)
		return false;
	return sranges_add(&j->alive, f->process) &&
	       add_running(j, f->process, jstr(jget(jdoc_root(d), "run")),
		       jtrue(jget(jdoc_root(d), "test")));
}

static bool read_entry(struct sjournal *j, const struct sframe *f)
{
	struct sbatch *b = batch_at(j, f->batch);

	if (!b || b->seal.len || f->entry != b->entries_n + 1 || !f->part[0].n)
		return false;
	if (f->kind == SFRAME_STARTED ? !read_started(j, f) : !drop_running(j, f->process))
		return false;
	b->started_n += f->kind == SFRAME_STARTED;
	b->ended_n += f->kind == SFRAME_ENDED;
	if (b->entries_n++)
		buf_addc(&b->entries, ',');
	if (f->kind == SFRAME_ENDED && f->part[1].n) {
		b->receipts_n++;
		add_part(&b->receipts, &f->part[1]);
	}
	if (f->kind == SFRAME_ENDED)
		add_part(&b->outputs, &f->part[2]);
	return add_part(&b->entries, &f->part[0]) && !b->receipts.failed && !b->outputs.failed;
}

/* Where a look at the tree was taken, a new interval begins: with what runs, and with what came later. */
static bool read_seal(struct sjournal *j, const struct sframe *f)
{
	struct sbatch *b = batch_at(j, f->batch);
	cleanup_jdoc struct jdoc *d = NULL;
	struct err ignored = ERR_INIT;
	int64_t sec = 0, nsec = 0;

	if (!b || b->seal.len || !add_part(&b->seal, &f->part[0]) ||
		jdoc_parse(&d, f->part[0].p, f->part[0].n, &ignored) < 0)
		return false;
	b->end = jtrue(jget(jdoc_root(d), "end"));
	if (!jtrue(jget(jdoc_root(d), "settled")))
		return true;
	if (!jint(jget(jdoc_root(d), "seconds"), &sec) ||
		!jint(jget(jdoc_root(d), "nanoseconds"), &nsec))
		return false;
	j->settled = (struct timespec){sec, (long)nsec};
	sranges_done(&j->alive);
	for (size_t i = 0; i < j->running_n; i++)
		if (!sranges_add(&j->alive, j->running[i].id))
			return false;
	return true;
}

static bool read_one(struct sjournal *j, const struct sframe *f, uint32_t *sealed)
{
	struct sbatch *b;

	switch (f->kind) {
	case SFRAME_STARTED:
	case SFRAME_ENDED:
	case SFRAME_OTHER:
		return read_entry(j, f);
	case SFRAME_NETWORK:
		b = batch_at(j, f->batch);
		return b && !b->seal.len && add_part(&b->network, &f->part[0]);
	case SFRAME_SEAL:
		return read_seal(j, f);
	case SFRAME_SEALED:
		*sealed = MAX_OF(*sealed, f->batch);
		return true;
	case SFRAME_SESSION:
	case SFRAME_KIND_END:
	default:
		return false;
	}
}

int sjournal_read(struct sjournal *j, const void *p, size_t n, uint32_t *ret_sealed)
{
	size_t at = 0, whole;
	struct sframe f;

	*ret_sealed = 0;
	if (sframe_next(p, n, &at, &f) != 1 || f.kind != SFRAME_SESSION || !read_head(j, &f)) {
		j->running_n = j->alive.n = 0;
		j->batch_next = 1;
		return -EBADMSG;
	}
	for (whole = at; sframe_next(p, n, &at, &f) == 1; whole = at)
		if (!read_one(j, &f, ret_sealed))
			break;
	j->log_b = whole;
	return whole == n ? 0 : 1;
}

/* ---- finishing ---- */

static void forget_sealed(struct sjournal *j, uint32_t sealed)
{
	while (j->first && j->first->no <= sealed) {
		struct sbatch *next = j->first->next;

		sbatch_free(j->first);
		j->first = next;
	}
	if (!j->first)
		j->last = NULL;
	j->batch_next = MAX_OF(j->batch_next, sealed + 1);
}

static int open_files(struct sjournal *j, int all, struct buf *ret, struct err *e)
{
	int r;

	j->dir_fd = openat(all, j->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (j->dir_fd < 0)
		return err_set(e, errno, "open the journal of session %s", j->id);
	j->log_fd = openat(
		j->dir_fd, SESSION_LOG, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	r = j->log_fd < 0 ? -errno : file_read_fd(j->log_fd, ret);
	return r < 0 ? err_set(e, -r, "read the journal of session %s", j->id) : 0;
}

/* May records be missing that were in the file once? */
static bool may_lack(const struct sjournal *j)
{
	char boot[SESSION_BOOT_MAX];

	sjournal_boot(boot);
	return !boot[0] || !str_eq(boot, j->boot);
}

/* What was found of a session. */
struct found {
	bool over; /* it has ended, or never begun: there is nothing that the ledger lacks */
	bool torn; /* the file ends with something else than a record */
	bool lacks; /* there may have been more */
};

/* The ledger says what was sealed, whatever became of the file. */
static int load(struct sjournal *j, int all, struct found *ret, struct err *e)
{
	cleanup_buf struct buf text = BUF_INIT(SJOURNAL_LOG_MAX_B);
	uint32_t sealed = 0, found = 0;
	bool ended = false;
	int r = open_files(j, all, &text, e), state;

	if (r == 0)
		r = sseal_find(j->env, j->id, &found, &ended, e);
	if (r < 0)
		return r;
	state = sjournal_read(j, buf_str(&text), text.len, &sealed);
	ret->torn = state != 0;
	ret->lacks = state < 0 || may_lack(j);
	ret->over = ended || (!found && (state < 0 || (!j->first && j->batch_next == 1)));
	forget_sealed(j, MAX_OF(sealed, found));
	j->tip_seq = j->env->tip.seq;
	if (!j->begin && !(j->begin = strdup("{}")))
		return err_set(e, ENOMEM, "read the journal of session %s", j->id);
	if (state && !ret->over && ftruncate(j->log_fd, (off_t)j->log_b) < 0)
		return err_set(e, errno, "mend the journal of session %s", j->id);
	return 0;
}

/* lacks: it gets no end, only a look at the tree. */
static int finish(struct sjournal *j, bool lacks, struct err *e)
{
	struct sbatch *b;
	int r = 0;

	while (r == 0 && j->running_n)
		r = sjournal_entry(j, j->running[0].id, "interrupted",
			"croft ended before the command did", e);
	if (r == 0 && j->last && j->last->seal.len && j->last->end)
		return sjournal_flush(j, true, e); /* its end was about to be sealed */
	b = r == 0 ? sbatch_room(j, 0, 0, 0) : NULL;
	if (r == 0 && !b)
		r = err_set(e, ENOMEM, "end session %s", j->id);
	if (r < 0)
		return r;
	b->end = b->interrupted = !lacks;
	return sjournal_flush(j, true, e);
}

static void say(struct sjournal *j, size_t running, const struct found *f)
{
	cleanup_buf struct buf note = BUF_INIT(512);

	buf_addf(&note, "session %s was cut off", j->id);
	if (running)
		buf_addf(&note, " while %zu command%s ran", running, running == 1 ? "" : "s");
	buf_addf(&note, "; its record was completed from the journal%s",
		f->lacks  ? ", but the machine was started anew since: the last records may be "
			    "missing, and croft evidence verify says so"
		: f->torn ? ", whose end is damaged: it is a record that nobody was told of"
			  : "");
	strlist_add(&j->env->notes, buf_str(&note));
}

static int recover_one(struct env *v, int all, const char *id, struct err *e)
{
	struct sjournal *j = sjournal_new(v, id);
	struct found f = {0};
	size_t running;
	int r;

	if (!j)
		return err_set(e, ENOMEM, "recover session %s", id);
	r = load(j, all, &f, e);
	running = j->running_n;
	if (r == 0 && !f.over)
		r = finish(j, f.lacks, e);
	if (r == 0 && !f.over)
		say(j, running, &f);
	/* Who finished in the session's place does not know what it had to hide. */
	if (r == 0)
		r = state_hide_journal(v->home, id, NULL, e);
	if (r == 0 && tree_remove_at(all, j->dir) < 0)
		r = err_set(e, errno, "remove the journal of session %s", id);
	sjournal_free(j);
	return r;
}

int sjournal_recover(struct env *v, struct err *e)
{
	cleanup_strlist struct strlist names = STRLIST_INIT(65536);
	cleanup_fd int all =
		openat(v->dir_fd, "journal", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	cleanup_dir DIR *d = all < 0 ? NULL : dir_list(all, ".");
	struct dirent *de;
	int r = 0;

	if (all < 0)
		return errno == ENOENT ? 0 : err_set(e, errno, "open the journal of %s", v->name);
	while (d && (errno = 0, de = readdir(d)))
		if (str_starts(de->d_name, SESSION_DIR_PREFIX) &&
			str_hex(de->d_name + strlen(SESSION_DIR_PREFIX), 1, SJOURNAL_ID_MAX) &&
			!strlist_add(&names, de->d_name + strlen(SESSION_DIR_PREFIX)))
			return err_set(e, ENOMEM, "read the journal of %s", v->name);
	if (!d || errno)
		return err_set(e, errno, "read the journal of %s", v->name);
	for (size_t i = 0; r == 0 && i < names.n; i++)
		r = recover_one(v, all, names.v[i], e);
	return r;
}
