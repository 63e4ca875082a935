/* SPDX-License-Identifier: Apache-2.0 */
/* Receiving and answering seccomp notifications: see notify.h. */
#include "os/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/forced.h"
#include "os/uapi.h"

enum {
	STRING_FIRST = 256, /* most paths fit; the rest is fetched only when needed */
	PAGE = 4096,        /* smallest page of any architecture: no single read crosses one */
};

/* Test seams, looked up once per notify_open(): they sit on the path of every call. */
static bool no_vm_readv, no_addfd_send;

int notify_open(struct notify *n, int fd, struct err *e)
{
	struct seccomp_notif_sizes sizes;
	uint64_t flags = SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP;

	*n = NOTIFY_INIT;
	if (forced_fail("notify"))
		return err_set(e, ENOSYS, "seccomp notification");
	if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0)
		return err_set(e, errno, "seccomp notification");
	/* A newer kernel writes more than we know, an older one less. */
	n->req_size = MAX_OF((size_t)sizes.seccomp_notif, sizeof(*n->req));
	n->resp_size = MAX_OF((size_t)sizes.seccomp_notif_resp, sizeof(*n->resp));
	n->req = calloc(1, n->req_size);
	n->resp = calloc(1, n->resp_size);
	if (!n->req || !n->resp) {
		notify_done(n);
		return err_set(e, ENOMEM, "seccomp notification");
	}
	no_vm_readv = forced_fail("process_vm_readv");
	no_addfd_send = forced_fail("addfd_send");
	n->fd = fd;
	n->sync_wakeup =
		!forced_fail("notify_sync") && ioctl(fd, SECCOMP_IOCTL_NOTIF_SET_FLAGS, flags) == 0;
	return 0;
}

void notify_done(struct notify *n)
{
	free(n->req);
	free(n->resp);
	*n = NOTIFY_INIT;
}

int notify_recv(struct notify *n, int timeout_ms)
{
	struct pollfd p = {.fd = n->fd, .events = POLLIN};

	if (poll(&p, 1, timeout_ms) < 0)
		return errno == EINTR ? 0 : -errno;
	if (!(p.revents & POLLIN))
		return p.revents ? (p.revents & POLLNVAL ? -EBADF : -ESHUTDOWN) : 0;
	memset(n->req, 0, n->req_size); /* the kernel insists */
	if (ioctl(n->fd, SECCOMP_IOCTL_NOTIF_RECV, n->req) == 0)
		return 1;
	return errno == ENOENT || errno == EINTR ? 0 : -errno;
}

