/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds and installs the system-call filter: see seccomp.h; the judged calls are in syscalls.c.
 *
 * Purpose: one program: architecture, x32, then a balanced tree whose leaves are answers or short
 *          argument checks.
 * Trust:   the program is the same for everybody; only `flags` choose. Each check loads the low
 * half of an argument, because the kernel reads these arguments as 32-bit values; where it reads 64
 * (unshare) a high bit makes the call fail by itself. Order:   after every privileged step and
 * after Landlock: the filter would refuse them. Limits:  forward jumps reach 255 instructions; a
 * longer one is an unconditional jump.
 */
#include "os/seccomp.h"

#include <asm/ioctls.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <linux/random.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/forced.h"
#include "os/syscalls.h"
#include "os/uapi.h"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "croft has no system-call filter for this architecture"
#endif
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arguments are loaded by their low half");

#ifndef SECCOMP_FILTER_FLAG_SPEC_ALLOW
#define SECCOMP_FILTER_FLAG_SPEC_ALLOW (1UL << 2)
#endif
#ifndef SECCOMP_FILTER_FLAG_NEW_LISTENER
#define SECCOMP_FILTER_FLAG_NEW_LISTENER (1UL << 3)
#endif
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

#define ALLOW SECCOMP_RET_ALLOW
#define NOTIFY SECCOMP_RET_USER_NOTIF
#define FAIL(errnum) (SECCOMP_RET_ERRNO | (errnum))

#define CLONE_NEW_ANY                                                                              \
	(0x00020000u /* NEWNS */ | 0x02000000u /* NEWCGROUP */ | 0x04000000u /* NEWUTS */ |        \
		0x08000000u /* NEWIPC */ | 0x10000000u /* NEWUSER */ | 0x20000000u /* NEWPID */ |  \
		0x40000000u /* NEWNET */)
/* Undoing CLONE_FS, CLONE_FILES, CLONE_SYSVSEM concerns nobody else. */
#define UNSHARE_HARMLESS (0x00000200u | 0x00000400u | 0x00040000u)

#define SOCKET_TYPE_MASK 0xfu /* the rest are SOCK_CLOEXEC, SOCK_NONBLOCK, or EINVAL */
/* The kernel's bits, not libc's: musl's access mode has O_PATH in it, O_TMPFILE has O_DIRECTORY. */
#define O_PATH_BIT 010000000u
#define O_TMPFILE_BIT 020000000u
#define WRITE_INTENT (3u /* access mode */ | O_CREAT | O_TRUNC | O_TMPFILE_BIT)
#define FASTOPEN_BIT 0x20000000u /* MSG_FASTOPEN */

/* What a checked call answers when its arguments pass, with these flags. */
static uint32_t change_answer(unsigned flags)
{
	return flags & SECCOMP_NOTIFIES_CHANGES ? NOTIFY : ALLOW;
}

/* --- emitting --- */

/* A conditional jump whose answer stands further down, once for many. */
struct pending {
	size_t at;
	bool when; /* which side of the jump */
	uint32_t action;
};

#define PENDING_MAX 256
#define PENDING_REACH 150 /* flush when the oldest is this far back; no check is that long */

struct builder {
	struct seccomp_prog *p;
	unsigned flags;
	bool failed;
	struct pending pending[PENDING_MAX];
	size_t pending_n;
};

static size_t emit(struct builder *b, uint16_t code, uint8_t jt, uint8_t jf, uint32_t k)
{
	if (b->p->n >= SECCOMP_PROG_MAX) {
		b->failed = true;
		return 0;
	}
	b->p->insn[b->p->n] = (struct sock_filter){.code = code, .jt = jt, .jf = jf, .k = k};
	return b->p->n++;
}

