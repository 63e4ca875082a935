/* SPDX-License-Identifier: Apache-2.0 */
/* Staged runs: see env_run.h. */
#include "env/env_run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/jsonread.h"
#include "env/env_impl.h"
#include "env/journal.h"
#include "session/config/layers.h"
#include "ledger/chain/statement.h"
#include "os/forced.h"
#include "os/path.h"
#include "snap/scan.h"

#define BEGUN_MAX_B (8u << 20)

static int prepare(struct env_slot *slot, struct env *v, const struct run_request *q,
	const char *state_dir, const struct receipt *r, struct err *e)
{
	struct timespec now;

	env_init(v);
	v->kind = ENV_LIVE;
	v->run = true;
	v->workspace = strdup(q->workspace);
	v->home = strdup(q->home);
	v->state_dir = strdup(state_dir);
	if (!v->workspace || !v->home || !v->state_dir)
		return err_set(e, ENOMEM, "stage the run");
	if (q->stem)
		snprintf(v->name, sizeof(v->name), "%.40s", q->stem);
	else
		snprintf(v->name, sizeof(v->name), "run-%.6s", r->id);
	env_now(&now);
	env_time_text(&now, v->created);
	return env_random_id(v->id, e) < 0 ? -e->errnum : env_slot_take(slot, v, e);
}

/* What is needed to find a command's work again if we are killed. */
struct begun {
	struct env *env;
	struct buf text;
};

/* Two lines: the environment that it would be, and the journal's text. */
static int prepare_begun(void *arg, const struct receipt *r, struct err *e)
{
	struct begun *g = arg;
	cleanup_buf struct buf started = BUF_INIT(BEGUN_MAX_B);
	struct json j;

	buf_reset(&g->text);
	json_init(&j, &g->text, false);
	json_object(&j, NULL);
	json_str(&j, "id", g->env->id);
	json_str(&j, "created", g->env->created);
	json_str(&j, "workspace", g->env->workspace);
	json_str(&j, "run", r->id);
	json_end(&j);
	buf_addc(&g->text, '\n');
	if (journal_started(r, false, &started, e) < 0)
		return -e->errnum;
	buf_add(&g->text, buf_str(&started), started.len);
	buf_addc(&g->text, '\n');
	return g->text.failed || started.failed ? err_set(e, E2BIG, "write down what is run") : 0;
}

/* Before the command exists, and in one piece. */
static int begin(void *arg, const struct receipt *r, struct err *e)
{
	const struct begun *g = arg;

	(void)r;
	if (pwrite(g->env->lock_fd, g->text.data, g->text.len, 0) != (ssize_t)g->text.len)
		return err_set(e, errno ? errno : ENOSPC, "write down what is run");
	forced_crash("exec.begun");
	return 0;
}

static bool changed_nothing(const struct env *v)
{
	struct err ignored = ERR_INIT;
	cleanup_fd int fd = v->layers.n ? env_layer_fd(v, v->layers.n - 1, &ignored) : -1;

	return fd < 0 || layer_is_empty(fd);
}

/* From a directory with a layer to an environment with a ledger and a name. */
static int establish(struct env *v, const struct env_new *n, struct err *e)
{
	cleanup_buf struct buf to = BUF_INIT(PATH_MAX);
	char shown[ENV_NAME_MAX + 1];
	int r = v->repo.store ? 0 : repo_open(&v->repo, v->workspace, v->state_dir, e);

	memcpy(shown, v->name, sizeof(shown));
	for (int i = 2; r == 0 && i < 1000; i++) {
		buf_reset(&to);
		buf_addf(&to, "%s/envs/%s", v->state_dir, v->name);
		if (access(buf_str(&to), F_OK) < 0)
			break;
		snprintf(v->name, sizeof(v->name), "%.50s-%d", shown, i);
	}
	if (r < 0 || (r = env_first_event(v, n, e)) < 0)
		return r;
	return env_give_name(v, e);
}

/* It has a journal and a ledger now, and there the command line is without its secrets. */
static void forget_begun(const struct env *v, struct err *e)
{
	if (ftruncate(v->lock_fd, 0) < 0)
		err_set(e, errno, "empty the lock of %s", v->name);
}

