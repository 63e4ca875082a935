/* SPDX-License-Identifier: Apache-2.0 */
/* os: seccomp notification and the decoding of file calls, against the real kernel. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/notify.h"
#include "os/pathcall.h"

/* A child that traps mkdirat and one process that answers it: this one. */
struct child {
	pid_t pid;
	int listener;
	struct notify n;
};

static int child_filter(void)
{
	struct sock_filter insn[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mkdirat, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {.len = ARRAY_SIZE(insn), .filter = insn};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return (int)syscall(
		SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog);
}

/* Fork one that runs `body` under the filter; its listener comes back through a socket. */
static bool child_start(struct child *c, void (*body)(void *), void *arg)
{
	int sv[2];
	char byte = 0;
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} ctl = {0};
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &ctl,
		.msg_controllen = sizeof(ctl)};
	struct err e = ERR_INIT;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0)
		return false;
	c->pid = fork();
	if (c->pid == 0) {
		int fd = child_filter();
		struct cmsghdr *h = CMSG_FIRSTHDR(&m);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(h), &fd, sizeof(int));
		if (fd < 0 || sendmsg(sv[1], &m, 0) != 1)
			_exit(99);
		close(fd);
		close(sv[0]);
		close(sv[1]);
		body(arg);
		_exit(0);
	}
	close(sv[1]);
	c->listener = -1;
	if (recvmsg(sv[0], &m, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&m))
		memcpy(&c->listener, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
	close(sv[0]);
	return c->listener >= 0 && notify_open(&c->n, c->listener, &e) == 0;
}

static int child_next(struct child *c)
{
	int r;

	do
		r = notify_recv(&c->n, 5000);
	while (r == 0 && waitpid(c->pid, NULL, WNOHANG | WNOWAIT) == 0);
	return r;
}