/* Make one side of the jump at `at` arrive at the next instruction. */
static void land(struct builder *b, size_t at, bool when)
{
	size_t distance = b->p->n - at - 1;

	if (distance > UINT8_MAX)
		b->failed = true;
	else if (when)
		b->p->insn[at].jt = (uint8_t)distance;
	else
		b->p->insn[at].jf = (uint8_t)distance;
}

/* One side of the jump at `at` is this answer. */
static void answer_later(struct builder *b, size_t at, bool when, uint32_t action)
{
	if (b->pending_n >= PENDING_MAX)
		b->failed = true;
	else
		b->pending[b->pending_n++] =
			(struct pending){.at = at, .when = when, .action = action};
}

/* The answer, here; every jump that waits for the same one arrives here too. */
static void answer(struct builder *b, uint32_t action)
{
	size_t left = 0;

	for (size_t i = 0; i < b->pending_n; i++) {
		if (b->pending[i].action == action)
			land(b, b->pending[i].at, b->pending[i].when);
		else
			b->pending[left++] = b->pending[i];
	}
	b->pending_n = left;
	emit(b, BPF_RET | BPF_K, 0, 0, action);
}

/* Between two subtrees, where nothing falls through: place answers before they are out of reach. */
static void answer_pending(struct builder *b, bool all)
{
	if (!all && (b->pending_n == 0 || b->p->n - b->pending[0].at < PENDING_REACH))
		return;
	while (b->pending_n > 0 && !b->failed)
		answer(b, b->pending[0].action);
}

static void load_arg(struct builder *b, unsigned i)
{
	emit(b, BPF_LD | BPF_W | BPF_ABS, 0, 0,
		(uint32_t)(offsetof(struct seccomp_data, args) + i * sizeof(uint64_t)));
}

static void mask(struct builder *b, uint32_t bits)
{
	emit(b, BPF_ALU | BPF_AND | BPF_K, 0, 0, bits);
}

static void answer_if_equal(struct builder *b, uint32_t k, uint32_t action)
{
	answer_later(b, emit(b, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, k), true, action);
}

static void answer_unless_equal(struct builder *b, uint32_t k, uint32_t action)
{
	answer_later(b, emit(b, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, k), false, action);
}

static void answer_if_any_bit(struct builder *b, uint32_t bits, uint32_t action)
{
	answer_later(b, emit(b, BPF_JMP | BPF_JSET | BPF_K, 0, 0, bits), true, action);
}

/* What is emitted until end_if() is for the case that the loaded value equals k. */
static size_t if_equal(struct builder *b, uint32_t k)
{
	return emit(b, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, k);
}

static void end_if(struct builder *b, size_t at)
{
	land(b, at, false);
}

/* --- argument checks --- */

/* What is asked of files and of the random device without changing them; and sharing extents. */
static const uint32_t file_ioctls[] = {FS_IOC_GETFLAGS, FS_IOC_FSGETXATTR, FS_IOC_GETVERSION,
	FS_IOC_FIEMAP, FIGETBSZ, FICLONE, FICLONERANGE, FIDEDUPERANGE, RNDGETENTCNT};

/*
 * Types (the second byte) that file systems use: ext4, fscrypt and verity; ext2; XFS and freezing;
 * Btrfs; FAT; F2FS; NILFS; OCFS2; Ceph; CIFS; bcachefs; the watch queues of pipes.
 */
static const uint8_t file_ioctl_types[] = {
	'f', 'v', 'X', 0x94, 'r', 0xf5, 'n', 'o', 0x97, 0xcf, 0xbc, 'W'};

/*
 * Files answer ioctls that change them, or the file system, through descriptors opened for reading,
 * and no Landlock rule sees that: SETVERSION, verity, encryption, subvolumes. What is not listed
 * does not exist (ENOTTY, as on a file system that has no such thing). Devices that the policy
 * names have ioctls that nobody can list; which of them may be used at all is Landlock's.
 */
