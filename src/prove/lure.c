/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lure: a process outside every sandbox that lays bait, keeps it, and tells what happened to
 * it.
 *
 * Purpose: be what probes attack. It is a process of the same user with a secret in its environment
 * and in an open descriptor; it listens on sockets, owns shared memory, queues and a tree of files.
 * Talk:    lines on stdin and stdout. First it prints KEY=VALUE for each bait, then "ready". To
 * every line it reads it answers with one line per thing that was touched or changed since, then
 * ".". End:     when stdin closes it removes everything it made. Whoever started it need only go
 * away. Trust:   it runs only for tests and `croft prove`; what it is told by probes (bytes on
 * sockets) it throws away unread.
 */
#include "prove/prove.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "prove/bait.h"

#define LISTEN_MAX 16
#define CALL_EVERY_MS 10

struct listener {
	const char *name;
	int fd;
	bool stream;
};

struct lure {
	struct bait bait;
	struct listener in[LISTEN_MAX];
	size_t in_n;
	char answer[64]; /* abstract name that a probe may listen on; we call it */
	bool answered;
	int nice;
	int shm, sem, msg, secret_fd;
	char mq[48], devshm[48];
	struct buf before;
};

static volatile sig_atomic_t signals_seen;

static void on_signal(int sig)
{
	(void)sig;
	signals_seen = 1;
}

/* ---- sockets ---- */

static void lure_add(struct lure *l, const char *name, int fd, bool stream)
{
	if (fd >= 0 && l->in_n < LISTEN_MAX)
		l->in[l->in_n++] = (struct listener){name, fd, stream};
}

static int unix_at(const char *name, int type, bool bind_it)
{
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	size_t n = strlen(name);
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
	int rc;

	if (fd < 0 || n >= sizeof(sa.sun_path)) {
		close_fd(&fd);
		return -1;
	}
	memcpy(sa.sun_path, name, n);
	if (name[0] == '@')
		sa.sun_path[0] = '\0';
	rc = bind_it ? bind(fd, (struct sockaddr *)&sa, len)
		     : connect(fd, (struct sockaddr *)&sa, len);
	if (rc < 0 || (bind_it && type == SOCK_STREAM && listen(fd, 16) < 0))
		close_fd(&fd);
	return fd;
}

static int inet_at(int type, int *ret_port)
{
	int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(sa);

	if (fd < 0)
		return -1;
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ||
		getsockname(fd, (struct sockaddr *)&sa, &len) < 0 ||
		(type == SOCK_STREAM && listen(fd, 16) < 0))
		close_fd(&fd);
	*ret_port = ntohs(sa.sin_port);
	return fd;
}

static void lay_sockets(struct lure *l)
{
	static const char *const names[] = {"run/docker.sock", "run/bus", "run/agent.sock",
		"run/wayland-0", "run/tmux", "work/service.sock", "work/service/db.sock"};
	static char abstract[64], dgram[64];
	char path[256];
	int port = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", l->bait.dir, names[i]);
		lure_add(l, names[i], unix_at(path, SOCK_STREAM, true), true);
	}
	snprintf(path, sizeof(path), "%s/run/dgram", l->bait.dir);
	lure_add(l, "run/dgram", unix_at(path, SOCK_DGRAM, true), false);
	snprintf(abstract, sizeof(abstract), "@croft-bait-%d", (int)getpid());
	snprintf(dgram, sizeof(dgram), "@croft-bait-%d-dgram", (int)getpid());
	snprintf(l->answer, sizeof(l->answer), "@croft-bait-%d-answer", (int)getpid());
	lure_add(l, "abstract socket", unix_at(abstract, SOCK_STREAM, true), true);
	lure_add(l, "abstract datagram socket", unix_at(dgram, SOCK_DGRAM, true), false);
	printf("abstract=%s\nabstractdgram=%s\nanswer=%s\n", abstract, dgram, l->answer);
	lure_add(l, "TCP port", inet_at(SOCK_STREAM, &port), true);
	printf("tcp=%d\n", port);
	lure_add(l, "UDP port", inet_at(SOCK_DGRAM, &port), false);
	printf("udp=%d\n", port);
}

static void drain(const struct listener *in)
{
	char waste[4096];
	bool touched = false;

	for (;;) {
		int fd = in->stream ? accept4(in->fd, NULL, NULL, SOCK_CLOEXEC)
				    : (int)recv(in->fd, waste, sizeof(waste), MSG_DONTWAIT);

		if (fd < 0)
			break;
		touched = true;
		if (in->stream)
			close(fd);
	}
	if (touched)
		printf("%s was reached\n", in->name);
}

/* ---- shared memory and queues ---- */

