/* SPDX-License-Identifier: Apache-2.0 */
/* dnotify tells of names that come, go or are replaced, by one pending SIGIO (src/session/run/guard.h). */
#include "platform.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

static bool told(int fd)
{
	struct signalfd_siginfo si;

	return read(fd, &si, sizeof(si)) == (ssize_t)sizeof(si) && si.ssi_signo == SIGIO;
}

static void changes_are_told(void)
{
	char tmp[64];
	sigset_t set;
	int fd, dir;

	enter_tmpdir(tmp);
	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	CLAIM_CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	CLAIM_CHECK(fd >= 0 && mkdir("in", 0755) == 0 && mkdir("out", 0755) == 0);
	make_file("in/held", "1");
	make_file("in/new", "2");
	make_file("out/other", "3");
	dir = open("in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fcntl(dir, F_NOTIFY, DN_CREATE | DN_DELETE | DN_RENAME | DN_MULTISHOT) < 0)
		CLAIM_SKIP("dnotify: %s", strerror(errno));
	CLAIM_CHECK(!told(fd));
	CLAIM_CHECK(rename("in/new", "in/held") == 0 && told(fd));    /* from here */
	CLAIM_CHECK(rename("out/other", "in/held") == 0 && told(fd)); /* from elsewhere */
	CLAIM_CHECK(rename("in/held", "out/held") == 0 && told(fd));
	make_file("in/held", "4");
	make_file("in/more", "5");
	CLAIM_CHECK(told(fd) && !told(fd)); /* one, however much happened */
	CLAIM_CHECK(unlink("in/held") == 0 && told(fd));
	make_file("out/unseen", "6");
	CLAIM_CHECK(!told(fd));
	CLAIM_CHECK(close(dir) == 0);
	make_file("in/late", "7");
	CLAIM_CHECK(!told(fd)); /* nothing is left behind */
	unlink("in/late");
	unlink("in/more");
	unlink("out/held");
	unlink("out/unseen");
	CLAIM_CHECK(rmdir("in") == 0 && rmdir("out") == 0 && rmdir(tmp) == 0);
}

int main(void)
{
	claim("a watched directory tells of every change of a name", changes_are_told);
	return claim_result();
}
