/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay between the user's terminal and the command's pty; see terminal.h for order and trust.
 *
 * Flow:    one buffer each way, and a side is read only when its buffer is empty, so a flood of
 *          output waits in the sandbox and a flood of input in the user's terminal. Nothing is
 *          ever thrown away while both ends live.
 * Blocking: the master and the descriptors we opened ourselves do not block. A host descriptor that
 *          had to be borrowed may: it is used only when poll says so, HOST_PIECE bytes at a time.
 * Failure: the user's terminal is gone: close the master, which is a hang-up to the command.
 */
#include "session/stdio/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "os/forced.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif
#ifndef TIOCGDEV
#define TIOCGDEV _IOR('T', 0x32, unsigned int)
#endif

#define HOST_PIECE 256u           /* bytes per write where a write might block */
#define DRAIN_MAX (1024u * 1024u) /* output copied after the command has ended */
#define DRAIN_STALL_MS 2000       /* and how long the user's terminal may refuse to take it */

/* ---- opening ---- */

/* Both ends without a path: the slave of exactly this master, whatever /dev/pts holds. */
int terminal_pair(int *ret_master, int *ret_slave, struct err *e)
{
	cleanup_fd int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	cleanup_fd int slave = -1;
	int unlock = 0;

	if (master < 0)
		return err_set(e, errno, "open a pseudo-terminal");
	if (ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return err_set(e, errno, "unlock the pseudo-terminal");
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return err_set(e, errno, "open the pseudo-terminal's other end");
	*ret_master = take_fd(&master);
	*ret_slave = take_fd(&slave);
	return 0;
}

static bool fd_permits(int fd, int accmode)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && ((flags & O_ACCMODE) == O_RDWR || (flags & O_ACCMODE) == accmode);
}

/* Another open file description of the same terminal, or -1. The second way is for a terminal that
 * belongs to somebody else, as after su. */
static int tty_reopen(int fd, int accmode)
{
	const int flags = accmode | O_NOCTTY | O_NONBLOCK | O_CLOEXEC;
	unsigned dev = 0, own_dev = 0;
	char path[32];
	int own;

	if (forced_fail("tty-reopen"))
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	own = open(path, flags);
	if (own < 0)
		own = open("/dev/tty", flags);
	if (own >= 0 && (ioctl(fd, TIOCGDEV, &dev) < 0 || ioctl(own, TIOCGDEV, &own_dev) < 0 ||
				dev != own_dev))
		close_fd(&own);
	return own;
}

/*
 * The first of the given descriptors that is a terminal open for this. O_NONBLOCK is a property of
 * the open file description, which the shell shares: so open the terminal once more, for us alone.
 */
static int host_open(const struct terminal *t, const int stdio[3], const int order[3], int accmode,
	bool *ret_own)
{
	int fd = -1, own;

	for (int i = 0; i < 3 && fd < 0; i++)
		if (t->is_tty[order[i]] && fd_permits(stdio[order[i]], accmode))
			fd = stdio[order[i]];
	if (fd < 0)
		return -1;
	own = tty_reopen(fd, accmode);
	*ret_own = own >= 0;
	return own >= 0 ? own : fd;
}

/* Is the user's terminal one of the old eight-bit kind? Only when everything says so. */
static bool host_latin(const struct termios *modes)
{
	const char *names[] = {"LC_ALL", "LC_CTYPE", "LANG"}, *charset = NULL;

	if (modes->c_iflag & IUTF8)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *v = getenv(names[i]);

		if (v && *v) {
			charset = strchr(v, '.');
			break;
		}
	}
	return charset &&
	       (!strncasecmp(charset, ".iso8859", 8) || !strncasecmp(charset, ".iso-8859", 9));
}

static int host_tty(const struct terminal *t)
{
	return t->host_in >= 0 ? t->host_in : t->host_out;
}