static void check_ioctl(struct builder *b)
{
	uint32_t meta = b->flags & SECCOMP_NOTIFIES_META ? NOTIFY : ALLOW;

	load_arg(b, 1);
	/* Typing into, or rewiring, the terminal that a person sits at. */
	answer_if_equal(b, TIOCSTI, FAIL(EPERM));
	answer_if_equal(b, TIOCLINUX, FAIL(EPERM));
	answer_if_equal(b, TIOCSETD, FAIL(EPERM));
	answer_if_equal(b, TIOCCONS, FAIL(EPERM));
	mask(b, 0xff00);
	answer_if_equal(b, 'T' << 8, ALLOW);  /* terminals, FIONREAD, FIONBIO, FIOCLEX … */
	answer_if_equal(b, 0x89 << 8, ALLOW); /* sockets */
	load_arg(b, 1);
	for (size_t i = 0; i < ARRAY_SIZE(file_ioctls); i++)
		answer_if_equal(b, file_ioctls[i], ALLOW);
	answer_if_equal(b, FS_IOC_SETFLAGS, meta);
	answer_if_equal(b, FS_IOC_FSSETXATTR, meta);
	if (b->flags & SECCOMP_DEVICES) {
		mask(b, 0xff00);
		for (size_t i = 0; i < ARRAY_SIZE(file_ioctl_types); i++)
			answer_if_equal(b, (uint32_t)file_ioctl_types[i] << 8, FAIL(ENOTTY));
		answer(b, ALLOW);
	} else {
		answer(b, FAIL(ENOTTY));
	}
}

/*
 * A lease on a file that can be read makes the host's writer wait for us, and F_NOTIFY has the
 * kernel send signals. What Linux added is listed; the numbers below that are POSIX's and locks.
 */
static void check_fcntl(struct builder *b)
{
	static const uint32_t harmless[] = {F_DUPFD_CLOEXEC, F_SETPIPE_SZ, F_GETPIPE_SZ,
		F_ADD_SEALS, F_GET_SEALS, F_GETLEASE, 1024 + 3 /* F_DUPFD_QUERY */,
		1024 + 4 /* F_CREATED_QUERY */, 1024 + 11 /* F_GET_RW_HINT */,
		1024 + 13 /* F_GET_FILE_RW_HINT */};

	load_arg(b, 1);
	answer_later(b, emit(b, BPF_JMP | BPF_JGE | BPF_K, 0, 0, 1024), false, ALLOW);
	for (size_t i = 0; i < ARRAY_SIZE(harmless); i++)
		answer_if_equal(b, harmless[i], ALLOW);
	answer_if_equal(b, F_SETLEASE, FAIL(EPERM));
	answer_if_equal(b, F_NOTIFY, FAIL(EPERM));
	answer(b, FAIL(EINVAL));
}

/* Protocols of one socket type: the default, and its own number. */
static void check_protocol(struct builder *b, uint32_t type, uint32_t protocol)
{
	size_t other = if_equal(b, type);

	load_arg(b, 2);
	answer_if_equal(b, 0, ALLOW);
	answer_if_equal(b, protocol, ALLOW);
	answer(b, FAIL(EPROTONOSUPPORT)); /* MPTCP, SMC, SCTP, UDP-Lite, ping: Landlock governs none
					   */
	end_if(b, other);
}

