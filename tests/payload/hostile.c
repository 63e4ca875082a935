/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A neighbour in the same sandbox that does what it can to others, all the time, until it is killed.
 *
 * usage: hostile mild|full|session DIRECTORY
 *
 * session: only waits. Started as "croft" it looks like a process of croft's, for the control.
 * Both: reads, traces and steals descriptors from pid 1 and the reapers; opens their descriptors anew; sends
 * pid 1 every signal and everybody else those that a program takes no notice of; says garbage to every
 * abstract socket and to every port that is open inside, and knocks at an address outside (NOWHERE);
 * forks daemons in sessions of their own, fills pipes, opens descriptors and fills its directory for
 * temporary files, each up to a limit; renames things there and in DIRECTORY; changes its title; writes
 * escape sequences to its output.
 * full: does the first of these to every process, writes into their descriptors, and kills and stops
 * whatever it can signal.
 *
 * Prints one line "took WHAT of PID" when it got something of a process that it must never have, and "there"
 * when it has tried everything once.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define DAEMONS_MAX 16
#define FILL_B (4u << 20)
#define FDS_TRIED 32
#define PIPES_MAX 16
#define FDS_MAX 256
#define PORTS_MAX 16
#define NOWHERE "192.0.2.66" /* for documentation only; tests know its refusals by it */
#define PAUSE_MS 20 /* so that the neighbour gets its turn on a machine with one core */

static bool full;
static const char *scratch; /* the directory for temporary files */
static pid_t ours[DAEMONS_MAX];

static bool is_ours(pid_t pid)
{
	for (int i = 0; i < DAEMONS_MAX; i++)
		if (ours[i] == pid)
			return true;
	return pid == getpid();
}

/* Pid 1 and the reapers: nothing of theirs may ever be had. */
static bool is_crofts(pid_t pid)
{
	static const char start[] = "croft\0session";
	char path[64], text[sizeof(start)] = "";
	int fd;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text));
	if (fd >= 0)
		close(fd);
	return n == (ssize_t)sizeof(text) && memcmp(text, start, sizeof(start)) == 0;
}

/* Asked after the act: before its exec a command, too, looks like a reaper. */
static void took(const char *what, pid_t pid)
{
	if (!is_crofts(pid))
		return;
	printf("took %s of %d\n", what, (int)pid);
	fflush(stdout);
}

/* In full the tracer stays: nobody else is shown the end of what it traces. */
static void trace(pid_t pid)
{
	int status;

	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0)
		return;
	took("trace", pid);
	if (full)
		return;
	ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
	while (waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status) &&
		ptrace(PTRACE_DETACH, pid, NULL, NULL) < 0)
		;
}

static void into(pid_t pid, const char *dir, int n)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s/%d", (int)pid, dir, n);
	fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return;
	took(dir, pid);
	if (full && write(fd, "\033]0;x\007garbage\n", 13) < 0)
		prctl(PR_SET_NAME, "x", 0, 0, 0);
	close(fd);
}

static void open_of(pid_t pid, const char *what)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		took(what, pid);
	if (fd >= 0)
		close(fd);
}

static void pry(pid_t pid)
{
	static const char *const of[] = {"mem", "environ", "root/.", "cwd/.", "maps"};
	char room[64];
	struct iovec here = {room, sizeof(room)}, there = {&here, sizeof(room)};
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0), fd;

	trace(pid);
	if (process_vm_readv(pid, &here, 1, &there, 1, 0) > 0)
		took("memory", pid);
	for (int i = 0; i < FDS_TRIED; i++) {
		fd = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, i, 0);
		if (fd >= 0)
			took("descriptor", pid);
		if (fd >= 0)
			close(fd);
		into(pid, "fd", i);
	}
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		open_of(pid, of[i]);
	if (pidfd >= 0)
		close(pidfd);
}

/* Nobody's default for these is to end, and pid 1 of a sandbox gets no other. */
static void nudge(pid_t pid)
{
	static const int quiet[] = {SIGCONT, SIGURG, SIGWINCH, SIGCHLD};

	for (int sig = 1; pid == 1 && sig < 32; sig++)
		kill(pid, sig);
	for (size_t i = 0; i < sizeof(quiet) / sizeof(quiet[0]); i++)
		kill(pid, quiet[i]);
}

static void hurt(pid_t pid)
{
	if (kill(pid, SIGSTOP) == 0 && pid == 1)
		prctl(PR_SET_NAME, "stop", 0, 0, 0);
	kill(pid, SIGKILL);
}

static void each_process(void)
{
	DIR *d = opendir("/proc");
	struct dirent *de;

	while (d && (de = readdir(d))) {
		pid_t pid = (pid_t)atoi(de->d_name);

		if (pid <= 0 || is_ours(pid))
			continue;
		if (full || is_crofts(pid))
			pry(pid);
		if (pid != 1 || is_crofts(pid))
			nudge(pid);
		if (full && pid != getppid())
			hurt(pid);
	}
	if (d)
		closedir(d);
}