static void lay_ipc(struct lure *l, const char *token)
{
	struct {
		long type;
		char text[128];
	} m = {.type = 1};
	key_t key = (key_t)(0x63000000 | (getpid() & 0xffffff));
	char *p, path[128];
	int fd;

	l->shm = shmget(key, 4096, IPC_CREAT | IPC_EXCL | 0600);
	p = l->shm >= 0 ? shmat(l->shm, NULL, 0) : (void *)-1;
	if (p != (void *)-1) {
		snprintf(p, 4096, "%s", token);
		shmdt(p);
	}
	l->sem = semget(key, 1, IPC_CREAT | IPC_EXCL | 0600);
	l->msg = msgget(key, IPC_CREAT | IPC_EXCL | 0600);
	snprintf(m.text, sizeof(m.text), "%s", token);
	if (l->msg >= 0)
		msgsnd(l->msg, &m, sizeof(m.text), IPC_NOWAIT);
	printf("shm=%d\nshmkey=%d\nsem=%d\nmsg=%d\n", l->shm, (int)key, l->sem, l->msg);

	snprintf(l->mq, sizeof(l->mq), "croft-bait-%d", (int)getpid());
	fd = (int)syscall(SYS_mq_open, l->mq, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600, NULL);
	if (fd >= 0) {
		syscall(SYS_mq_timedsend, fd, token, strlen(token), 1u, NULL);
		close(fd);
		printf("mq=%s\n", l->mq);
	} else {
		l->mq[0] = '\0';
	}
	snprintf(l->devshm, sizeof(l->devshm), "croft-bait-%d", (int)getpid());
	snprintf(path, sizeof(path), "/dev/shm/%s", l->devshm);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0) {
		dprintf(fd, "%s\n", token);
		close(fd);
	}
	printf("devshm=%s\n", l->devshm);
}

static void remove_ipc(struct lure *l)
{
	char path[128];

	if (l->shm >= 0)
		shmctl(l->shm, IPC_RMID, NULL);
	if (l->sem >= 0)
		semctl(l->sem, 0, IPC_RMID);
	if (l->msg >= 0)
		msgctl(l->msg, IPC_RMID, NULL);
	if (l->mq[0])
		syscall(SYS_mq_unlink, l->mq);
	snprintf(path, sizeof(path), "/dev/shm/%s", l->devshm);
	unlink(path);
}

/* ---- the answers ---- */

static void call_answer(struct lure *l)
{
	int fd = unix_at(l->answer, SOCK_STREAM, false);

	l->answered |= fd >= 0;
	close_fd(&fd);
}

/* A daemon that a probe left holds this lock. */
static void check_daemon(struct lure *l)
{
	char path[256];
	cleanup_fd int fd = -1;

	snprintf(path, sizeof(path), "%s/work/daemon.lock", l->bait.dir);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
		printf("a daemon is still running\n");
}

static void report(struct lure *l)
{
	struct buf now = BUF_INIT(BAIT_PRINT_MAX);

	for (size_t i = 0; i < l->in_n; i++)
		drain(&l->in[i]);
	call_answer(l);
	if (l->answered)
		printf("a listener inside could be reached\n");
	if (signals_seen)
		printf("a signal arrived\n");
	if (getpriority(PRIO_PROCESS, 0) != l->nice)
		printf("the priority was changed\n");
	l->answered = false;
	signals_seen = 0;
	check_daemon(l);
	bait_print(&l->bait, &now);
	bait_compare(&l->before, &now, stdout);
	buf_done(&l->before);
	l->before = now;
	printf(".\n");
	fflush(stdout);
}

static void serve(struct lure *l)
{
	char line[256];

	for (;;) {
		struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
		int rc = poll(&p, 1, CALL_EVERY_MS);

		if (rc == 0 || (rc < 0 && errno == EINTR)) {
			call_answer(l);
			continue;
		}
		if (rc < 0 || read(STDIN_FILENO, line, sizeof(line)) <= 0)
			return;
		report(l);
	}
}

static void lay_real_home(void)
{
	const char *home = getenv("HOME");
	char path[4200];

	if (!home || home[0] != '/')
		return;
	printf("realhome=%s\nrealfiles=", home);
	for (size_t i = 0; probe_real_names[i]; i++) {
		snprintf(path, sizeof(path), "%s/%s", home, probe_real_names[i]);
		putchar(access(path, R_OK) == 0 ? '1' : '0');
	}
	putchar('\n');
}

int lure_main(void)
{
	static const int watched[] = {SIGWINCH, SIGIO, SIGURG, SIGCONT, SIGUSR1, SIGUSR2};
	struct lure l = {.shm = -1, .sem = -1, .msg = -1, .before = BUF_INIT(BAIT_PRINT_MAX)};
	const char *token = getenv("CROFT_BAIT_TOKEN");
	struct err e = ERR_INIT;
	char path[256];

	if (!token || strlen(token) < 16) {
		fprintf(stderr, "croft: probe --lure wants CROFT_BAIT_TOKEN in its environment\n");
		return 125;
	}
	/* Ctrl-C is for whoever started us: we clean up when that one is gone. */
	setsid();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	for (size_t i = 0; i < ARRAY_SIZE(watched); i++)
		signal(watched[i], on_signal);
	if (bait_lay(&l.bait, token, &e) < 0) {
		fprintf(stderr, "croft: %s\n", e.msg);
		return 125;
	}
	(void)!chdir(l.bait.dir);
	snprintf(path, sizeof(path), "%s/outside/.env", l.bait.dir);
	l.secret_fd = open(path, O_RDONLY | O_CLOEXEC);
	printf("bait=%s\npid=%d\nsecretfd=%d\n", l.bait.dir, (int)getpid(), l.secret_fd);
	l.nice = getpriority(PRIO_PROCESS, 0);
	lay_real_home();
	lay_sockets(&l);
	lay_ipc(&l, token);
	bait_print(&l.bait, &l.before);
	printf("ready\n");
	fflush(stdout);
	serve(&l);
	remove_ipc(&l);
	bait_remove(&l.bait);
	buf_done(&l.before);
	return 0;
}