static void check_socket(struct builder *b)
{
	bool alone = b->flags & SECCOMP_PROCESS_TIER;
	size_t other;

	load_arg(b, 0);
	other = if_equal(b, AF_UNIX);
	if (alone) {
		answer(b, FAIL(EPERM)); /* the host's sockets are in reach */
	} else {
		load_arg(b, 1);
		mask(b, SOCKET_TYPE_MASK);
		answer_if_equal(b, SOCK_STREAM, ALLOW);
		answer_if_equal(b, SOCK_DGRAM, ALLOW);
		answer_if_equal(b, SOCK_SEQPACKET, ALLOW);
		answer(b, FAIL(EPERM));
	}
	end_if(b, other);
	if (!alone) {
		other = if_equal(b, AF_NETLINK);
		load_arg(b, 2);
		answer_if_equal(b, NETLINK_ROUTE, ALLOW);
		answer(b, FAIL(EPROTONOSUPPORT));
		end_if(b, other);
	}
	emit(b, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AF_INET);
	answer_unless_equal(b, AF_INET6, FAIL(EAFNOSUPPORT));
	load_arg(b, 1);
	mask(b, SOCKET_TYPE_MASK);
	if (!(b->flags & SECCOMP_NO_INET)) {
		check_protocol(b, SOCK_STREAM, IPPROTO_TCP);
		if (!alone)
			check_protocol(b, SOCK_DGRAM, IPPROTO_UDP);
	}
	if (b->flags & SECCOMP_NOTIFY_NETWORK) { /* what is left of these is refused */
		answer_if_equal(b, SOCK_DGRAM, NOTIFY);
		answer_if_equal(b, SOCK_STREAM, NOTIFY);
	}
	answer(b, FAIL(EPERM));
}

/*
 * A stream or seqpacket pair is connected for life: connect() answers EISCONN and addresses given
 * to sendto() are refused or ignored. A datagram pair (AF_UNIX raw is the same) can be aimed at any
 * socket the filesystem shows, so without a namespace it is refused.
 */
static void check_socketpair(struct builder *b)
{
	load_arg(b, 0);
	answer_unless_equal(b, AF_UNIX, FAIL(EAFNOSUPPORT));
	load_arg(b, 1);
	mask(b, SOCKET_TYPE_MASK);
	answer_if_equal(b, SOCK_STREAM, ALLOW);
	answer_if_equal(b, SOCK_SEQPACKET, ALLOW);
	if (!(b->flags & SECCOMP_PROCESS_TIER))
		answer_if_equal(b, SOCK_DGRAM, ALLOW);
	answer(b, FAIL(EPERM));
}

static void check_personality(struct builder *b)
{
	/* Query, 32-bit and 2.6 names of the machine, and no address randomisation (debuggers). */
	static const uint32_t harmless[] = {0, 0x8, 0x20000, 0x20008, 0x40000, 0xffffffff};

	load_arg(b, 0);
	for (size_t i = 0; i < ARRAY_SIZE(harmless); i++)
		answer_if_equal(b, harmless[i], ALLOW);
	answer(b, FAIL(EPERM));
}

#define SET_ID (S_ISUID | S_ISGID)

static void refuse_setid(struct builder *b, unsigned mode_arg)
{
	if (!(b->flags & SECCOMP_NO_SETID))
		return;
	load_arg(b, mode_arg);
	answer_if_any_bit(b, SET_ID, FAIL(EPERM));
}

/* Opening to read passes straight; opening to write is a change. The mode follows the flags. */
static void check_open(struct builder *b, unsigned arg)
{
	bool reads = b->flags & SECCOMP_NOTIFY_READS;
	size_t not_new;

	load_arg(b, arg);
	/* With O_PATH the kernel ignores the other bits. */
	answer_if_any_bit(b, O_PATH_BIT, reads ? NOTIFY : ALLOW);
	if (b->flags & SECCOMP_NO_SETID) {
		not_new = emit(b, BPF_JMP | BPF_JSET | BPF_K, 0, 0, O_CREAT | O_TMPFILE_BIT);
		refuse_setid(b, arg + 1);
		end_if(b, not_new);
		load_arg(b, arg);
	}
	if (!reads)
		answer_if_any_bit(b, WRITE_INTENT, change_answer(b->flags));
	answer(b, reads ? NOTIFY : ALLOW);
}

static void check_creat(struct builder *b, unsigned arg)
{
	refuse_setid(b, arg);
	answer(b, change_answer(b->flags));
}

/*
 * Whether the set-group-id bit is for a file or for a directory, where it means who owns what is
 * made there, only somebody can tell who looks at the object.
 */
