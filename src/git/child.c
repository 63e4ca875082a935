/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting git: see child.h, and program.h for what "clean" and "as user" mean.
 *
 * Which:  the first git on the caller's PATH that stands outside of anything a sandbox may have
 *         written: entries that are not absolute, that lie below the working directory or in some
 *         working tree (a ".git" beside or above), or that others could change, are passed over.
 * How:    a process that shares memory until the exec, as posix_spawn makes it: cheap whatever the
 *         launcher's size, and safe beside threads. It is killed when the thread that started it ends, so
 *         that it never outlives us. Not interactive: a session of its own, so that nothing can ask at the
 *         terminal and the whole of it can be killed.
 * Stuck:  git opens what a repository names and waits where that is a pipe. What is known beforehand is
 *         checked (repo_files.c); for the rest whoever waits for git asks git_child_stuck() every second.
 */
#include "git/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "git/oid.h"
#include "os/path.h"

#define WORDS_MAX 65536u
#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

extern char **environ;

/* ------------------------------------------------------------------ which git */

static bool is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	while (n > 0 && dir[n - 1] == '/')
		n--;
	return n > 0 && strncmp(path, dir, n) == 0 && path[n] == '/';
}

/* Is there a ".git" in any directory above this file? */
static bool in_working_tree(const char *file)
{
	char path[PATH_MAX + 8];
	size_t n = strlen(file);

	if (n >= PATH_MAX)
		return true;
	memcpy(path, file, n + 1);
	for (char *slash; (slash = strrchr(path, '/'));) {
		memcpy(slash, "/.git", 6);
		if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return true;
		*slash = '\0';
	}
	return false;
}

static bool usable(const char *candidate, char canonical[PATH_MAX])
{
	cleanup_fd int fd = path_resolve(candidate, canonical, PATH_MAX);
	char cwd[PATH_MAX];
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || access(canonical, X_OK) < 0)
		return false;
	if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & S_IWOTH))
		return false;
	if (getcwd(cwd, sizeof(cwd)) && is_below(canonical, cwd))
		return false;
	return !in_working_tree(canonical);
}

static bool find_git(char ret[PATH_MAX])
{
	const char *p = getenv("PATH");

	if (!p || !*p)
		p = DEFAULT_PATH;
	for (; *p; p += *p == ':') {
		char candidate[PATH_MAX];
		size_t n = strcspn(p, ":");
		int len = snprintf(
			candidate, sizeof(candidate), "%.*s/git", (int)MIN_OF(n, PATH_MAX), p);

		if (*p == '/' && len > 0 && (size_t)len < sizeof(candidate) &&
			usable(candidate, ret))
			return true;
		p += n;
	}
	return false;
}

/* Looked up once; the answer, with or without a git, holds for this process. */
static int git_path(const char **ret, struct err *e)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static char path[PATH_MAX];
	static int found = -1;

	pthread_mutex_lock(&lock);
	if (found < 0)
		found = find_git(path);
	pthread_mutex_unlock(&lock);
	if (!found)
		return err_not_found(e, "there is no git on PATH (relative entries and working "
					"trees do not count): install git");
	*ret = path;
	return 0;
}

/* ------------------------------------------------------------------ its words and environment */

static bool add_config(struct strlist *l, const char *const *settings)
{
	for (; *settings; settings++)
		if (!strlist_add(l, "-c") || !strlist_add(l, *settings))
			return false;
	return true;
}

static bool make_words(struct strlist *l, const struct git_run *r)
{
	static const char *const clean[] = {"core.fsmonitor=false", "core.hooksPath=/dev/null",
		"core.attributesFile=/dev/null", "protocol.allow=never", "gc.auto=0",
		"maintenance.auto=false", "core.quotePath=false", NULL};
	static const char *const own[] = {
		"gc.auto=0", "maintenance.auto=false", "protocol.ext.allow=never", NULL};
	static const char *const no_hooks[] = {
		"core.fsmonitor=false", "core.hooksPath=/dev/null", NULL};

	if (!strlist_add(l, "git") || !add_config(l, r->git_dir ? clean : own))
		return false;
	if (!r->git_dir && !r->hooks && !add_config(l, no_hooks))
		return false;
	for (size_t i = 0; !r->git_dir && r->muted && i < r->muted->n; i++) {
		if (r->hooks && str_starts(r->muted->v[i], "core.hookspath="))
			continue; /* the question is where they are */
		if (!strlist_add(l, "-c") || !strlist_add(l, r->muted->v[i]))
			return false;
	}
	for (const char *const *a = r->argv; *a; a++)
		if (!strlist_add(l, *a))
			return false;
	return true;
}

