/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of an environment, written down as they happen: see journal.h. */
#include "env/journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/jsonread.h"
#include "env/env_impl.h"
#include "session/run/hidden.h"
#include "env/journal_event.h"
#include "os/forced.h"
#include "os/path.h"
#include "os/tree.h"

#define STARTED_MAX_B (8u << 20)

/* ---- begin ---- */

static int open_journals(const struct env *v, bool make, struct err *e)
{
	int fd;

	if (make && mkdirat(v->dir_fd, "journal", 0700) < 0 && errno != EEXIST)
		return err_set(e, errno, "make the journal of %s", v->name);
	fd = openat(v->dir_fd, "journal", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && !make && errno == ENOENT)
		return -ENOENT;
	return fd < 0 ? err_set(e, errno, "open the journal of %s", v->name) : fd;
}

/*
 * The files of a run that is over are the next one's: making and removing files is what costs most in
 * writing a journal, on a file system that has just removed others (ext4 looks at each of them for every
 * file it makes). Emptied before they get the name of a run.
 */
static const char *const files[] = {"started.json", "event", "stdout", "stderr"};
#define SPARE "spare"

static int open_empty(int dir, const char *name)
{
	return openat(
		dir, name, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static int empty_files(int dir)
{
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		cleanup_fd int fd = -1;
		struct stat st;

		if (fstatat(dir, files[i], &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size == 0)
			continue;
		fd = open_empty(dir, files[i]);
		if (fd < 0)
			return -errno;
	}
	return 0;
}

static int open_spare(int all)
{
	return openat(all, SPARE, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* A directory of this name, with the files of a run that has not begun. */
static int place_for(int all, const char *run_id)
{
	cleanup_fd int dir = open_spare(all);
	int r;

	if (dir < 0 && (mkdirat(all, SPARE, 0700) < 0 || (dir = open_spare(all)) < 0))
		return -errno;
	r = empty_files(dir);
	if (r == 0 && renameat(all, SPARE, all, run_id) < 0)
		r = -errno;
	return r < 0 ? r : take_fd(&dir);
}

int journal_put(int dir_fd, const char *name, const void *p, size_t n)
{
	cleanup_fd int fd = open_empty(dir_fd, name);
	int r = fd < 0 ? -errno : 0;

	return r < 0 ? r : fd_write_all(fd, p, n);
}

int journal_open(struct journal *j, struct env *v, const char *run_id, bool as_test, bool capture,
	struct err *e)
{
	cleanup_fd int all = open_journals(v, true, e);

	*j = JOURNAL_INIT;
	if (all < 0)
		return all;
	snprintf(j->run_id, sizeof(j->run_id), "%s", run_id);
	j->as_test = as_test;
	j->dir_fd = place_for(all, run_id);
	if (j->dir_fd < 0)
		return err_set(e, -j->dir_fd, "write the journal of %s", v->name);
	if (!capture)
		return 0;
	if ((j->capture.file[CAPTURE_OUT].fd = open_empty(j->dir_fd, "stdout")) < 0 ||
		(j->capture.file[CAPTURE_ERR].fd = open_empty(j->dir_fd, "stderr")) < 0)
		return err_set(e, errno, "write the journal of %s", v->name);
	return 0;
}

int journal_resume(struct journal *j, struct env *v, const char *run_id, struct err *e)
{
	cleanup_fd int all = open_journals(v, false, e);

	*j = JOURNAL_INIT;
	snprintf(j->run_id, sizeof(j->run_id), "%s", run_id);
	j->dir_fd = all < 0 ? -1 : openat(all, run_id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return j->dir_fd >= 0 ? 0 : err_set(e, errno, "open the journal of run %s", run_id);
}

static void started_json(
	const struct receipt *r, bool as_test, const struct redact *hidden, struct buf *ret)
{
	char started[40];
	struct json js;

	env_time_text(&r->started, started);
	json_init(&js, ret, false);
	json_object(&js, NULL);
	json_str(&js, "run", r->id);
	json_str(&js, "started", started);
	json_bool(&js, "test", as_test);
	json_str(&js, "policy", r->policy_digest.hex);
	json_str(&js, "cwd", r->cwd);
	json_array(&js, "command");
	for (size_t i = 0; i < r->command.n; i++)
		json_str(&js, NULL, r->command.v[i]);
	json_end(&js);
	hidden_note(hidden, r->id, &js);
	json_end(&js);
}

int journal_started(const struct receipt *r, bool as_test, struct buf *ret, struct err *e)
{
	cleanup_buf struct buf plain = BUF_INIT(STARTED_MAX_B);
	struct redact hidden;
	int rc;

	/* Wiped before we return: the next attempt at a sandbox forks what is in memory now. */
	redact_init(&hidden);
	rc = hidden_know(&hidden, &r->policy, e);
	if (rc == 0) {
		started_json(r, as_test, &hidden, &plain);
		rc = plain.failed ? -E2BIG : redact_json(&hidden, buf_str(&plain), plain.len, ret);
		if (rc < 0)
			err_set(e, -rc, "write down what is run");
	}
	redact_done(&hidden);
	return rc;
}

int journal_begin_as(struct journal *j, const char *started, size_t n, struct err *e)
{
	int r = journal_put(j->dir_fd, "started.json", started, n);

	return r < 0 ? err_set(e, -r, "write the journal of run %s", j->run_id) : 0;
}

int journal_begin(struct journal *j, const struct env *v, const struct receipt *r, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(STARTED_MAX_B);
	int rc = journal_started(r, j->as_test, &b, e);

	if (rc < 0)
		return rc;
	rc = journal_put(j->dir_fd, "started.json", buf_str(&b), b.len);
	forced_crash("exec.begun");
	return rc < 0 ? err_set(e, -rc, "write the journal of %s", v->name) : 0;
}

/* ---- end ---- */

static int forget(struct env *v, const char *run_id)
{
	struct err ignored = ERR_INIT;
	cleanup_fd int all = open_journals(v, false, &ignored), spare = -1;

	if (all < 0)
		return all;
	/* Two are left when a crash was recovered from: one is enough. */
	if (renameat(all, run_id, all, SPARE) < 0)
		return tree_remove_at(all, run_id);
	spare = open_spare(all);
	return spare < 0 ? -errno : empty_files(spare);
}

int journal_drop(struct journal *j, struct env *v)
{
	char run[sizeof(j->run_id)];

	memcpy(run, j->run_id, sizeof(run));
	journal_done(j);
	return run[0] ? forget(v, run) : 0;
}

void journal_done(struct journal *j)
{
	capture_done(&j->capture);
	close_fd(&j->dir_fd);
	*j = JOURNAL_INIT;
}

int journal_end(struct journal *j, struct env *v, struct receipt *r, struct err *e)
{
	cleanup_buf struct buf sealed = BUF_INIT(JOURNAL_EVENT_MAX_B);
	int rc;

	capture_end(&j->capture);
	forced_crash("exec.ended");
	/* From here on the event can be written by anybody who finds this. */
	rc = journal_seal(j, v, r, &sealed, e);
	if (rc < 0)
		return rc;
	forced_crash("record.sealed");
	rc = journal_event(v, j->run_id, &sealed, e);
	if (rc < 0)
		return rc;
	forced_crash("record.event");
	return journal_drop(j, v);
}

/* ---- recovery ---- */

static bool is_run(const char *name)
{
	return name[0] && strspn(name, "0123456789abcdef") == strlen(name) && strlen(name) < 32;
}

static int recover_one(struct env *v, int all, const char *run, struct err *e)
{
	cleanup_buf struct buf note = BUF_INIT(512), sealed = BUF_INIT(JOURNAL_EVENT_MAX_B);
	cleanup_fd int dir = openat(all, run, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	char why[ERR_MSG_MAX];
	struct stat st;
	bool begun = dir >= 0 && fstatat(dir, "started.json", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		     st.st_size > 0;
	bool whole =
		dir >= 0 && file_read_at(dir, "event", &sealed) == 0 && journal_is_whole(&sealed);
	int r = 0;

	if (dir < 0)
		return err_set(e, errno, "open the journal of run %s", run);
	begun = begun || whole; /* a torn start does not undo what was sealed */
	if (begun && !v->tip_known) {
		if ((r = ledger_tip(&v->tip, &v->repo, v->id, e)) < 0)
			return r;
		v->tip_known = true;
	}
	if (begun && !str_eq(v->tip.run_id, run)) {
		r = whole ? journal_event(v, run, &sealed, e) : -ENODATA;
		/* One that no ledger takes must not close the environment for ever. */
		if (r == -ENODATA || r == -EFBIG || r == -E2BIG || r == -EBADMSG) {
			snprintf(why, sizeof(why), "%s", whole ? e->msg : "");
			whole = false;
			*e = ERR_INIT;
			r = journal_interrupted(v, dir, run, *why ? why : NULL, e);
		}
		buf_addf(&note, "%s %s was %s; its record was completed from the journal",
			whole ? "the record of run" : "run", run,
			whole ? "not finished" : "cut short");
		strlist_add(&v->notes, buf_str(&note));
	}
	return r < 0 ? r : forget(v, run);
}

/* The runs that are there, in no order: there is one, or a crash left another. */
static int list_runs(int all, struct strlist *ret)
{
	cleanup_dir DIR *d = dir_list(all, ".");
	struct dirent *de;

	while (d && (errno = 0, de = readdir(d)))
		if (is_run(de->d_name) && !strlist_add(ret, de->d_name))
			return -ENOMEM;
	return d && errno == 0 ? 0 : -errno;
}

int journal_recover(struct env *v, struct err *e)
{
	cleanup_fd int all = open_journals(v, false, e), spare = -1;
	cleanup_strlist struct strlist runs = STRLIST_INIT(65536);
	int r;

	if (all < 0)
		return all == -ENOENT ? 0 : all;
	r = list_runs(all, &runs);
	if (r < 0)
		return err_set(e, -r, "read the journal of %s", v->name);
	for (size_t i = 0; r == 0 && i < runs.n; i++)
		r = recover_one(v, all, runs.v[i], e);
	/* Cut short between its name and its emptying: output is there as it was, secrets and all. */
	if (r == 0 && (spare = open_spare(all)) >= 0 && (r = empty_files(spare)) < 0)
		r = err_set(e, -r, "empty the journal of %s", v->name);
	return r;
}