static void check_chmod(struct builder *b, unsigned arg)
{
	load_arg(b, arg);
	answer_if_any_bit(b, S_ISUID, FAIL(EPERM));
	answer_if_any_bit(b, S_ISGID, NOTIFY);
	answer(b, ALLOW);
}

static void check_mknod(struct builder *b, unsigned arg)
{
	refuse_setid(b, arg);
	load_arg(b, arg);
	mask(b, S_IFMT);
	answer_if_equal(b, S_IFCHR, FAIL(EPERM));
	answer_if_equal(b, S_IFBLK, FAIL(EPERM));
	answer(b, change_answer(b->flags));
}

static void check_any_bit(struct builder *b, unsigned arg, uint32_t bits, uint32_t action)
{
	load_arg(b, arg);
	answer_if_any_bit(b, bits, action);
	answer(b, ALLOW);
}

/*
 * Whose priority: of the calling thread alone. A group or a user (`which`) reaches everything that
 * the user runs, also with 0 for "mine".
 */
static void check_priority(struct builder *b, uint32_t which)
{
	load_arg(b, 0);
	answer_unless_equal(b, which, FAIL(EPERM));
	check_any_bit(b, 1, 0xffffffff, FAIL(EPERM));
}

/* --- from class to answer --- */

/* Classes that need no argument with these flags become one of the plain answers. */
static enum syscall_class settle(enum syscall_class c, unsigned flags)
{
	bool alone = flags & SECCOMP_PROCESS_TIER;

	switch (c) {
	case SC_IPC:
	case SC_LISTEN:
		return alone ? SC_DENY : SC_ALLOW;
	case SC_LANDLOCK:
		return flags & SECCOMP_BROKER ? SC_ABSENT : SC_ALLOW;
	case SC_RESTRICT:
		return alone ? c : flags & SECCOMP_BROKER ? SC_ABSENT : SC_ALLOW;
	case SC_TRACE:
		return flags & SECCOMP_NO_PTRACE ? SC_DENY : SC_ALLOW;
	case SC_SEND_ARG2:
	case SC_SEND_ARG3:
	case SC_PRLIMIT:
	case SC_PRIORITY:
	case SC_IOPRIO:
	case SC_SCHED:
		return alone ? c : SC_ALLOW;
	case SC_OPEN:
	case SC_OPENAT:
		if (flags & SECCOMP_NO_SETID)
			return c;
		if (flags & SECCOMP_NOTIFY_READS)
			return SC_CHANGE;
		return flags & SECCOMP_NOTIFIES_CHANGES ? c : SC_ALLOW;
	case SC_OPENAT2:
		return flags & (SECCOMP_NOTIFIES_CHANGES | SECCOMP_NO_SETID) ? SC_ABSENT : SC_ALLOW;
	case SC_CREAT:
		if (flags & SECCOMP_NO_SETID)
			return c;
		return flags & SECCOMP_NOTIFIES_CHANGES ? SC_CHANGE : SC_ALLOW;
	case SC_CHMOD:
	case SC_CHMODAT:
		if (flags & SECCOMP_NOTIFIES_META)
			return SC_CHANGE;
		return flags & SECCOMP_NO_SETID ? c : SC_ALLOW;
	case SC_CHANGE:
		return flags & SECCOMP_NOTIFIES_CHANGES ? SC_CHANGE : SC_ALLOW;
	case SC_META:
		return flags & SECCOMP_NOTIFIES_META ? SC_CHANGE : SC_ALLOW;
	case SC_EXEC:
		return flags & SECCOMP_NOTIFY_READS ? SC_CHANGE : SC_ALLOW;
	case SC_CONNECT:
		return flags & SECCOMP_NOTIFY_NETWORK ? SC_CHANGE : SC_ALLOW;
	default:
		return c;
	}
}

