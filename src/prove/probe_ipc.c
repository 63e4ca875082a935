/* SPDX-License-Identifier: Apache-2.0 */
/* I1 to I14, N5: sockets, shared memory, keys, terminals and descriptors of the host. */
#include "prove/prove.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "os/uapi.h"

#define ANSWER_WAIT_MS 400

/* ---- sockets ---- */

/* A path or, with a leading '@', an abstract name. */
static socklen_t unix_address(struct sockaddr_un *sa, const char *name)
{
	size_t n = strlen(name);

	*sa = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (n >= sizeof(sa->sun_path))
		n = sizeof(sa->sun_path) - 1;
	memcpy(sa->sun_path, name, n);
	if (name[0] == '@')
		sa->sun_path[0] = '\0';
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
}

static int try_connect(const char *name, int type)
{
	cleanup_fd int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	struct sockaddr_un sa;
	socklen_t n = unix_address(&sa, name);

	return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&sa, n);
}

/* One bait of the kind, and the real ones of this machine where they exist. */
static enum probe_result connect_all(const struct probe_args *a, struct buf *detail,
	const char *bait, const char *const *real, size_t n)
{
	struct probe_tally t = tally_start(a, detail);
	cleanup_fd int at = -1;
	char path[128];

	tally_try(&t, try_connect(probe_path(a, bait), SOCK_STREAM), "%s", bait);
	/* A relative name from a handle, through /proc, and an alias in the workspace. */
	at = open(probe_path(a, "run"), O_PATH | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", at, strrchr(bait, '/') + 1);
	tally_try(&t, try_connect(path, SOCK_STREAM), "through /proc/self/fd");
	if (link(probe_path(a, bait), "s") == 0) {
		tally_try(&t, try_connect("s", SOCK_STREAM), "hard link in the workspace");
		unlink("s");
	}
	if (a->control)
		return tally_end(&t);
	for (size_t i = 0; i < n; i++) {
		if (real[i][0] == '@' || access(real[i], F_OK) == 0)
			tally_try(&t, try_connect(real[i], SOCK_STREAM), "%s", real[i]);
	}
	return tally_end(&t);
}

static enum probe_result i1_engines(const struct probe_args *a, struct buf *detail)
{
	static const char *const real[] = {"/var/run/docker.sock", "/run/docker.sock",
		"/run/podman/podman.sock", "/run/containerd/containerd.sock", "/run/crio/crio.sock",
		"/run/libvirt/libvirt-sock", "/var/lib/lxd/unix.socket",
		"/var/lib/incus/unix.socket", "/run/snapd.socket", "/run/buildkit/buildkitd.sock"};

	return connect_all(a, detail, "run/docker.sock", real, ARRAY_SIZE(real));
}

static enum probe_result i2_dbus(const struct probe_args *a, struct buf *detail)
{
	static const char *const real[] = {"/run/dbus/system_bus_socket", "/run/systemd/private",
		"/run/systemd/notify", "/run/systemd/journal/stdout",
		"/run/systemd/userdb/io.systemd.Multiplexer"};

	return connect_all(a, detail, "run/bus", real, ARRAY_SIZE(real));
}

static enum probe_result i3_agents(const struct probe_args *a, struct buf *detail)
{
	const char *real[2];
	size_t n = 0;

	if (getenv("SSH_AUTH_SOCK"))
		real[n++] = getenv("SSH_AUTH_SOCK");
	return connect_all(a, detail, "run/agent.sock", real, n);
}

static enum probe_result i4_display(const struct probe_args *a, struct buf *detail)
{
	static const char *const real[] = {"/tmp/.X11-unix/X0", "/tmp/.X11-unix/X1",
		"@/tmp/.X11-unix/X0", "@/tmp/.X11-unix/X1", "/tmp/.ICE-unix",
		"/run/user/1000/wayland-0", "/run/user/1000/pipewire-0",
		"/run/user/1000/pulse/native"};

	return connect_all(a, detail, "run/wayland-0", real, ARRAY_SIZE(real));
}

static enum probe_result i5_editors(const struct probe_args *a, struct buf *detail)
{
	static const char *const real[] = {"/tmp/tmux-0/default", "/tmp/tmux-1000/default",
		"/nix/var/nix/daemon-socket/socket", "/run/user/1000/emacs/server"};

	return connect_all(a, detail, "run/tmux", real, ARRAY_SIZE(real));
}

static enum probe_result i6_abstract(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	const char *name = probe_arg(a, "abstract");

	tally_try(&t, try_connect(name, SOCK_STREAM), "connect to an abstract name");
	tally_try(&t, try_connect(probe_arg(a, "abstractdgram"), SOCK_DGRAM), "datagrams to one");
	return tally_end(&t);
}

/* The other direction: listen under a name that a host program would trust; the lure calls it. */
static enum probe_result i6_listen(const struct probe_args *a, struct buf *detail)
{
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct probe_tally t = tally_start(a, detail);
	struct sockaddr_un sa;
	socklen_t n = unix_address(&sa, probe_arg(a, "answer"));
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int rc;

	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, n) < 0 || listen(fd, 4) < 0) {
		tally_try(&t, -1, "listen on an abstract name");
		return tally_end(&t);
	}
	rc = poll(&p, 1, ANSWER_WAIT_MS);
	if (rc == 0)
		errno = ETIMEDOUT;
	tally_try(&t, rc > 0 ? 0 : -1, "a host process connected to us");
	return tally_end(&t);
}

