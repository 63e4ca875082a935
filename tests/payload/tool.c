/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program that the command-line tests run inside a sandbox: one small act per first argument.
 * Static, so that it depends on nothing of the sandbox but the kernel. Waiting acts print "ready"
 * first, so that no test has to guess when they are.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define FORKS_MAX 65536

static void say(const char *s)
{
	size_t n = strlen(s);

	while (n) {
		ssize_t w = write(1, s, n);

		if (w <= 0)
			_exit(3);
		s += w;
		n -= (size_t)w;
	}
}

/* Every open descriptor and what it is, without the one used for looking. */
static int act_fds(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	for (int fd = 0; fd < 4096; fd++) {
		char link[64], target[4096];

		if (fcntl(fd, F_GETFD) < 0)
			continue;
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		ssize_t n = readlink(link, target, sizeof(target) - 1);
		printf("%d %.*s\n", fd, (int)(n < 0 ? 0 : n), target);
	}
	return 0;
}

static int act_isatty(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	printf("%d%d%d session %d foreground %d\n", isatty(0), isatty(1), isatty(2),
		getsid(0) > 0 && tcgetsid(0) == getsid(0), tcgetpgrp(0) == getpgrp());
	return 0;
}

static void print_size(const char *word)
{
	struct winsize w = {0};

	ioctl(0, TIOCGWINSZ, &w);
	char line[64];
	snprintf(line, sizeof(line), "%s %ux%u\n", word, w.ws_row, w.ws_col);
	say(line);
}

/* The size of the terminal now, and after one SIGWINCH. */
static int act_winch(int argc, char **argv)
{
	sigset_t s;
	int sig;

	(void)argc;
	(void)argv;
	sigemptyset(&s);
	sigaddset(&s, SIGWINCH);
	sigprocmask(SIG_BLOCK, &s, NULL);
	print_size("ready");
	sigwait(&s, &sig);
	print_size("resized");
	return 0;
}

/* Wait for one of the usual signals, name it, and exit with its number plus 40. */
static int act_sigwait(int argc, char **argv)
{
	sigset_t s;
	int sig;
	char line[32];

	(void)argc;
	(void)argv;
	sigemptyset(&s);
	sigaddset(&s, SIGTERM);
	sigaddset(&s, SIGINT);
	sigaddset(&s, SIGHUP);
	sigaddset(&s, SIGUSR1);
	sigaddset(&s, SIGUSR2);
	sigaddset(&s, SIGQUIT);
	sigprocmask(SIG_BLOCK, &s, NULL);
	say("ready\n");
	sigwait(&s, &sig);
	snprintf(line, sizeof(line), "got %d\n", sig);
	say(line);
	return 40 + sig;
}

static int act_hold(int argc, char **argv)
{
	char c;

	(void)argc;
	(void)argv;
	say("ready\n");
	while (read(0, &c, 1) > 0)
		;
	return 0;
}

static int act_pause(int argc, char **argv)
{
	(void)argv;
	if (argc > 0) { /* "pause stubborn" */
		signal(SIGTERM, SIG_IGN);
		signal(SIGINT, SIG_IGN);
		signal(SIGHUP, SIG_IGN);
		signal(SIGQUIT, SIG_IGN);
	}
	say("ready\n");
	for (;;)
		pause();
	return 0;
}

static int vfork_child(void *arg)
{
	(void)arg;
	say("ready\n");
	for (;;)
		pause();
	return 0;
}

/* Wait in vfork() for a child that does nothing; "vfork stranger": it has another parent. */
static int act_vfork(int argc, char **argv)
{
	static char stack[65536];

	(void)argv;
	clone(vfork_child, stack + sizeof(stack),
		CLONE_VM | CLONE_VFORK | SIGCHLD | (argc > 0 ? CLONE_PARENT : 0), NULL);
	return 1;
}