static bool add_var(struct strlist *l, const char *name, const char *value)
{
	cleanup_buf struct buf b = BUF_INIT(2 * PATH_MAX);

	buf_addf(&b, "%s=%s", name, value);
	return !b.failed && strlist_add(l, b.data);
}

static bool clean_environment(struct strlist *l, const struct git_run *r, const char *git)
{
	static const char *const fixed[] = {"HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1",
		"GIT_NO_LAZY_FETCH=1", "GIT_PAGER=cat", "LC_ALL=C"};
	cleanup_buf struct buf path = BUF_INIT(2 * PATH_MAX);

	for (size_t i = 0; i < ARRAY_SIZE(fixed); i++)
		if (!strlist_add(l, fixed[i]))
			return false;
	buf_addf(&path, "%s:%.*s", DEFAULT_PATH, (int)(strrchr(git, '/') - git), git);
	return add_var(l, "PATH", buf_str(&path)) && add_var(l, "GIT_DIR", r->git_dir);
}

/* Variables that point at a repository: croft may run from a hook of another one. */
static bool names_a_repository(const char *var)
{
	static const char *const names[] = {"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CONFIG",
		"GIT_OBJECT_DIRECTORY", "GIT_DIR", "GIT_WORK_TREE", "GIT_IMPLICIT_WORK_TREE",
		"GIT_GRAFT_FILE", "GIT_INDEX_FILE", "GIT_NO_REPLACE_OBJECTS",
		"GIT_REPLACE_REF_BASE", "GIT_PREFIX", "GIT_SHALLOW_FILE", "GIT_COMMON_DIR",
		"GIT_NAMESPACE", "GIT_QUARANTINE_PATH", "GIT_CEILING_DIRECTORIES",
		"GIT_DISCOVERY_ACROSS_FILESYSTEM", "GIT_OPTIONAL_LOCKS", "GIT_PAGER",
		"GIT_TERMINAL_PROMPT"};
	size_t n = strcspn(var, "=");

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strlen(names[i]) == n && memcmp(names[i], var, n) == 0)
			return true;
	return str_starts(var, "GIT_TRACE");
}

/*
 * Replacements and grafts show another history than the one that is there. What the store says, clean, and
 * what is asked here must be the same, and nothing may be judged that is not what will be pushed.
 */
/* Only these are asked to talk to another repository. */
static bool connects(const struct git_run *r)
{
	return str_eq(r->argv[0], "push") || str_eq(r->argv[0], "fetch") ||
	       str_eq(r->argv[0], "ls-remote");
}

static bool own_environment(struct strlist *l, const struct git_run *r)
{
	static const char *const fixed[] = {"GIT_OPTIONAL_LOCKS=0", "GIT_PAGER=cat",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_GRAFT_FILE=/nonexistent", "GIT_NO_LAZY_FETCH=1"};

	for (char **v = environ; v && *v; v++)
		if (!names_a_repository(*v) &&
			(connects(r) || !str_starts(*v, "GIT_ALLOW_PROTOCOL=")) &&
			!strlist_add(l, *v))
			return false;
	/*
	 * In a partial clone git fetches what is missing, by programs that the repository's configuration
	 * names, and of several remote.NAME.uploadpack it takes the first.
	 */
	if (!connects(r) && !strlist_add(l, "GIT_ALLOW_PROTOCOL=none"))
		return false;
	if (!r->interactive && !strlist_add(l, "GIT_TERMINAL_PROMPT=0"))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(fixed); i++)
		if (!strlist_add(l, fixed[i]))
			return false;
	return true;
}

/* Both lists end with NULL for exec. */
static bool close_list(struct strlist *l)
{
	if (!strlist_add(l, ""))
		return false;
	l->n--;
	free(l->v[l->n]);
	l->v[l->n] = NULL;
	return true;
}

static bool make_lists(
	struct strlist *argv, struct strlist *env, const struct git_run *r, const char *git)
{
	if (!make_words(argv, r))
		return false;
	if (r->git_dir ? !clean_environment(env, r, git) : !own_environment(env, r))
		return false;
	for (const char *const *v = r->env; v && *v; v++)
		if (!strlist_add(env, *v))
			return false;
	return close_list(argv) && close_list(env);
}

/* ------------------------------------------------------------------ start and end */

#define STACK_B 65536u

struct start {
	const char *git, *dir;
	char **argv, **env;
	const int *fds;
	uint64_t data_max_b;
	bool own_group;
	pid_t parent;
	int error;
};

/* Memory of its own; a limit that is lower already stays. */
static int limit_data(uint64_t max_b)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_DATA, &l) < 0)
		return -1;
	l.rlim_cur = MIN_OF(l.rlim_cur, (rlim_t)max_b);
	return setrlimit(RLIMIT_DATA, &l);
}

