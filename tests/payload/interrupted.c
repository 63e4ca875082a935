/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on files under a fast timer whose handler lacks SA_RESTART. Prints how many of each kind were made
 * and how many failed with EINTR: "reads N EINTR, changes N EINTR".
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

static volatile sig_atomic_t ticks;

static void on_tick(int sig)
{
	(void)sig;
	ticks++;
}

static unsigned long cut_short(long rc)
{
	return rc < 0 && errno == EINTR;
}

int main(void)
{
	struct sigaction sa = {.sa_handler = on_tick};
	struct itimerval it = {{0, PERIOD_US}, {0, PERIOD_US}};
	unsigned long reads = 0, reads_cut = 0, changes = 0, changes_cut = 0;
	struct stat st;

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &it, NULL);
	while (ticks < TICKS) {
		int fd = open("a.tmp", O_WRONLY | O_CREAT, 0644);

		changes_cut += cut_short(fd);
		if (fd >= 0)
			close(fd);
		fd = open("/etc/passwd", O_RDONLY);
		reads_cut += cut_short(fd);
		if (fd >= 0)
			close(fd);
		reads_cut += cut_short(stat("/etc/passwd", &st)) + cut_short(access("a.tmp", R_OK));
		changes_cut += cut_short(rename("a.tmp", "b.tmp")) + cut_short(unlink("b.tmp"));
		reads += 3;
		changes += 3;
	}
	printf("reads %lu %lu, changes %lu %lu\n", reads, reads_cut, changes, changes_cut);
	return 0;
}