static enum probe_result i7_datagram(const struct probe_args *a, struct buf *detail)
{
	static const int types[] = {SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET, SOCK_STREAM};
	static const char *const names[] = {
		"SOCK_DGRAM", "SOCK_RAW", "SOCK_SEQPACKET", "SOCK_STREAM"};
	const char *const to[] = {probe_path(a, "run/dgram"), probe_arg(a, "abstractdgram")};
	struct probe_tally t = tally_start(a, detail);

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(to); k++) {
			struct sockaddr_un sa;
			socklen_t n = unix_address(&sa, to[k]);
			int pair[2];
			long rc;

			/* Connected stream pairs cannot be redirected: not an attack without a
			 * sandbox. */
			if (a->control && i >= 2)
				continue;
			if (socketpair(AF_UNIX, types[i] | SOCK_CLOEXEC, 0, pair) < 0) {
				tally_try(&t, -1, "socketpair %s", names[i]);
				continue;
			}
			rc = sendto(pair[0], "x", 1, MSG_DONTWAIT, (struct sockaddr *)&sa, n);
			/* A connected pair of streams answers EISCONN or sends to its own peer. */
			if (i < 2)
				tally_try(&t, rc, "%s pair, sendto %s", names[i],
					k ? "abstract" : "path");
			rc = connect(pair[0], (struct sockaddr *)&sa, n);
			tally_try(&t, rc, "%s pair, connect %s", names[i], k ? "abstract" : "path");
			close(pair[0]);
			close(pair[1]);
		}
	}
	return tally_end(&t);
}

/* ---- I8 ---- */

static int try_shm(const struct probe_args *a, int id)
{
	const char *p = id < 0 ? (void *)-1 : shmat(id, NULL, SHM_RDONLY);
	int rc;

	if (p == (void *)-1)
		return -1;
	rc = strncmp(p, a->token, strlen(a->token)) == 0 ? 0 : -1;
	shmdt(p);
	if (rc < 0)
		errno = ENODATA;
	return rc;
}

static enum probe_result i8_sysv(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	struct {
		long type;
		char text[128];
	} m = {0};

	tally_try(&t, try_shm(a, (int)probe_num(a, "shm")), "attach shared memory");
	tally_try(&t, try_shm(a, shmget((key_t)probe_num(a, "shmkey"), 0, 0)), "find it by key");
	tally_try(&t, semctl((int)probe_num(a, "sem"), 0, GETVAL), "read a semaphore");
	tally_try(&t, msgrcv((int)probe_num(a, "msg"), &m, sizeof(m.text), 0, IPC_NOWAIT),
		"take a message");
	return tally_end(&t);
}

static enum probe_result i8_posix(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	char path[128], *text = NULL;
	long fd;

	/* The system call takes the name without the slash. */
	fd = syscall(SYS_mq_open, probe_arg(a, "mq"), O_RDWR | O_CLOEXEC | O_NONBLOCK, 0, NULL);
	if (fd >= 0)
		text = malloc(8192);
	if (text)
		fd = syscall(SYS_mq_timedreceive, fd, text, 8192UL, NULL, NULL);
	free(text);
	tally_try(&t, *probe_arg(a, "mq") ? fd : -1, "message queue");
	snprintf(path, sizeof(path), "/dev/shm/%s", probe_arg(a, "devshm"));
	tally_try(&t, probe_read_token(a, open(path, O_RDONLY | O_CLOEXEC)), "/dev/shm");
	return tally_end(&t);
}

/* ---- I11 ---- */

enum { KEY_SPEC_SESSION = -3, KEY_SPEC_USER = -4, KEY_SPEC_USER_SESSION = -5 };
enum {
	KEYCTL_SESSION_TO_PARENT_OP = 18,
	KEYCTL_READ_OP = 11,
	KEYCTL_SEARCH_OP = 10,
	KEYCTL_LINK_OP = 8,
	KEYCTL_DESCRIBE_OP = 6,
	KEYCTL_GET_PERSISTENT_OP = 22
};