static int child_end(struct child *c)
{
	int status = -1;

	notify_done(&c->n);
	close(c->listener);
	waitpid(c->pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void body_results(void *arg)
{
	if (mkdirat(AT_FDCWD, "first", 0) != 0)
		_exit(1);
	if (mkdirat(AT_FDCWD, "second", 0) != -1 || errno != EDOM)
		_exit(2);
	if (syscall(SYS_mkdirat, 7, "third", 0755) != 1234)
		_exit(3);
}

TEST(notify_answers_reach_the_caller)
{
	struct child c;
	char text[64];

	CHECK(child_start(&c, body_results, NULL));
	CHECK_INT(child_next(&c), 1);
	CHECK_INT(
		notify_read_string((pid_t)c.n.req->pid, c.n.req->data.args[1], text, sizeof(text)),
		5);
	CHECK_STR(text, "first");
	CHECK(notify_alive(&c.n, c.n.req->id));
	CHECK_INT(notify_answer(&c.n, c.n.req->id, 0, 0), 0);
	CHECK(!notify_alive(&c.n, c.n.req->id));
	CHECK_INT(child_next(&c), 1);
	CHECK_INT(notify_answer(&c.n, c.n.req->id, 0, EDOM), 0);
	CHECK_INT(child_next(&c), 1);
	CHECK_INT(notify_answer(&c.n, c.n.req->id, 1234, 0), 0);
	CHECK_INT(notify_recv(&c.n, 5000), -ESHUTDOWN);
	CHECK_INT(child_end(&c), 0);
}

static void body_fd(void *arg)
{
	for (int i = 0; i < 2; i++) {
		int fd = (int)syscall(SYS_mkdirat, AT_FDCWD, "x", 0);
		char byte;

		if (fd < 3 || fcntl(fd, F_GETFD) != (i == 0 ? FD_CLOEXEC : 0))
			_exit(1 + i);
		if (read(fd, &byte, 1) != 1 || byte != 'z')
			_exit(3);
	}
}

static void check_fd_answers(void)
{
	struct child c;
	int p[2];

	CHECK(pipe2(p, O_CLOEXEC) == 0);
	CHECK(write(p[1], "zz", 2) == 2);
	CHECK(child_start(&c, body_fd, NULL));
	for (int i = 0; i < 2; i++) {
		CHECK_INT(child_next(&c), 1);
		CHECK_INT(notify_answer_fd(&c.n, c.n.req->id, p[0], i == 0), 0);
	}
	CHECK_INT(child_end(&c), 0);
	close(p[0]);
	close(p[1]);
}

TEST(notify_gives_a_descriptor)
{
	check_fd_answers();
}

TEST(notify_gives_a_descriptor_in_two_steps_on_old_kernels)
{
	setenv("CROFT_FORCE_FAIL", "addfd_send", 1);
	check_fd_answers();
	unsetenv("CROFT_FORCE_FAIL");
}

static void body_strings(void *arg)
{
	char *pages = arg;

	/* Ends exactly at the end of what is mapped; then one that runs over it. */
	memcpy(pages + 4096 - 4, "end", 4);
	mkdirat(AT_FDCWD, pages + 4096 - 4, 0);
	memset(pages, 'q', 4096);
	mkdirat(AT_FDCWD, pages + 4096 - 8, 0);
	mkdirat(AT_FDCWD, pages, 0);
	mkdirat(AT_FDCWD, (char *)8, 0);
}

static void check_strings(void)
{
	struct child c;
	static char text[NOTIFY_STRING_MAX];
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static const ssize_t want[] = {3, -EFAULT, -ENAMETOOLONG, -EFAULT};

	CHECK(pages != MAP_FAILED && munmap(pages + 4096, 4096) == 0);
	CHECK(child_start(&c, body_strings, pages));
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		CHECK_INT(child_next(&c), 1);
		CHECK_INT(notify_read_string((pid_t)c.n.req->pid, c.n.req->data.args[1], text,
				  i == 2 ? 1000 : sizeof(text)),
			want[i]);
		notify_answer(&c.n, c.n.req->id, 0, 0);
	}
	CHECK_INT(child_end(&c), 0);
	munmap(pages, 4096);
}

TEST(notify_reads_strings_to_the_last_mapped_byte_and_no_further)
{
	check_strings();
}

TEST(notify_reads_through_proc_mem_without_process_vm_readv)
{
	setenv("CROFT_FORCE_FAIL", "process_vm_readv", 1);
	check_strings();
	unsetenv("CROFT_FORCE_FAIL");
}

static void body_wait(void *arg)
{
	mkdirat(AT_FDCWD, "never", 0);
}

TEST(notify_caller_killed_while_it_waits)
{
	struct child c;
	char text[8];
	uint64_t id;
	pid_t pid;

	CHECK(child_start(&c, body_wait, NULL));
	CHECK_INT(child_next(&c), 1);
	id = c.n.req->id;
	pid = (pid_t)c.n.req->pid;
	kill(c.pid, SIGKILL);
	CHECK_INT(notify_recv(&c.n, 5000), -ESHUTDOWN);
	CHECK(!notify_alive(&c.n, id));
	CHECK_INT(notify_answer(&c.n, id, 0, 0), -ENOENT);
	CHECK_INT(child_end(&c), -SIGKILL);
	CHECK_INT(notify_read_string(pid, 4096, text, sizeof(text)), -ESRCH);
}

TEST(notify_looking_does_not_wait)
{
	struct child c;

	CHECK(child_start(&c, body_wait, NULL));
	CHECK_INT(child_next(&c), 1);
	CHECK_INT(notify_recv(&c.n, 0), 0);
	notify_answer(&c.n, c.n.req->id, 0, 0);
	CHECK_INT(child_end(&c), 0);
}

TEST(notify_probe_works_here_and_can_be_forced_off)
{
	struct err e = ERR_INIT;

	CHECK_INT(notify_probe(&e), 0);
	setenv("CROFT_FORCE_FAIL", "notify", 1);
	CHECK_INT(notify_probe(&e), -ENOSYS);
	unsetenv("CROFT_FORCE_FAIL");
}

static struct pathcall decode(int nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e)
{
	struct seccomp_data data = {.nr = nr, .args = {a, b, c, d, e, 0}};
	struct pathcall ret = {.kind = PATHCALL_KIND_NUM};

	pathcall_decode(&ret, &data);
	return ret;
}

TEST(pathcall_narrows_registers_to_what_the_kernel_reads)
{
	struct pathcall c = decode(SYS_openat, 0xdeadbeef00000005ull, 0x1000,
		0xffffffff00000000ull | O_WRONLY, 0xffffffff00000000ull | 0644, 0);

	CHECK_INT(c.kind, PATHCALL_OPEN);
	CHECK_INT(c.dfd[0], 5);
	CHECK_INT(c.oflags, O_WRONLY);
	CHECK_INT(c.mode, 0644);
	CHECK(c.path[0] == 0x1000);
	c = decode(SYS_openat, (uint32_t)AT_FDCWD, 0x1000, O_RDONLY, 0, 0);
	CHECK_INT(c.dfd[0], AT_FDCWD);
	CHECK(!pathcall_writes(c.oflags));
}

TEST(pathcall_spellings_of_one_operation_agree)
{
	struct pathcall c = decode(SYS_linkat, 3, 0x10, 4, 0x20, AT_SYMLINK_FOLLOW);

	CHECK_INT(c.kind, PATHCALL_LINK);
	CHECK(c.dfd[0] == 3 && c.dfd[1] == 4 && c.path[0] == 0x10 && c.path[1] == 0x20);
	CHECK_INT(c.at_flags, AT_SYMLINK_FOLLOW);
	c = decode(SYS_symlinkat, 0x10, 4, 0x20, 0, 0);
	CHECK(c.kind == PATHCALL_SYMLINK && c.path[0] == 0x10 && c.dfd[1] == 4 &&
		c.path[1] == 0x20);
	c = decode(SYS_fchmod, 6, 0600, 0, 0, 0);
	CHECK(c.kind == PATHCALL_CHMOD && c.by_fd && c.dfd[0] == 6 && c.mode == 0600);
	c = decode(SYS_utimensat, 6, 0, 0x30, 0, 0);
	CHECK(c.kind == PATHCALL_UTIME && c.by_fd && c.times == 0x30);
	c = decode(SYS_lsetxattr, 0x10, 0x20, 0x30, 7, 1);
	CHECK(c.kind == PATHCALL_SETXATTR && c.at_flags == AT_SYMLINK_NOFOLLOW &&
		c.xattr_size == 7);
#ifdef SYS_creat
	c = decode(SYS_creat, 0x10, 0640, 0, 0, 0);
	CHECK(c.kind == PATHCALL_OPEN && pathcall_writes(c.oflags) && c.mode == 0640);
	c = decode(SYS_rmdir, 0x10, 0, 0, 0, 0);
	CHECK(c.kind == PATHCALL_UNLINK && c.at_flags == AT_REMOVEDIR);
#endif
	CHECK_INT(decode(SYS_getpid, 0, 0, 0, 0, 0).kind, PATHCALL_KIND_NUM);
}

TEST(pathcall_write_intent)
{
	CHECK(!pathcall_writes(O_RDONLY | O_DIRECTORY));
	CHECK(!pathcall_writes(O_PATH | O_RDWR | O_CREAT));
	CHECK(pathcall_writes(O_RDONLY | O_TRUNC));
	CHECK(pathcall_writes(O_RDONLY | O_CREAT));
	CHECK(pathcall_writes(O_TMPFILE | O_RDWR));
	CHECK(pathcall_writes(3)); /* the kernel's mode for ioctls needs write permission, too */
}