/* The pty starts as the user's terminal is. It leaves "\n" alone where that terminal goes on to
 * turn it into "\r\n" itself, because it stays as it is. */
static void pty_dress(struct terminal *t)
{
	struct termios modes;
	const char *term = getenv("TERM");

	if (host_tty(t) >= 0 && tcgetattr(host_tty(t), &modes) == 0) {
		t->filter.latin = host_latin(&modes);
		if (!t->is_tty[0] || !t->is_tty[1])
			modes.c_oflag &= ~(tcflag_t)OPOST;
		tcsetattr(t->slave, TCSANOW, &modes);
	}
	t->filter.console = term && str_eq(term, "linux");
	terminal_resize(t);
}

int terminal_open(struct terminal *t, const int stdio[3], int child_stdio[3], struct err *e)
{
	static const int in_order[3] = {0, 1, 2}, out_order[3] = {1, 2, 0};
	bool any = false;
	int rc;

	memset(t, 0, sizeof(*t));
	t->opened = true;
	t->master = t->slave = t->host_in = t->host_out = -1;
	for (int i = 0; i < 3; i++) {
		child_stdio[i] = stdio[i];
		t->is_tty[i] = stdio[i] >= 0 && isatty(stdio[i]);
		any = any || t->is_tty[i];
	}
	if (!any)
		return 0;
	rc = terminal_pair(&t->master, &t->slave, e);
	if (rc < 0)
		return rc;
	t->host_in = host_open(t, stdio, in_order, O_RDONLY, &t->own_in);
	t->host_out = host_open(t, stdio, out_order, O_WRONLY, &t->own_out);
	t->held = !t->is_tty[0];
	pty_dress(t);
	for (int i = 0; i < 3; i++)
		if (t->is_tty[i])
			child_stdio[i] = t->slave;
	return 0;
}

void terminal_close_slave(struct terminal *t)
{
	if (t->opened)
		close_fd(&t->slave);
}

/* ---- the user's terminal ---- */

/* Job control concerns only a terminal that is our controlling one: elsewhere the question
 * fails. */
static bool in_foreground(const struct terminal *t)
{
	pid_t group = tcgetpgrp(t->host_in);

	return group <= 0 || group == getpgrp();
}

/* Without being stopped for it if the foreground has changed hands meanwhile. */
static int set_modes(int fd, int when, const struct termios *modes)
{
	sigset_t block, before;
	int rc;

	sigemptyset(&block);
	sigaddset(&block, SIGTTOU);
	sigprocmask(SIG_BLOCK, &block, &before);
	rc = tcsetattr(fd, when, modes) < 0 ? -errno : 0;
	if (rc == -EINTR)
		rc = tcsetattr(fd, TCSANOW, modes) < 0 ? -errno : 0;
	sigprocmask(SIG_SETMASK, &before, NULL);
	return rc;
}

static int raw_enter(struct terminal *t)
{
	struct termios modes;
	int rc;

	if (t->raw || t->held || t->host_in < 0 || !in_foreground(t))
		return 0;
	if (tcgetattr(t->host_in, &t->saved) < 0)
		return -errno;
	modes = t->saved;
	modes.c_iflag &=
		~(tcflag_t)(IGNBRK | BRKINT | PARMRK | ISTRIP | INLCR | IGNCR | ICRNL | IXON);
	modes.c_lflag &= ~(tcflag_t)(ECHO | ECHONL | ICANON | ISIG | IEXTEN);
	if (t->is_tty[1]) /* else whoever reads our stdout writes here, and means lines */
		modes.c_oflag &= ~(tcflag_t)OPOST;
	modes.c_cc[VMIN] = 1;
	modes.c_cc[VTIME] = 0;
	rc = set_modes(t->host_in, TCSADRAIN, &modes); /* what was typed ahead is for the command */
	t->raw = rc == 0;
	return rc;
}

/* TCSAFLUSH: answers of the terminal which nobody read must not be typed into the user's shell.
 * When we are no longer in the foreground, the shell has put its own modes back already. */