static long read_key(const struct probe_args *a, long key)
{
	char text[256];
	long n = key < 0 ? -1 : syscall(SYS_keyctl, KEYCTL_READ_OP, key, text, sizeof(text), 0);

	if (n < 0)
		return -1;
	if (memmem(text, MIN_OF((size_t)n, sizeof(text)), a->token, strlen(a->token)))
		return 0;
	errno = ENODATA;
	return -1;
}

static enum probe_result i11_keyring(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	long key = probe_num(a, "key");

	if (key < 0)
		return probe_skip(detail, "no key could be laid: the kernel has no keyrings");
	tally_try(&t, read_key(a, key), "read by serial number");
	tally_try(&t,
		read_key(a, syscall(SYS_keyctl, KEYCTL_SEARCH_OP, KEY_SPEC_SESSION, "user",
				    "croft-bait", 0)),
		"search the session keyring");
	tally_try(&t, read_key(a, syscall(SYS_request_key, "user", "croft-bait", NULL, 0)),
		"request_key");
	tally_try(&t, syscall(SYS_add_key, "user", "croft-added", "x", 1UL, KEY_SPEC_SESSION),
		"add a key");
	tally_try(&t, syscall(SYS_keyctl, KEYCTL_LINK_OP, key, KEY_SPEC_SESSION, 0, 0),
		"link the key");
	/* Not possible without a parent in another session; reaching it is enough. */
	if (!a->control)
		tally_reach(&t, false, syscall(SYS_keyctl, KEYCTL_SESSION_TO_PARENT_OP, 0, 0, 0, 0),
			"give our keyring to the parent");
	return tally_end(&t);
}

/* ---- I10 ---- */

#ifndef TIOCLINUX
#define TIOCLINUX 0x541C
#endif

/* A terminal of our own making, as controlling terminal: what croft's filter says to the ioctl. */
static long own_terminal(void *arg)
{
	unsigned long request = *(unsigned long *)arg;
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave;
	char c = 2; /* also TIOCLINUX subcode 2, "set selection": fails with EFAULT on no console */

	if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
		return -1;
	setsid();
	slave = open(ptsname(master), O_RDWR);
	if (slave < 0)
		return -1;
	ioctl(slave, TIOCSCTTY, 0);
	return syscall(SYS_ioctl, slave, request, &c);
}

static enum probe_result i10_inject(const struct probe_args *a, struct buf *detail)
{
	unsigned long plain = TIOCSTI, high = TIOCSTI | 1UL << 32,
		      higher = TIOCSTI | 0xdeadbeefUL << 32;
	struct probe_tally t = tally_start(a, detail);
	cleanup_fd int tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
	char c = '#';

	/* EIO: this kernel has the call switched off for everybody. */
	if (a->control && probe_in_child(own_terminal, &plain) < 0 && errno == EIO)
		return probe_skip(detail, "dev.tty.legacy_tiocsti is off on this kernel");
	tally_try(&t, probe_in_child(own_terminal, &plain), "TIOCSTI");
	tally_try(&t, probe_in_child(own_terminal, &high), "TIOCSTI with bit 32");
	tally_try(&t, probe_in_child(own_terminal, &higher), "TIOCSTI with high bits");
	/* Never into a terminal that may be the user's own, when nothing is in between. */
	for (int fd = 0; fd < 3 && !a->control; fd++)
		if (isatty(fd))
			tally_try(&t, ioctl(fd, TIOCSTI, &c), "TIOCSTI on descriptor %d", fd);
	if (tty >= 0 && !a->control)
		tally_try(&t, ioctl(tty, TIOCSTI, &c), "TIOCSTI on /dev/tty");
	return tally_end(&t);
}

static long tioclinux(void *arg)
{
	char sub = 100; /* no such subcode: EINVAL on a console, ENOTTY elsewhere, EPERM when
			   refused */

	(void)arg;
	return ioctl(0, TIOCLINUX, &sub);
}

static enum probe_result i10_console(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	long rc = probe_in_child(tioclinux, NULL);

	tally_reach(&t, false, rc < 0 && errno == ENOTTY ? (errno = EINVAL, -1) : rc, "TIOCLINUX");
	return tally_end(&t);
}

/* ---- I13 ---- */

static enum probe_result i13_inherited(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	bool any = false;

	for (int fd = 3; fd < 4096; fd++) {
		if (fcntl(fd, F_GETFD) < 0)
			continue;
		any = true;
		tally_try(&t, 0, "descriptor %d is open", fd);
	}
	if (!any) {
		errno = EBADF;
		tally_try(&t, -1, "no descriptor but 0, 1, 2");
	}
	return tally_end(&t);
}

/* ---- N5 ---- */

