/* SPDX-License-Identifier: Apache-2.0 */
/* git/ref: croft and git see the same refs; of many movers one wins each time. */
#include "test.h"

#include <errno.h>
#include <sys/file.h>

#include "git_world.h"

#define REF "refs/croft/env/0123456789abcdef"

static const struct oid none;

static void nth(struct oid *o, enum git_hash h, int i)
{
	oid_of(o, h, GIT_BLOB, &i, sizeof(i));
}

static bool world_repo(struct world *w, struct repo *r, const char *format)
{
	struct err e = ERR_INIT;

	return world_make(w, format) && repo_open(r, w->work, w->state, &e) == 0;
}

static void life(struct world *w, struct repo *r, const char *kind)
{
	cleanup_free char *said = NULL;
	struct git_store s = {0};
	cleanup_fd int objects = -1;
	struct err e = ERR_INIT;
	struct oid a, b, o;
	struct stat st;
	char path[256];

	CHECK_INT(repo_ledger_store(r, &s, &e), 0);
	objects = s.objects_fd;
	CHECK_INT(git_write(&s, GIT_BLOB, "a", 1, &a, &e), 0);
	CHECK_INT(git_write(&s, GIT_BLOB, "b", 1, &b, &e), 0);
	CHECK_INT(git_store_name(&s, &e), 0);
	CHECK_INT(ref_read(r, REF, &o, &e), -ENOENT);
	CHECK_INT(ref_move(r, REF, &a, &b, &e), -EAGAIN);
	CHECK_INT(ref_move(r, REF, &none, &a, &e), 0);
	CHECK_INT(ref_move(r, REF, &none, &b, &e), -EAGAIN);
	CHECK_INT(ref_move(r, REF, &b, &a, &e), -EAGAIN);
	CHECK(strstr(e.msg, oid_hex(&a).s));
	CHECK_INT(ref_move(r, REF, &a, &b, &e), 0);
	CHECK_INT(ref_read(r, REF, &o, &e), 0);
	CHECK(oid_eq(&o, &b));
	if (r->git_dir) {
		said = world_ask(w, "git for-each-ref --format='%(objectname) %(refname)'");
		snprintf(path, sizeof(path), "%s %s", oid_hex(&b).s, REF);
		CHECK_STR(said, path);
		CHECK(str_eq(kind, "loose") || world_sh(w, "git pack-refs --all --prune"));
	}
	CHECK_INT(ref_read(r, REF, &o, &e), 0);
	CHECK(oid_eq(&o, &b));
	CHECK_INT(ref_move(r, REF, &a, &none, &e), -EAGAIN);
	CHECK_INT(ref_move(r, REF, &b, &none, &e), 0);
	CHECK_INT(ref_read(r, REF, &o, &e), -ENOENT);
	snprintf(path, sizeof(path), "%s/refs/croft/env", repo_ledger_dir(r));
	CHECK(stat(path, &st) < 0);
}

TEST(life_of_a_ref)
{
	static const char *const formats[] = {"sha1", "sha256", NULL};

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		cleanup_world struct world w = {.fd = -1};
		cleanup_repo struct repo r = {0};

		CHECK(world_repo(&w, &r, formats[i]));
		life(&w, &r, "loose");
	}
}

TEST(life_of_a_packed_ref)
{
	cleanup_world struct world w = {.fd = -1};
	cleanup_repo struct repo r = {0};

	CHECK(world_repo(&w, &r, "sha1"));
	life(&w, &r, "packed");
}

/* The way of repositories whose refs only git can read. */
TEST(life_of_a_ref_through_git)
{
	cleanup_world struct world w = {.fd = -1};
	cleanup_repo struct repo r = {0};

	CHECK(world_repo(&w, &r, "sha1"));
	r.reftable = true;
	life(&w, &r, "loose");
}

TEST(bad_names_are_refused)
{
	static const char *const bad[] = {"", "refs", "refs/", "refs/x", "HEAD",
		"refs/croft/../heads/x", "refs/croft/.x", "refs/croft/x.lock",
		"refs/croft/x.lock/y", "refs/croft//x", "refs/croft/x/", "refs/croft/x y",
		"refs/croft/x~1", "refs/croft/x^", "refs/croft/a:b", "refs/croft/x@{1}",
		"refs/croft/x.", "refs/croft/x\n", "/refs/croft/x", "refs/croft/*", "refs/croft/[x",
		"refs/croft/a\\b", "refs/croft/?"};
	cleanup_world struct world w = {.fd = -1};
	cleanup_repo struct repo r = {0};
	struct err e = ERR_INIT;
	struct oid a;

	CHECK(world_repo(&w, &r, "sha1"));
	nth(&a, GIT_SHA1, 1);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (ref_move(&r, bad[i], &none, &a, &e) != -EINVAL) {
			test_fail(__FILE__, __LINE__, "taken: %s", bad[i]);
			return;
		}
	nth(&a, GIT_SHA256, 1);
	CHECK_INT(ref_move(&r, REF, &none, &a, &e), -EINVAL);
}