static void raw_leave(struct terminal *t)
{
	if (t->raw && in_foreground(t))
		set_modes(t->host_in, TCSAFLUSH, &t->saved);
	t->raw = false;
}

int terminal_start(struct terminal *t, struct err *e)
{
	int rc = terminal_active(t) ? raw_enter(t) : 0;

	return rc < 0 ? err_set(e, -rc, "set the terminal's mode") : 0;
}

void terminal_resize(struct terminal *t)
{
	struct winsize size;

	if (terminal_active(t) && host_tty(t) >= 0 && ioctl(host_tty(t), TIOCGWINSZ, &size) == 0)
		ioctl(t->master, TIOCSWINSZ, &size);
}

void terminal_hold_input(struct terminal *t)
{
	if (!terminal_active(t))
		return;
	raw_leave(t);
	t->held = true;
}

void terminal_release_input(struct terminal *t)
{
	struct termios modes;

	if (!terminal_active(t) || !t->held)
		return;
	t->held = false;
	if (!t->is_tty[0] && t->is_tty[1] && tcgetattr(t->master, &modes) == 0) {
		modes.c_oflag |= OPOST; /* the user's terminal stops doing it now */
		tcsetattr(t->master, TCSANOW, &modes);
	}
	raw_enter(t);
}

/* ---- relay ---- */

static void hang_up(struct terminal *t)
{
	close_fd(&t->master);
	raw_leave(t); /* only the output may be gone */
	t->in_n = t->in_off = t->out_n = t->out_off = 0;
}

static bool later(int errnum)
{
	return errnum == EAGAIN || errnum == EINTR;
}

static void host_write(struct terminal *t)
{
	size_t n = t->out_n - t->out_off;
	ssize_t w;

	if (n == 0)
		return;
	if (t->host_out < 0) { /* nobody to show it to */
		t->out_n = t->out_off = 0;
		return;
	}
	w = write(t->host_out, t->out + t->out_off, t->own_out ? n : MIN_OF(n, HOST_PIECE));
	if (w > 0)
		t->out_off += (size_t)w;
	else if (w < 0 && !later(errno))
		hang_up(t);
	if (t->out_off == t->out_n)
		t->out_n = t->out_off = 0;
}

/* Only with an empty out buffer. Returns how much was read: 0 when there is nothing, now or
 * ever. */
static size_t master_read(struct terminal *t)
{
	unsigned char raw[TERMINAL_BUF];
	ssize_t n = read(t->master, raw, sizeof(raw));

	if (n > 0) {
		t->out_n = termfilter_run(&t->filter, raw, (size_t)n, t->out);
		t->out_off = 0;
		if (t->capture)
			capture_add(t->capture, t->out, t->out_n);
		return (size_t)n;
	}
	if (n == 0 || !later(errno)) /* EIO: nobody has the slave open */
		t->out_eof = true;
	return 0;
}

static void master_write(struct terminal *t)
{
	ssize_t w;

	if (t->in_n == t->in_off)
		return;
	w = write(t->master, t->in + t->in_off, t->in_n - t->in_off);
	if (w > 0)
		t->in_off += (size_t)w;
	else if (w < 0 && !later(errno))
		t->in_off = t->in_n; /* nobody will read it */
	if (t->in_off == t->in_n)
		t->in_n = t->in_off = 0;
}

static void host_read(struct terminal *t)
{
	ssize_t n;

	if (!in_foreground(t)) { /* it was taken from us; a read would stop us */
		t->raw = false;
		return;
	}
	n = read(t->host_in, t->in, sizeof(t->in));
	if (n > 0)
		t->in_n = (size_t)n;
	else if (n == 0 || (!later(errno) && in_foreground(t)))
		hang_up(t);
}