/* In the new process, which has our memory until the exec: only system calls. */
static int child_main(void *arg)
{
	struct start *s = arg;
	sigset_t none;

	for (int sig = 1; sig <= SIGRTMAX; sig++)
		signal(sig, SIG_DFL);
	/* It ends with us. Where we are gone already, nobody would tell it. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != s->parent)
		_exit(127);
	if (s->own_group)
		setsid();
	for (int i = 0; i < 3; i++)
		if (dup2(s->fds[i], i) < 0)
			goto failed;
	if (chdir(s->dir) < 0)
		goto failed;
	if (s->data_max_b && limit_data(s->data_max_b) < 0)
		goto failed;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execve(s->git, s->argv, s->env);
failed:
	s->error = errno;
	_exit(127);
}

static int spawn(struct git_child *ret, const char *git, char **argv, char **env, const char *dir,
	const int fds[3], uint64_t data_max_b)
{
	struct start s = {.git = git,
		.data_max_b = data_max_b,
		.dir = dir,
		.argv = argv,
		.env = env,
		.fds = fds,
		.own_group = ret->own_group,
		.parent = getpid()};
	/* From the heap: AddressSanitizer would keep marks of it on whatever is mapped there next. */
	cleanup_free char *stack = malloc(STACK_B);
	sigset_t all, before;
	int r;

	if (!stack)
		return -ENOMEM;
	/* No handler of ours may run there. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret->pid = clone(child_main, stack + STACK_B, CLONE_VM | CLONE_VFORK | SIGCHLD, &s);
	r = ret->pid < 0 ? -errno : -s.error;
	if (r < 0 && ret->pid > 0)
		git_child_wait(ret);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

int git_child_start(
	struct git_child *ret, const struct git_run *r, int in, int out, int err, struct err *e)
{
	cleanup_strlist struct strlist argv = STRLIST_INIT(WORDS_MAX);
	cleanup_strlist struct strlist env = STRLIST_INIT(WORDS_MAX);
	struct git_child c = {.own_group = !r->interactive || r->git_dir};
	const char *dir = r->dir ? r->dir : r->git_dir ? r->git_dir : "/";
	const char *git;
	int rc;

	rc = git_path(&git, e);
	if (rc < 0)
		return rc;
	if (!r->git_dir && !r->muted && !str_eq(dir, "/"))
		return err_set(
			e, EINVAL, "run git in %s without looking at its configuration", dir);
	if (!make_lists(&argv, &env, r, git))
		return err_set(e, ENOMEM, "start git");
	rc = spawn(&c, git, argv.v, env.v, dir, (const int[3]){in, out, err}, r->data_max_b);
	if (rc < 0)
		return err_set(e, -rc, "start %s in %s", git, dir);
	*ret = c;
	return 0;
}

int git_child_wait(struct git_child *c)
{
	int status, r;

	do
		r = waitpid(c->pid, &status, 0);
	while (r < 0 && errno == EINTR);
	c->pid = 0;
	if (r < 0)
		return 255; /* somebody else took its status: not a success */
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ------------------------------------------------------------------ stuck */

static int read_proc(const struct git_child *c, const char *name, char *ret, size_t size)
{
	char path[64];
	cleanup_fd int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)c->pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, ret, size - 1);
	ret[n > 0 ? n : 0] = '\0';
	return n > 0 ? 0 : -ENOENT;
}

/* What stands at an address of its memory, as far as it is text. */
static void read_text(const struct git_child *c, unsigned long at, char *ret, size_t size)
{
	char path[64];
	cleanup_fd int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)c->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : pread(fd, ret, size - 1, (off_t)at);
	ret[n > 0 ? n : 0] = '\0';
}

/* Does it read from a named pipe? From pipes to its own children it may read for long. */
static bool is_named_pipe(const struct git_child *c, unsigned long fd, char *ret, size_t size)
{
	char link[64];
	struct stat st;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/fd/%lu", (int)c->pid, fd);
	n = readlink(link, ret, size - 1);
	ret[n > 0 ? n : 0] = '\0';
	return fd > 2 && ret[0] == '/' && stat(link, &st) == 0 && S_ISFIFO(st.st_mode);
}

/* Without an end. git keeps /dev/null and the terminal open, and takes a few bytes of the random ones. */
static bool is_endless(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev != makedev(1, 3) &&
	       st->st_rdev != makedev(1, 8) && st->st_rdev != makedev(1, 9) &&
	       major(st->st_rdev) != 4 && major(st->st_rdev) != 5 && major(st->st_rdev) != 136;
}