TEST(a_lock_left_behind_is_named)
{
	cleanup_world struct world w = {.fd = -1};
	cleanup_repo struct repo r = {0};
	struct err e = ERR_INIT;
	struct oid a;

	CHECK(world_repo(&w, &r, "sha1"));
	nth(&a, GIT_SHA1, 1);
	CHECK(world_sh(&w, "mkdir -p .git/refs/croft/env; touch .git/" REF ".lock"));
	CHECK_INT(ref_move(&r, REF, &none, &a, &e), -EBUSY);
	CHECK(strstr(e.msg, "/.git/" REF ".lock"));
	CHECK(world_sh(&w, "rm .git/" REF ".lock"));
	CHECK_INT(ref_move(&r, REF, &none, &a, &e), 0);
}

static int lock_file(const struct world *w, mode_t mode, const char *text)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/.git/" REF ".lock", w->work);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0 && (fchmod(fd, mode) < 0 || fd_write_all(fd, text, strlen(text)) < 0))
		close_fd(&fd);
	return fd;
}

/* A crash of ours leaves a lock with our mark that nobody holds: it goes at once. */
TEST(a_lock_of_a_dead_croft_goes)
{
	cleanup_world struct world w = {.fd = -1};
	cleanup_repo struct repo r = {0};
	static const struct timespec long_ago[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
	struct err e = ERR_INIT;
	struct stat st;
	struct oid o[4];
	char path[256];
	int fd;

	for (int i = 0; i < 4; i++)
		nth(&o[i], GIT_SHA1, i);
	CHECK(world_repo(&w, &r, "sha1"));
	CHECK_INT(ref_move(&r, REF, &none, &o[0], &e), 0);
	snprintf(path, sizeof(path), "%s/.git/" REF, w.work);
	CHECK_INT(stat(path, &st), 0);
	CHECK_INT(st.st_mode & 07000, 0); /* the mark is the lock's, not the ref's */
	fd = lock_file(&w, 01600, "");
	CHECK(fd >= 0);
	close_fd(&fd);
	CHECK_INT(ref_move(&r, REF, &o[0], &o[1], &e), 0);
	fd = lock_file(&w, 01600, "0123456789abcdef0123456789abcdef01234567\n");
	CHECK(fd >= 0);
	close_fd(&fd);
	CHECK_INT(ref_move(&r, REF, &o[1], &o[2], &e), 0);
	/* Without the mark it may be Git's; not when it is old. */
	fd = lock_file(&w, 0600, "");
	CHECK(fd >= 0 && futimens(fd, long_ago) == 0);
	close_fd(&fd);
	CHECK_INT(ref_move(&r, REF, &o[2], &o[3], &e), 0);
}

/* Held, of another kind, or anywhere else: left alone. */
TEST(a_lock_of_somebody_alive_stays)
{
	cleanup_world struct world w = {.fd = -1};
	cleanup_repo struct repo r = {0};
	cleanup_fd int held = -1;
	struct err e = ERR_INIT;
	struct oid o, p;
	int fd;

	nth(&o, GIT_SHA1, 1);
	nth(&p, GIT_SHA1, 2);
	CHECK(world_repo(&w, &r, "sha1"));
	CHECK_INT(ref_move(&r, REF, &none, &o, &e), 0);
	held = lock_file(&w, 01600, "");
	CHECK(held >= 0 && flock(held, LOCK_EX | LOCK_NB) == 0);
	CHECK_INT(ref_move(&r, REF, &o, &p, &e), -EBUSY);
	CHECK(world_sh(&w, "rm .git/" REF ".lock"));
	fd = lock_file(&w, 01600, "what is this\n");
	CHECK(fd >= 0);
	close_fd(&fd);
	CHECK_INT(ref_move(&r, REF, &o, &p, &e), -EBUSY);
	CHECK(world_sh(&w, "rm .git/" REF ".lock; ln -s /dev/null .git/" REF ".lock"));
	CHECK_INT(ref_move(&r, REF, &o, &p, &e), -EBUSY);
	CHECK(world_sh(&w, "rm .git/" REF ".lock; mkdir -p .git/refs/heads; touch -d @1 "
			   ".git/refs/heads/x.lock; chmod 1600 .git/refs/heads/x.lock"));
	CHECK_INT(ref_move(&r, "refs/heads/x", &none, &o, &e), -EBUSY);
	CHECK_INT(ref_move(&r, REF, &o, &p, &e), 0);
}

TEST(empty_directories_make_way)
{
	cleanup_world struct world w = {.fd = -1};
	cleanup_repo struct repo r = {0};
	struct err e = ERR_INIT;
	struct oid a, o;

	CHECK(world_repo(&w, &r, "sha1"));
	nth(&a, GIT_SHA1, 1);
	CHECK(world_sh(&w, "mkdir -p .git/" REF "/x/y"));
	CHECK_INT(ref_read(&r, REF, &o, &e), -ENOENT);
	CHECK_INT(ref_move(&r, REF, &none, &a, &e), 0);
	/* The negative control: one that holds a ref does not. */
	CHECK(world_sh(&w, "mkdir -p .git/refs/croft/full/z; touch .git/refs/croft/full/z/r"));
	CHECK(ref_move(&r, "refs/croft/full", &none, &a, &e) < 0);
	CHECK(world_sh(
		&w, "test -e .git/refs/croft/full/z/r; ! ls .git/refs/croft/*.lock 2>/dev/null"));
}

struct seen {
	char text[512];
	int n;
};

static int note(void *arg, const char *ref, const struct oid *o)
{
	struct seen *s = arg;
	size_t n = strlen(s->text);

	snprintf(s->text + n, sizeof(s->text) - n, "%s=%.4s ", ref + strlen("refs/croft/"),
		oid_hex(o).s);
	return ++s->n == 3 ? 42 : 0;
}

TEST(lists_merge_loose_and_packed)
{
	cleanup_world struct world w = {.fd = -1};
	cleanup_repo struct repo r = {0};
	struct seen s = {0};
	struct err e = ERR_INIT;

	CHECK(world_repo(&w, &r, "sha1"));
	CHECK_INT(ref_list(&r, "refs/croft/env/", note, &s, &e), 0);
	CHECK_INT(s.n, 0);
	CHECK(world_sh(&w,
		"o() { echo $1 | git hash-object -w --stdin; }; git update-ref "
		"refs/croft/env/b $(o 1); git update-ref refs/croft/env/c $(o 2); git "
		"pack-refs --all --prune; git update-ref refs/croft/env/b $(o 3); git "
		"update-ref refs/croft/other/x $(o 1); touch .git/refs/croft/env/q.lock"));
	CHECK_INT(ref_list(&r, "refs/croft/env/", note, &s, &e), 0);
	CHECK_STR(s.text, "env/b=0075 env/c=0cfb ");
	CHECK(world_sh(&w, "git update-ref refs/croft/env/a refs/croft/env/b"));
	CHECK_INT(ref_list(&r, "refs/croft/env/", note, &s, &e), 42);
	CHECK_INT(ref_list(&r, "../refs/", note, &s, &e), -EINVAL);
}

/* Processes count together: every step is taken exactly once. */
TEST(many_movers)
{
	enum { MOVERS = 4, STEPS = 25 };
	cleanup_world struct world w = {.fd = -1};
	cleanup_repo struct repo r = {0};
	struct err e = ERR_INIT;
	struct oid o, at;
	int ok = 0;

	CHECK(world_repo(&w, &r, "sha1"));
	fflush(stdout);
	for (int k = 0; k < MOVERS; k++) {
		if (fork() != 0)
			continue;
		alarm(60);
		for (int done = 0; done < STEPS;) {
			struct oid next, was = {0};
			int rc = ref_read(&r, REF, &was, &e);

			if (rc < 0 && rc != -ENOENT)
				_exit(2);
			oid_of(&next, GIT_SHA1, GIT_BLOB, was.v, 20);
			rc = ref_move(&r, REF, &was, &next, &e);
			if (rc < 0 && rc != -EAGAIN)
				_exit(3);
			done += rc == 0;
			/* others' directories come and go meanwhile */
			if (rc == 0 && ref_move(&r, "refs/croft/tmp/x/y", &none, &next, &e) == 0 &&
				ref_move(&r, "refs/croft/tmp/x/y", &next, &none, &e) < 0)
				_exit(4);
		}
		_exit(0);
	}
	for (int k = 0; k < MOVERS; k++) {
		int status;

		CHECK(wait(&status) > 0);
		ok += WIFEXITED(status) && WEXITSTATUS(status) == 0;
	}
	CHECK_INT(ok, MOVERS);
	at = (struct oid){0};
	for (int i = 0; i < MOVERS * STEPS; i++)
		oid_of(&at, GIT_SHA1, GIT_BLOB, at.v, 20);
	CHECK_INT(ref_read(&r, REF, &o, &e), 0);
	CHECK(oid_eq(&o, &at));
}