bool notify_alive(const struct notify *n, uint64_t id)
{
	return ioctl(n->fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

static int respond(struct notify *n, uint64_t id, int64_t val, int error, uint32_t flags)
{
	memset(n->resp, 0, n->resp_size);
	n->resp->id = id;
	n->resp->val = val;
	n->resp->error = -error;
	n->resp->flags = flags;
	while (ioctl(n->fd, SECCOMP_IOCTL_NOTIF_SEND, n->resp) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

int notify_answer(struct notify *n, uint64_t id, int64_t val, int error)
{
	return respond(n, id, error ? 0 : val, error, 0);
}

int notify_continue(struct notify *n, uint64_t id)
{
	return respond(n, id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
}

int notify_answer_fd(struct notify *n, uint64_t id, int fd, bool cloexec)
{
	struct seccomp_notif_addfd add = {
		.id = id,
		.flags = SECCOMP_ADDFD_FLAG_SEND,
		.srcfd = (uint32_t)fd,
		.newfd_flags = cloexec ? O_CLOEXEC : 0,
	};
	int theirs;

	if (!no_addfd_send) {
		while (ioctl(n->fd, SECCOMP_IOCTL_NOTIF_ADDFD, &add) < 0) {
			if (errno == EINTR)
				continue;
			if (errno == EINVAL)
				goto two_steps;
			return -errno;
		}
		return 0;
	}
two_steps: /* before Linux 5.14 */
	add.flags = 0;
	theirs = ioctl(n->fd, SECCOMP_IOCTL_NOTIF_ADDFD, &add);
	if (theirs < 0)
		return -errno;
	return notify_answer(n, id, theirs, 0);
}

/* Where process_vm_readv does not exist or is filtered; the access check is the same. */
static int read_proc_mem(pid_t pid, uint64_t addr, void *ret, size_t size)
{
	char path[32];
	cleanup_fd int fd = -1;
	ssize_t got;

	if (addr > INT64_MAX - size)
		return -EFAULT;
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : errno == EACCES ? -EPERM : -errno;
	got = pread(fd, ret, size, (off_t)addr);
	return got == (ssize_t)size ? 0 : -EFAULT;
}

int notify_read(pid_t pid, uint64_t addr, void *ret, size_t size)
{
	struct iovec local = {.iov_base = ret, .iov_len = size};
	struct iovec remote = {.iov_base = (void *)(uintptr_t)addr, .iov_len = size};
	ssize_t got;

	if (size == 0)
		return 0;
	if (no_vm_readv)
		return read_proc_mem(pid, addr, ret, size);
	got = process_vm_readv(pid, &local, 1, &remote, 1, 0);
	if (got == (ssize_t)size)
		return 0;
	if (got < 0 && (errno == ENOSYS || errno == EPERM))
		return read_proc_mem(pid, addr, ret, size);
	if (got < 0 && errno == ESRCH)
		return -ESRCH;
	return -EFAULT;
}

ssize_t notify_read_string(pid_t pid, uint64_t addr, char *ret, size_t size)
{
	size_t have = 0;

	while (have < size) {
		size_t n = MIN_OF(size - have, PAGE - (size_t)((addr + have) % PAGE));
		const char *nul;
		int r;

		if (have == 0)
			n = MIN_OF(n, (size_t)STRING_FIRST);
		r = notify_read(pid, addr + have, ret + have, n);
		if (r < 0)
			return r;
		nul = memchr(ret + have, '\0', n);
		if (nul)
			return nul - ret;
		have += n;
	}
	return -ENAMETOOLONG;
}

static int send_fd(int sock, int fd)
{
	char byte = 0;
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} c = {0};
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c)};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &fd, sizeof(int));
	return sendmsg(sock, &m, MSG_NOSIGNAL) == 1 ? 0 : -errno;
}

static int recv_fd(int sock)
{
	char byte;
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} c = {0};
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c)};
	struct cmsghdr *h;
	int fd = -1;

	if (recvmsg(sock, &m, MSG_CMSG_CLOEXEC) != 1)
		return -ECONNRESET;
	h = CMSG_FIRSTHDR(&m);
	if (h && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(h), sizeof(int));
	return fd >= 0 ? fd : -EPROTO;
}

static const char probe_text[] = "notify";

/* The probe's child: traps umask(2), whose argument we abuse as an address, and expects 42 back. */
static int probe_child(int sock)
{
	struct sock_filter insn[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_umask, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {.len = ARRAY_SIZE(insn), .filter = insn};
	int fd;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return errno;
	fd = (int)syscall(
		SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog);
	if (fd < 0)
		return errno;
	if (send_fd(sock, fd) < 0)
		return EIO;
	close(fd);
	return syscall(SYS_umask, probe_text) == 42 ? 0 : EIO;
}

static int probe_parent(int sock, struct err *e)
{
	struct notify n;
	cleanup_fd int fd = recv_fd(sock);
	char text[16];
	ssize_t got;
	int r;

	if (fd < 0)
		return 0; /* the child's exit status says why */
	r = notify_open(&n, fd, e);
	if (r < 0)
		return r;
	do
		r = notify_recv(&n, -1);
	while (r == 0);
	if (r == 1) {
		got = notify_read_string(
			(pid_t)n.req->pid, n.req->data.args[0], text, sizeof(text));
		r = got < 0 ? (int)got : strcmp(text, probe_text) == 0 ? 0 : -EIO;
		notify_answer(&n, n.req->id, 42, 0);
	}
	notify_done(&n);
	return r < 0 ? err_set(e, -r, "read the memory of a child stopped by seccomp") : 0;
}

int notify_probe(struct err *e)
{
	int sv[2], status = 0, r;
	pid_t pid;

	if (forced_fail("notify"))
		return err_set(e, ENOSYS, "seccomp notification");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0)
		return err_set(e, errno, "socketpair");
	pid = fork();
	if (pid < 0) {
		r = err_set(e, errno, "fork");
		close(sv[0]);
		close(sv[1]);
		return r;
	}
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(probe_child(sv[1]));
	}
	close(sv[1]);
	r = probe_parent(sv[0], e);
	close(sv[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r == 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
		r = err_set(
			e, WIFEXITED(status) ? WEXITSTATUS(status) : EIO, "seccomp notification");
	return r;
}