/* Every abstract socket that there is, of whichever type. */
static void each_socket(void)
{
	FILE *f = fopen("/proc/net/unix", "re");
	char line[512], *name;

	while (f && fgets(line, sizeof(line), f)) {
		struct sockaddr_un a = {.sun_family = AF_UNIX};
		socklen_t n;

		line[strcspn(line, "\n")] = '\0';
		name = strstr(line, " @");
		if (!name)
			continue;
		snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "%s", name + 2);
		n = (socklen_t)(sizeof(sa_family_t) + 1 + strlen(name + 2));
		for (int type = SOCK_STREAM; type <= SOCK_SEQPACKET; type++) {
			int fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

			if (fd >= 0 && connect(fd, (struct sockaddr *)&a, n) == 0)
				send(fd, "garbage", 7, MSG_NOSIGNAL);
			if (fd >= 0)
				close(fd);
		}
	}
	if (f)
		fclose(f);
}

static void dial(int fd, const struct sockaddr_in *a)
{
	if (fd < 0)
		return;
	if (connect(fd, (const struct sockaddr *)a, sizeof(*a)) == 0)
		send(fd, "\026\003\001garbage", 10, MSG_NOSIGNAL);
	close(fd);
}

/* What listens inside, and an address that no policy of a test lets through; in the sandbox's own network. */
static void each_port(void)
{
	FILE *f = is_crofts(1) ? fopen("/proc/net/tcp", "re") : NULL;
	char line[256];
	unsigned port, state;
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	if (!f)
		return;
	for (int n = 0; n < PORTS_MAX && fgets(line, sizeof(line), f);) {
		if (sscanf(line, " %*d: %*x:%x %*x:%*x %x", &port, &state) != 2 || state != 10)
			continue;
		a.sin_port = htons((unsigned short)port);
		dial(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), &a);
		n++;
	}
	fclose(f);
	inet_pton(AF_INET, NOWHERE, &a.sin_addr);
	a.sin_port = htons(443);
	dial(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), &a);
	dial(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), &a);
}

/* Full pipes and many descriptors, until it gives them back. */
static void hoard(void)
{
	static char zeros[65536];
	int pipes[PIPES_MAX][2], fds[FDS_MAX], n = 0, held = 0;

	while (n < PIPES_MAX && pipe2(pipes[n], O_NONBLOCK | O_CLOEXEC) == 0) {
		while (write(pipes[n][1], zeros, sizeof(zeros)) > 0)
			;
		n++;
	}
	while (held < FDS_MAX && (fds[held] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		held++;
	while (held > 0)
		close(fds[--held]);
	while (n-- > 0) {
		close(pipes[n][0]);
		close(pipes[n][1]);
	}
}

_Noreturn static void be_daemon(void)
{
	for (int sig = 1; sig < 32; sig++)
		signal(sig, SIG_IGN);
	setsid();
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, 0);
	for (;;)
		pause();
}

/* Daemons come and go, so that process numbers do. */
static void each_daemon(unsigned round)
{
	pid_t *at = &ours[round % DAEMONS_MAX];

	if (*at > 0) {
		kill(*at, SIGKILL);
		waitpid(*at, NULL, 0);
	}
	*at = fork();
	if (*at == 0)
		be_daemon();
}

static void fill(void)
{
	static char zeros[65536];
	char path[4096];
	int fd;
	size_t n = 0;

	snprintf(path, sizeof(path), "%s/hostile", scratch);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	while (fd >= 0 && n < FILL_B && write(fd, zeros, sizeof(zeros)) > 0)
		n += sizeof(zeros);
	if (fd >= 0)
		close(fd);
	unlink(path);
}

static void rename_things(const char *dir, unsigned round)
{
	char a[4096], b[4096];

	snprintf(a, sizeof(a), "%s/.hostile-%u", dir, round % 2);
	snprintf(b, sizeof(b), "%s/.hostile-%u", dir, (round + 1) % 2);
	mkdir(a, 0700);
	if (rename(a, b) < 0)
		rmdir(b);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	while (strcmp(argv[1], "session") == 0)
		pause();
	full = strcmp(argv[1], "full") == 0;
	scratch = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
	for (int sig = 1; sig < 32; sig++)
		signal(sig, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	for (unsigned round = 0;; round++) {
		each_daemon(round);
		each_process();
		each_socket();
		each_port();
		hoard();
		fill();
		rename_things(scratch, round);
		rename_things(argv[2], round);
		memset(argv[1], 'a' + (int)(round % 26), strlen(argv[1]));
		prctl(PR_SET_NAME, round % 2 ? "\033[31mcroft" : "croft", 0, 0, 0);
		printf(round ? "\033]0;owned\007\033[2J\033P$q\033\\" : "there\n");
		fflush(stdout);
		poll(NULL, 0, PAUSE_MS);
	}
}