int terminal_fds(struct terminal *t, struct pollfd fds[TERMINAL_FDS])
{
	bool out = t->out_n > t->out_off, in = t->in_n > t->in_off;
	short events;
	int n = 0;

	if (!terminal_active(t))
		return 0;
	raw_enter(t); /* a background job may have become the foreground one */
	/* A descriptor with nothing to wait for would report its hang-up in a busy loop: leave
	 * it out. Not so the user's terminal, whose hang-up ends the relay. */
	events = (short)((out || t->out_eof ? 0 : POLLIN) | (in && !t->out_eof ? POLLOUT : 0));
	if (events)
		fds[n++] = (struct pollfd){.fd = t->master, .events = events};
	if (t->host_in >= 0)
		fds[n++] = (struct pollfd){
			.fd = t->host_in, .events = t->raw && !in && !t->out_eof ? POLLIN : 0};
	if (out && t->host_out >= 0)
		fds[n++] = (struct pollfd){.fd = t->host_out, .events = POLLOUT};
	return n;
}

static void handle_master(struct terminal *t, short revents)
{
	if (revents & (POLLOUT | POLLHUP | POLLERR))
		master_write(t);
	if ((revents & (POLLIN | POLLHUP | POLLERR)) && t->out_n == t->out_off && !t->out_eof) {
		master_read(t);
		if (t->own_out || t->host_out < 0)
			host_write(t);
	}
}

static void handle_host_in(struct terminal *t, const struct pollfd *p)
{
	if (p->revents & (POLLHUP | POLLERR | POLLNVAL)) {
		hang_up(t);
	} else if ((p->revents & POLLIN) && t->in_n == t->in_off) {
		host_read(t);
		if (t->master >= 0)
			master_write(t);
	}
}

void terminal_handle(struct terminal *t, const struct pollfd *fds, int n)
{
	for (int i = 0; i < n && terminal_active(t); i++) {
		if (!fds[i].revents)
			continue;
		if (fds[i].fd == t->master)
			handle_master(t, fds[i].revents);
		else if (fds[i].events & POLLOUT) /* host_in may be the same descriptor */
			host_write(t);
		else
			handle_host_in(t, &fds[i]);
	}
}

/* ---- stopping and ending ---- */

void terminal_suspend(struct terminal *t)
{
	if (!terminal_active(t))
		return;
	if (t->own_out)
		host_write(t);
	if (terminal_active(t))
		raw_leave(t);
}

void terminal_resume(struct terminal *t)
{
	if (!terminal_active(t))
		return;
	terminal_resize(t);
	raw_enter(t);
}

/* Write out what is buffered; false when the user's terminal does not take it. */
static bool host_flush(struct terminal *t)
{
	while (terminal_active(t) && t->out_n > t->out_off) {
		struct pollfd p = {.fd = t->host_out, .events = POLLOUT};
		int rc = t->host_out < 0 ? 1 : poll(&p, 1, DRAIN_STALL_MS);

		if (rc == 0 || (rc < 0 && errno != EINTR))
			return false;
		host_write(t);
	}
	return terminal_active(t);
}

void terminal_finish(struct terminal *t)
{
	size_t total = 0, n = 1;

	if (!terminal_active(t))
		return;
	close_fd(&t->slave);
	for (; n && total < DRAIN_MAX && host_flush(t) && !t->out_eof; total += n)
		n = master_read(t);
	if (terminal_active(t) && t->out_n == t->out_off) {
		t->out_off = 0;
		t->out_n = termfilter_end(&t->filter, t->out);
		if (t->capture)
			capture_add(t->capture, t->out, t->out_n);
		host_flush(t);
	}
	if (terminal_active(t))
		raw_leave(t);
	close_fd(&t->master);
}

void terminal_done(struct terminal *t)
{
	if (!t->opened)
		return;
	raw_leave(t);
	close_fd(&t->master);
	close_fd(&t->slave);
	if (t->own_in)
		close_fd(&t->host_in);
	if (t->own_out)
		close_fd(&t->host_out);
	t->opened = false;
}