/* The answer of a settled class that looks at no argument; false for the others. */
static bool plain(enum syscall_class c, uint32_t *ret_action)
{
	switch (c) {
	case SC_ALLOW:
		*ret_action = ALLOW;
		return true;
	case SC_DENY:
		*ret_action = FAIL(EPERM);
		return true;
	case SC_CHANGE:
		*ret_action = NOTIFY;
		return true;
	case SC_ABSENT:
		*ret_action = FAIL(ENOSYS);
		return true;
	default:
		return false;
	}
}

/* The check of a settled class that is not plain. */
static void check(struct builder *b, enum syscall_class c)
{
	switch (c) {
	case SC_CLONE:
		check_any_bit(b, 0, CLONE_NEW_ANY, FAIL(EPERM));
		break;
	case SC_UNSHARE:
		check_any_bit(b, 0, ~UNSHARE_HARMLESS, FAIL(EPERM));
		break;
	case SC_SECCOMP:
		check_any_bit(b, 1, SECCOMP_FILTER_FLAG_NEW_LISTENER, FAIL(EPERM));
		break;
	case SC_RESTRICT: /* the command itself has no ruleset, and cannot make one */
		check_any_bit(b, 1, 0xffffffff, FAIL(ENOSYS));
		break;
	case SC_SEND_ARG2:
		check_any_bit(b, 2, FASTOPEN_BIT, FAIL(EOPNOTSUPP));
		break;
	case SC_SEND_ARG3:
		check_any_bit(b, 3, FASTOPEN_BIT, FAIL(EOPNOTSUPP));
		break;
	case SC_PRLIMIT:
		check_any_bit(b, 0, 0xffffffff, FAIL(EPERM));
		break;
	case SC_PRIORITY:
		check_priority(b, PRIO_PROCESS);
		break;
	case SC_IOPRIO:
		check_priority(b, 1 /* IOPRIO_WHO_PROCESS */);
		break;
	case SC_SCHED:
		check_any_bit(b, 0, 0xffffffff, FAIL(EPERM));
		break;
	case SC_PERSONALITY:
		check_personality(b);
		break;
	case SC_IOCTL:
		check_ioctl(b);
		break;
	case SC_FCNTL:
		check_fcntl(b);
		break;
	case SC_SOCKET:
		check_socket(b);
		break;
	case SC_SOCKETPAIR:
		check_socketpair(b);
		break;
	case SC_OPEN:
		check_open(b, 1);
		break;
	case SC_OPENAT:
		check_open(b, 2);
		break;
	case SC_CREAT:
		check_creat(b, 1);
		break;
	case SC_CHMOD:
		check_chmod(b, 1);
		break;
	case SC_CHMODAT:
		check_chmod(b, 2);
		break;
	case SC_MKNOD:
		check_mknod(b, 1);
		break;
	case SC_MKNODAT:
		check_mknod(b, 2);
		break;
	default: /* what settle() should have resolved */
		answer(b, FAIL(ENOSYS));
		break;
	}
}

/* --- the tree --- */

/* Numbers from `start` up to the next range's start share a class. */
struct range {
	uint16_t start;
	uint8_t class;
};

/* At most this many instructions for a subtree: an estimate, on the safe side. */
static size_t tree_bound(const struct range *r, size_t n)
{
	size_t bound = 0;
	uint32_t action;

	for (size_t i = 0; i < n; i++)
		bound += plain(r[i].class, &action) ? 2 : 48;
	return bound;
}