static void record(struct env_run *x, struct receipt *r)
{
	struct env *v = &x->env;
	cleanup_buf struct buf policy = BUF_INIT(RECEIPT_JSON_MAX);
	struct env_new n = {.policy_digest = r->policy_digest.hex, .tier = r->tier};
	struct journal j = JOURNAL_INIT;
	struct err e = ERR_INIT;

	if (env_slot_reuse(&x->slot, v))
		return;
	if (changed_nothing(v)) {
		env_slot_remove(v);
		return;
	}
	policy_canonical(&r->policy, &policy);
	n.policy_text = buf_str(&policy);
	if (journal_open(&j, v, r->id, false, false, &e) < 0 || journal_begin(&j, v, r, &e) < 0 ||
		establish(v, &n, &e) < 0 || journal_end(&j, v, r, &e) < 0)
		receipt_degrade(r, "the evidence of this run is not complete yet: %s", e.msg);
	else
		forget_begun(v, &e);
	snprintf(v->problem, sizeof(v->problem), "%s", e.msg);
	journal_done(&j);
	x->kept = !strstr(v->dir, "/" ENV_RUN_PREFIX);
	if (!x->kept)
		receipt_degrade(r, "what was staged is in %s until croft ls adopts it", v->dir);
}

/*
 * In somebody else's repository git may refuse to work, and what is staged could neither be recorded nor
 * landed: better known before the command runs. One of our own is not looked at here.
 */
static int check_owner(struct env *v, struct err *e)
{
	cleanup_buf struct buf path = BUF_INIT(PATH_MAX);
	struct stat st;

	buf_addf(&path, "%s/.git", v->workspace);
	if (lstat(buf_str(&path), &st) < 0 || st.st_uid == geteuid())
		return 0;
	return repo_open(&v->repo, v->workspace, v->state_dir, e);
}

int env_run(struct env_run *ret, struct run_request *q, const char *state_dir, struct receipt *r,
	struct err *e)
{
	struct env_stage stage = {0};
	struct begun begun = {.env = &ret->env, .text = BUF_INIT(BEGUN_MAX_B)};
	int rc;

	*ret = (struct env_run){0};
	rc = prepare(&ret->slot, &ret->env, q, state_dir, r, e);
	if (rc == 0)
		rc = check_owner(&ret->env, e);
	if (rc == 0)
		rc = env_stage(&ret->env, false, &stage, e);
	if (rc == 0) {
		q->staging = &stage.staging;
		q->begin = begin;
		q->prepare = prepare_begun;
		q->begin_arg = &begun;
		rc = run_command(r, q, e);
	}
	if (rc < 0)
		env_slot_return(&ret->slot, &ret->env);
	else
		record(ret, r);
	buf_done(&begun.text);
	env_stage_done(&stage);
	return rc;
}

int env_run_plan(struct plan *ret, struct run_request *q, const char *state_dir,
	struct policy *live, struct err *e)
{
	struct env_stage stage = {0};
	struct env_slot slot = {0};
	struct receipt r;
	struct env v;
	int rc;

	env_init(&v);
	if (receipt_init(&r) < 0)
		return err_set(e, errno, "start");
	rc = prepare(&slot, &v, q, state_dir, &r, e);
	if (rc == 0)
		rc = env_stage(&v, false, &stage, e);
	if (rc == 0) {
		q->staging = &stage.staging;
		rc = run_plan(ret, q, live, e);
	}
	env_slot_return(&slot, &v);
	env_stage_done(&stage);
	env_done(&v);
	receipt_done(&r);
	return rc;
}

void env_run_done(struct env_run *x)
{
	env_done(&x->env);
}

/* ---- after a crash ---- */