static int try_inet(int family, int type, int port)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
	cleanup_fd int fd = socket(family, type | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	/* ::ffff:127.0.0.1 reaches the IPv4 listener. */
	v6.sin6_addr.s6_addr[10] = v6.sin6_addr.s6_addr[11] = 0xff;
	v6.sin6_addr.s6_addr[12] = 127;
	v6.sin6_addr.s6_addr[15] = 1;
	if (connect(fd, family == AF_INET ? (void *)&v4 : (void *)&v6,
		    family == AF_INET ? sizeof(v4) : sizeof(v6)) < 0)
		return -1;
	return type == SOCK_DGRAM ? (int)send(fd, "x", 1, 0) : 0;
}

static enum probe_result n5_loopback(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);

	tally_try(&t, try_inet(AF_INET, SOCK_STREAM, (int)probe_num(a, "tcp")), "TCP to the host");
	tally_try(&t, try_inet(AF_INET6, SOCK_STREAM, (int)probe_num(a, "tcp")),
		"TCP, mapped address");
	return tally_end(&t);
}

/* A datagram leaves without an answer: only the lure can tell whether it arrived. */
static enum probe_result n5_udp(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);

	tally_try(&t, try_inet(AF_INET, SOCK_DGRAM, (int)probe_num(a, "udp")), "UDP to the host");
	tally_try(&t, try_inet(AF_INET6, SOCK_DGRAM, (int)probe_num(a, "udp")),
		"UDP, mapped address");
	return tally_end(&t);
}

/* ---- I14 ---- */

/* Services of the host in the workspace itself; the lure tells of every call. */
static enum probe_result i14_service(const struct probe_args *a, struct buf *detail)
{
	static const char *const names[] = {"service.sock", "./service//db.sock",
		"/proc/self/cwd/service.sock", "link-to-service/db.sock"};
	struct probe_tally t = tally_start(a, detail);

	symlink("service", "link-to-service");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		tally_try(&t, try_connect(names[i], SOCK_STREAM), "%s", names[i]);
	tally_try(&t, try_connect(probe_path(a, "work/service.sock"), SOCK_STREAM),
		"service.sock by its whole path");
	tally_try(&t, link("service.sock", "alias") < 0 ? -1 : try_connect("alias", SOCK_STREAM),
		"a hard link to service.sock");
	tally_try(&t, rename("service.sock", "moved") < 0 ? -1 : try_connect("moved", SOCK_STREAM),
		"service.sock under another name");
	tally_try(&t,
		rename("service", "elsewhere") < 0 ? -1
						   : try_connect("elsewhere/db.sock", SOCK_STREAM),
		"its directory under another name");
	return tally_end(&t);
}

static const struct probe probes[] = {
	{"I1", "I1-engines", "connect to docker, podman, containerd, libvirt", PROBE_BOTH,
		i1_engines},
	{"I2", "I2-dbus", "connect to D-Bus and systemd", PROBE_BOTH, i2_dbus},
	{"I3", "I3-agents", "connect to ssh-agent and gpg-agent", PROBE_BOTH, i3_agents},
	{"I4", "I4-display", "connect to X11, Wayland, PipeWire", PROBE_BOTH, i4_display},
	{"I5", "I5-editors", "connect to tmux and editor servers", PROBE_BOTH, i5_editors},
	{"I6", "I6-abstract", "connect to abstract sockets of the host", PROBE_BOTH, i6_abstract},
	{"I6", "I6-abstract-listen", "be connected to under an abstract name", PROBE_BOTH,
		i6_listen},
	{"I7", "I7-datagram", "send from a socket pair to a host socket", PROBE_BOTH, i7_datagram},
	{"I8", "I8-sysv", "SysV shared memory, semaphores, messages", PROBE_BOTH, i8_sysv},
	{"I8", "I8-posix", "POSIX queues and shared memory", PROBE_BOTH, i8_posix},
	{"I10", "I10-inject", "push input into a terminal (TIOCSTI)", PROBE_BOTH, i10_inject},
	{"I10", "I10-console", "paste through the console (TIOCLINUX)", PROBE_BOTH, i10_console},
	{"I11", "I11-keyring", "read or add keys of the session keyring", PROBE_BOTH, i11_keyring},
	{"I13", "I13-inherited", "use descriptors inherited by mistake", PROBE_BOTH, i13_inherited},
	{"I14", "I14-service", "connect to a host service in the workspace", PROBE_BOTH,
		i14_service, .rules = RULES_EITHER},
	{"N5", "N5-tcp", "reach a TCP service of the host", PROBE_BOTH, n5_loopback},
	{"N5", "N5-udp", "reach a UDP service of the host", PROBE_BOTH, n5_udp, .outside = true},
};
const struct probe_family probes_ipc = {probes, ARRAY_SIZE(probes)};