static void tree(struct builder *b, const struct range *r, size_t n)
{
	size_t half = n / 2, at, jump = 0;
	uint32_t action;
	bool far;

	if (n == 1 && plain(r->class, &action)) {
		answer(b, action);
		return;
	}
	if (n == 1) {
		check(b, r->class);
		return;
	}
	at = emit(b, BPF_JMP | BPF_JGE | BPF_K, 0, 0, r[half].start);
	far = tree_bound(r, half) > UINT8_MAX;
	if (far) {
		jump = emit(b, BPF_JMP | BPF_JA, 0, 0, 0);
		land(b, at, false);
	}
	if (half == 1 && plain(r->class, &action))
		answer_later(b, at, false, action);
	else
		tree(b, r, half);
	answer_pending(b, false);
	if (n - half == 1 && plain(r[half].class, &action)) {
		answer_later(b, at, true, action);
		return;
	}
	if (far)
		b->p->insn[jump].k = (uint32_t)(b->p->n - jump - 1);
	else
		land(b, at, true);
	tree(b, r + half, n - half);
	answer_pending(b, false);
}

int seccomp_build(struct seccomp_prog *p, unsigned flags, struct err *e)
{
	struct builder b = {.p = p, .flags = flags};
	uint8_t class[SYSCALLS_NR_MAX] = {SC_ABSENT};
	struct range r[SYSCALLS_NR_MAX];
	size_t n = 0;

	for (size_t i = 0; i < syscall_table_n; i++)
		class[syscall_table[i].nr] = (uint8_t)settle(syscall_table[i].class, flags);
	for (size_t nr = 0; nr < SYSCALLS_NR_MAX; nr++) {
		if (nr == 0 || class[nr] != class[nr - 1])
			r[n++] = (struct range){.start = (uint16_t)nr, .class = class[nr]};
	}
	p->n = 0;
	emit(&b, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch));
	/* int 0x80 and 32-bit programs: other numbers, other arguments. */
	answer_unless_equal(&b, NATIVE_ARCH, SECCOMP_RET_KILL_PROCESS);
	emit(&b, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
	/* x32, and whatever is beyond the table. */
	answer_later(
		&b, emit(&b, BPF_JMP | BPF_JGE | BPF_K, 0, 0, SYSCALLS_NR_MAX), true, FAIL(ENOSYS));
	tree(&b, r, n);
	answer_pending(&b, true);
	if (b.failed)
		return err_set(e, E2BIG, "build the system-call filter (%zu instructions)", p->n);
	return 0;
}

/* --- installing --- */

bool seccomp_can_notify(void)
{
	struct seccomp_notif_sizes sizes;

	return !forced_fail("seccomp") && !forced_fail("seccomp_notify") &&
	       syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) == 0;
}

int seccomp_install(const struct seccomp_prog *p, unsigned flags, int *ret_listener, struct err *e)
{
	/*
	 * SPEC_ALLOW: kernels before 5.16 otherwise switch a speculation mitigation on that costs
	 * the command several percent and protects only against code inside the same process.
	 * WAIT_KILLABLE_RECV: once a watcher has a call in hand, only a fatal signal interrupts it,
	 * so that nothing is done twice. Both are left out where the kernel does not know them.
	 */
	unsigned long tries[] = {
		SECCOMP_FILTER_FLAG_SPEC_ALLOW | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
		SECCOMP_FILTER_FLAG_SPEC_ALLOW,
		0,
	};
	struct sock_fprog prog = {
		.len = (unsigned short)p->n, .filter = (struct sock_filter *)p->insn};
	bool notify = flags & SECCOMP_NOTIFIES;
	long rc = -1;

	if (forced_fail("seccomp"))
		return err_refuse(e, "this kernel has no seccomp filters");
	if (notify && forced_fail("seccomp_notify"))
		return err_refuse(e, "this kernel has no seccomp notifications");
	for (size_t i = notify ? 0 : 1; i < ARRAY_SIZE(tries); i++) {
		unsigned long how = tries[i] | (notify ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0);

		rc = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, how, &prog);
		if (rc >= 0 || errno != EINVAL)
			break;
	}
	if (rc < 0)
		return err_set(e, errno, "install the system-call filter");
	*ret_listener = notify ? (int)rc : -1; /* the kernel opens it close-on-exec */
	return 0;
}