/* Leave a process behind that has cut every tie, the way a server does; it says "ready" once it is. */
static int act_daemon(int argc, char **argv)
{
	int p[2];
	char c;

	(void)argc;
	(void)argv;
	if (pipe(p))
		return 1;
	pid_t child = fork();
	if (child < 0)
		return 1;
	if (!child) {
		setsid();
		signal(SIGHUP, SIG_IGN);
		signal(SIGTERM, SIG_IGN);
		if (fork())
			_exit(0);
		close(0);
		close(1);
		close(2);
		if (write(p[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	waitpid(child, NULL, 0);
	if (read(p[0], &c, 1) != 1)
		return 1;
	say("ready\n");
	return 0;
}

/* A full-screen program in little: raw mode, alternate screen, names each key, ends with q. */
static int act_raw(int argc, char **argv)
{
	struct termios old, t;
	unsigned char c;
	char line[32];

	(void)argc;
	(void)argv;
	if (tcgetattr(0, &old))
		return 1;
	t = old;
	cfmakeraw(&t);
	tcsetattr(0, TCSANOW, &t);
	say("\033[?1049hready\r\n");
	while (read(0, &c, 1) == 1 && c != 'q') {
		snprintf(line, sizeof(line), "key %02x\r\n", c);
		say(line);
	}
	tcsetattr(0, TCSANOW, &old);
	say("\033[?1049l");
	return 0;
}

/* Try to push input into every terminal within reach. */
static int act_sti(int argc, char **argv)
{
	const char *text = argc > 0 ? argv[0] : "x";
	int tty = open("/dev/tty", O_RDWR);
	int fds[] = {0, 1, 2, tty};
	unsigned worked = 0;

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		for (const char *p = text; *p; p++)
			if (ioctl(fds[i], TIOCSTI, p) == 0)
				worked++;
	/* The same request with high bits set, which a careless filter lets through. */
	for (const char *p = text; *p; p++)
		if (syscall(SYS_ioctl, 0, TIOCSTI | (1ul << 32), p) == 0)
			worked++;
	printf("%u characters\nsti done\n", worked);
	return 0;
}

static int act_alloc(int argc, char **argv)
{
	size_t mib = argc > 0 ? strtoul(argv[0], NULL, 10) : 1;
	char line[64];

	for (size_t i = 0; i < mib; i++) {
		char *p = mmap(
			NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED) {
			snprintf(line, sizeof(line), "refused after %zu MiB\n", i);
			say(line);
			return 9;
		}
		memset(p, 1, 1 << 20);
	}
	say("allocated\n");
	return 0;
}

/* Start up to N children that wait; say how many the system gave; end them all. */
static int act_forks(int argc, char **argv)
{
	unsigned long want = argc > 0 ? strtoul(argv[0], NULL, 10) : 10, got = 0;
	static pid_t pids[FORKS_MAX];
	int why = 0;

	while (got < want && got < FORKS_MAX) {
		pid_t p = fork();

		if (p < 0) {
			why = errno;
			break;
		}
		if (!p)
			for (;;)
				pause();
		pids[got++] = p;
	}
	printf("forks %lu errno %d\n", got, why);
	for (unsigned long i = 0; i < got; i++)
		kill(pids[i], SIGKILL);
	while (wait(NULL) > 0)
		;
	return 0;
}

/* Burn processor time on N children for MS milliseconds; say how much all of them got. */
static int act_spin(int argc, char **argv)
{
	unsigned long ms = argc > 0 ? strtoul(argv[0], NULL, 10) : 100;
	unsigned long children = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
	struct timespec start, now;
	struct rusage u;

	for (unsigned long i = 0; i < children; i++) {
		if (fork())
			continue;
		clock_gettime(CLOCK_MONOTONIC, &start);
		do
			clock_gettime(CLOCK_MONOTONIC, &now);
		while ((unsigned long)((now.tv_sec - start.tv_sec) * 1000 +
				       (now.tv_nsec - start.tv_nsec) / 1000000) < ms);
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	getrusage(RUSAGE_CHILDREN, &u);
	printf("cpu_ms %ld\n", (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 +
				       (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000);
	return 0;
}

/* Write BYTES to FILE in steps; say how many went in and why it ended. */
static int act_fill(int argc, char **argv)
{
	static char block[1 << 16];
	unsigned long long want, done = 0;
	int why = 0;

	if (argc < 2)
		return 2;
	signal(SIGXFSZ, SIG_IGN);
	int fd = open(argv[0], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	want = strtoull(argv[1], NULL, 10);
	if (fd < 0)
		why = errno;
	while (fd >= 0 && done < want) {
		ssize_t n = write(fd, block, sizeof(block));

		if (n < 0) {
			why = errno;
			break;
		}
		done += (unsigned long long)n;
	}
	printf("filled %llu errno %d\n", done, why);
	return 0;
}

/* BYTES of a fixed pattern on stdout. */
static int act_noise(int argc, char **argv)
{
	static unsigned char block[1 << 16];
	unsigned long long left = argc > 0 ? strtoull(argv[0], NULL, 10) : 0;

	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = (unsigned char)(i * 31 + (i >> 8));
	while (left) {
		size_t n = left < sizeof(block) ? (size_t)left : sizeof(block);
		ssize_t w = write(1, block, n);

		if (w <= 0)
			return 4;
		left -= (unsigned long long)w;
	}
	return 0;
}

static const struct act {
	const char *name;
	int (*run)(int argc, char **argv);
} acts[] = {
	{"fds", act_fds},
	{"isatty", act_isatty},
	{"winch", act_winch},
	{"sigwait", act_sigwait},
	{"hold", act_hold},
	{"pause", act_pause},
	{"vfork", act_vfork},
	{"daemon", act_daemon},
	{"raw", act_raw},
	{"sti", act_sti},
	{"alloc", act_alloc},
	{"forks", act_forks},
	{"spin", act_spin},
	{"fill", act_fill},
	{"noise", act_noise},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(acts) / sizeof(acts[0]); i++)
		if (!strcmp(argv[1], acts[i].name))
			return acts[i].run(argc - 2, argv + 2);
	fprintf(stderr, "tool: no such act\n");
	return 2;
}
