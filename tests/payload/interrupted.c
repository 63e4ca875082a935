/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on files under a fast timer whose handler lacks SA_RESTART. Prints how many of each kind were made
 * and how many failed with EINTR: "reads N EINTR, changes N EINTR, metadata N EINTR, waits N EINTR". The
 * waits are reads of a pipe that nobody writes to: they show that signals come, and that one ends a wait.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#define PERIOD_US 300
#define TICKS 1500
#define CALLS_MAX 200000 /* of one kind, on a machine that is fast */
#define WAIT_EVERY 64

struct kind {
	unsigned long calls, cut;
};

static volatile sig_atomic_t ticks;

static void on_tick(int sig)
{
	(void)sig;
	ticks++;
}

static long count(struct kind *k, long rc)
{
	k->calls++;
	k->cut += rc < 0 && errno == EINTR;
	return rc;
}

static void count_open(struct kind *k, int fd)
{
	if (count(k, fd) >= 0)
		close(fd);
}

static void change(struct kind *k)
{
	count_open(k, open("a.tmp", O_WRONLY | O_CREAT, 0644));
	count_open(k, open("a.tmp", O_WRONLY | O_TRUNC));
	count(k, rename("a.tmp", "b.tmp"));
	count(k, unlink("b.tmp"));
	count_open(k, open("c.tmp", O_RDWR | O_CREAT | O_EXCL, 0600));
	count(k, unlink("c.tmp"));
	count(k, mkdir("d.tmp", 0755));
	count(k, rmdir("d.tmp"));
}

int main(void)
{
	struct sigaction sa = {.sa_handler = on_tick};
	struct itimerval it = {{0, PERIOD_US}, {0, PERIOD_US}};
	struct kind reads = {0}, changes = {0}, metadata = {0}, waits = {0};
	struct stat st;
	int nothing[2];
	char c;

	if (pipe(nothing) < 0 || mkdir("m.tmp", 0755) < 0)
		return 1;
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &it, NULL);
	for (unsigned long n = 0; ticks < TICKS && changes.calls < CALLS_MAX; n++) {
		change(&changes);
		count_open(&reads, open("/etc/passwd", O_RDONLY));
		count(&reads, stat("/etc/passwd", &st));
		count(&reads, access("m.tmp", R_OK));
		count(&metadata, chmod("m.tmp", 0700));
		count(&metadata, utimensat(AT_FDCWD, "m.tmp", NULL, 0));
		if (n % WAIT_EVERY == 0)
			count(&waits, read(nothing[0], &c, 1));
	}
	printf("reads %lu %lu, changes %lu %lu, metadata %lu %lu, waits %lu %lu\n", reads.calls,
		reads.cut, changes.calls, changes.cut, metadata.calls, metadata.cut, waits.calls,
		waits.cut);
	return 0;
}