/* The environment that the slot says the run would be. 1, or 0 when the run changed nothing. */
static int read_begun(struct env *v, const char *name, struct journal *j, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(BEGUN_MAX_B);
	cleanup_jdoc struct jdoc *d = NULL;
	const char *id, *run, *workspace, *created, *end;
	struct err none_yet = ERR_INIT;
	int r = file_read_fd(v->lock_fd, &b);

	if (r < 0 || b.len == 0)
		return err_set(e, r < 0 ? -r : EBADMSG, "read what %s was", name);
	if (!strlist_add(&v->layers, name + strlen(ENV_RUN_PREFIX)))
		return err_set(e, ENOMEM, "adopt a staged run");
	if (changed_nothing(v))
		return 0;
	end = b.data[b.len - 1] == '\n' ? memchr(b.data, '\n', b.len - 1) : NULL;
	if (!end)
		return err_set(e, EBADMSG, "what %s was is damaged", name);
	if (jdoc_parse(&d, b.data, (size_t)(end - b.data), e) < 0)
		return err_wrap(e, "what %s was", name);
	id = jstr(jget(jdoc_root(d), "id"));
	run = jstr(jget(jdoc_root(d), "run"));
	workspace = jstr(jget(jdoc_root(d), "workspace"));
	created = jstr(jget(jdoc_root(d), "created"));
	if (!id || !ledger_id_valid(id) || !run || strlen(run) < 6 || strchr(run, '/') ||
		!workspace || workspace[0] != '/' || !created ||
		strlen(created) >= sizeof(v->created))
		return err_set(e, EBADMSG, "what %s was is damaged", name);
	v->kind = ENV_LIVE;
	v->run = true;
	snprintf(v->id, sizeof(v->id), "%s", id);
	snprintf(v->created, sizeof(v->created), "%s", created);
	snprintf(v->name, sizeof(v->name), "run-%.6s", run);
	v->workspace = strdup(workspace);
	if (!v->workspace)
		return err_set(e, ENOMEM, "adopt a staged run");
	if (journal_resume(j, v, run, &none_yet) < 0 &&
		journal_open(j, v, run, false, false, e) < 0)
		return -e->errnum;
	return journal_begin_as(j, end + 1, b.len - (size_t)(end + 1 - b.data), e) < 0 ? -e->errnum
										       : 1;
}

static int adopt(const char *state_dir, const char *name, struct strlist *notes, struct err *e)
{
	cleanup_buf struct buf path = BUF_INIT(PATH_MAX), note = BUF_INIT(256);
	cleanup_env struct env v;
	struct journal j = JOURNAL_INIT;
	struct env_new n = {0};
	struct stat st;
	int r;

	env_init(&v);
	buf_addf(&path, "%s/envs/%s", state_dir, name);
	v.dir = buf_take(&path);
	v.state_dir = strdup(state_dir);
	if (!v.dir || !v.state_dir || layers_home(&v.home, e) < 0)
		return err_set(e, ENOMEM, "adopt a staged run");
	v.dir_fd = open(v.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	v.lock_fd = v.dir_fd < 0 ? -1 : openat(v.dir_fd, "lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (v.lock_fd < 0 || flock(v.lock_fd, LOCK_EX | LOCK_NB) < 0)
		return 0; /* it runs, or is being made */
	if (fstat(v.lock_fd, &st) < 0 || st.st_size == 0 || st.st_nlink == 0)
		return 0; /* idle, or not a slot any more */
	r = read_begun(&v, name, &j, e);
	journal_done(&j);
	if (r == 0)
		env_slot_remove(&v);
	if (r <= 0)
		return r;
	if (establish(&v, &n, e) < 0 || journal_recover(&v, e) < 0)
		return -e->errnum;
	forget_begun(&v, e);
	buf_addf(&note, "a staged run that was cut short is now environment %s", v.name);
	strlist_add(notes, buf_str(&note));
	return 0;
}

int env_run_adopt(struct strlist *notes, struct err *e)
{
	cleanup_strlist struct strlist names = STRLIST_INIT(4096);
	cleanup_free char *state = NULL;
	cleanup_buf struct buf path = BUF_INIT(PATH_MAX);
	cleanup_dir DIR *d = NULL;
	struct dirent *de;

	if (env_state_dir(&state, NULL, e) < 0)
		return -e->errnum;
	buf_addf(&path, "%s/envs", state);
	d = opendir(buf_str(&path));
	while (d && (de = readdir(d)))
		if (str_starts(de->d_name, ENV_RUN_PREFIX))
			strlist_add(&names, de->d_name);
	for (size_t i = 0; i < names.n; i++) {
		struct err why = ERR_INIT;

		if (adopt(state, names.v[i], notes, &why) < 0)
			strlist_add(notes, why.msg);
	}
	return 0;
}