/* Does it hold a device open that gives bytes for ever? */
static bool reads_device(const struct git_child *c, char *ret_file, size_t size)
{
	char path[64];
	cleanup_dir DIR *d = NULL;
	struct dirent *de;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)c->pid);
	d = opendir(path);
	while (d && (de = readdir(d))) {
		struct stat st;
		ssize_t n;

		if (strlen(de->d_name) == 1 && de->d_name[0] < '3')
			continue;
		if (fstatat(dirfd(d), de->d_name, &st, 0) < 0 || !is_endless(&st))
			continue;
		n = readlinkat(dirfd(d), de->d_name, ret_file, size - 1);
		ret_file[n > 0 ? n : 0] = '\0';
		return true;
	}
	return false;
}

bool git_child_stuck(struct git_child *c, char *ret_file, size_t size)
{
	char now[sizeof(c->waits)];
	unsigned long arg[2];
	long nr;
	bool waits = false;

	ret_file[0] = '\0';
	if (reads_device(c, ret_file, size))
		return true;
	if (read_proc(c, "syscall", now, sizeof(now)) < 0 ||
		sscanf(now, "%ld %lx %lx", &nr, &arg[0], &arg[1]) != 3)
		return false;
	if (nr == SYS_openat || nr == SYS_openat2) {
		read_text(c, arg[1], ret_file, size);
		waits = true;
#ifdef SYS_open
	} else if (nr == SYS_open) {
		read_text(c, arg[0], ret_file, size);
		waits = true;
#endif
	} else if (nr == SYS_read) {
		waits = is_named_pipe(c, arg[0], ret_file, size);
	}
	/* The same call with the same arguments each time we look */
	c->waits_n = waits && str_eq(now, c->waits) ? c->waits_n + 1 : 0;
	memcpy(c->waits, now, sizeof(now));
	return c->waits_n >= GIT_STUCK_AFTER;
}

int git_stuck(struct err *e, const char *file)
{
	cleanup_buf struct buf b = BUF_INIT(8192);

	str_show(&b, file, MIN_OF(strlen(file), (size_t)400));
	return err_refuse(e,
		"git waits for %s, which is a pipe or a device and no file; remove it, and look "
		"for "
		"others with: find . -type p -o -type c",
		b.len ? b.data : "a file");
}

void git_child_stop(struct git_child *c)
{
	if (c->pid <= 0)
		return;
	if (c->own_group)
		kill(-c->pid, SIGKILL);
	kill(c->pid, SIGKILL);
	git_child_wait(c);
}

int git_high_fd(int fd)
{
	int high;

	if (fd < 0 || fd > 2)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	close(fd);
	return high;
}

int git_null_fd(void)
{
	return git_high_fd(open("/dev/null", O_RDWR | O_CLOEXEC));
}

/* What git was asked to do: the first word that is no option. */
static const char *what_of(const struct git_run *r)
{
	const char *const *p = r->argv;

	while (p[1] && **p == '-')
		p += str_eq(*p, "-c") && p[2] ? 2 : 1;
	return *p;
}

/* The object that git complains about not having: "fatal: bad object 0123…". */
static bool missing_object(const char *said, char ret[OID_HEX_MAX + 1])
{
	static const char *const signs[] = {"bad object ", "bad tree object ",
		"unable to read tree ", "unable to read tree (", "unable to read ",
		"Could not read ", "missing blob object '"};

	for (size_t i = 0; i < ARRAY_SIZE(signs); i++) {
		const char *p = strstr(said, signs[i]);
		size_t n;

		if (!p)
			continue;
		p += strlen(signs[i]);
		n = strspn(p, "0123456789abcdef");
		if (n != 40 && n != 64)
			continue;
		snprintf(ret, OID_HEX_MAX + 1, "%.*s", (int)n, p);
		return true;
	}
	return false;
}

int git_failed(struct err *e, const struct git_run *r, int status, const struct buf *said)
{
	cleanup_buf struct buf b = BUF_INIT(4 * GIT_STDERR_MAX);
	char object[OID_HEX_MAX + 1];
	size_t n = said->len;

	while (n > 0 && (said->data[n - 1] == '\n' || said->data[n - 1] == ' '))
		n--;
	for (size_t i = 0, end; i < n; i = end + 1) {
		const char *nl = memchr(said->data + i, '\n', n - i);

		end = nl ? (size_t)(nl - said->data) : n;
		buf_adds(&b, i ? "; " : ": ");
		str_show(&b, said->data + i, end - i);
	}
	*e = (struct err){.kind = ERR_FAILED, .errnum = EIO};
	if (missing_object(buf_str(&b), object))
		snprintf(e->msg, sizeof(e->msg),
			"the object %s is needed, and is missing or damaged in the repository; git "
			"fsck tells what else is (git %s%s)",
			object, what_of(r), buf_str(&b));
	else
		snprintf(e->msg, sizeof(e->msg), "git %s failed with status %d%s", what_of(r),
			status, buf_str(&b));
	return -EIO;
}
