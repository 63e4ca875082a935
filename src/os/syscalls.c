/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of judged system calls: see syscalls.h.
 *
 * The starting point is what container engines allow a process without capabilities; what follows
 * is narrower: no keyrings, no io_uring, no file handles, no mount information calls, no LDT
 * changes. SC_ABSENT is written out only where a reader would otherwise wonder.
 */
#include "os/syscalls.h"

#include "base/cleanup.h"
#include "os/uapi.h"

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "croft has no system-call table for this architecture"
#endif

/* Numbers that the oldest supported headers lack; the same on every architecture. */
#ifndef SYS_io_pgetevents
#ifdef __x86_64__
#define SYS_io_pgetevents 333
#else
#define SYS_io_pgetevents 292
#endif
#endif
#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#endif
#ifndef SYS_io_uring_enter
#define SYS_io_uring_enter 426
#endif
#ifndef SYS_io_uring_register
#define SYS_io_uring_register 427
#endif
#ifndef SYS_fspick
#define SYS_fspick 433
#endif
#ifndef SYS_faccessat2
#define SYS_faccessat2 439
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif
#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif
#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443
#endif
#ifndef SYS_process_mrelease
#define SYS_process_mrelease 448
#endif
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#ifndef SYS_set_mempolicy_home_node
#define SYS_set_mempolicy_home_node 450
#endif
#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif
#ifndef SYS_map_shadow_stack
#define SYS_map_shadow_stack 453
#endif
#ifndef SYS_futex_wake
#define SYS_futex_wake 454
#endif
#ifndef SYS_futex_wait
#define SYS_futex_wait 455
#endif
#ifndef SYS_futex_requeue
#define SYS_futex_requeue 456
#endif
#ifndef SYS_statmount
#define SYS_statmount 457
#endif
#ifndef SYS_listmount
#define SYS_listmount 458
#endif
#ifndef SYS_lsm_set_self_attr
#define SYS_lsm_set_self_attr 460
#endif
#ifndef SYS_mseal
#define SYS_mseal 462
#endif
#ifndef SYS_setxattrat
#define SYS_setxattrat 463
#endif
#ifndef SYS_getxattrat
#define SYS_getxattrat 464
#endif
#ifndef SYS_listxattrat
#define SYS_listxattrat 465
#endif
#ifndef SYS_removexattrat
#define SYS_removexattrat 466
#endif
#ifndef SYS_open_tree_attr
#define SYS_open_tree_attr 467
#endif

#define S(name, c)                                                                                 \
	{                                                                                          \
		SYS_##name, SC_##c                                                                 \
	}

/* clang-format off */
const struct syscall_entry syscall_table[] = {
	/* Descriptors and data. */
	S(read, ALLOW), S(write, ALLOW), S(readv, ALLOW), S(writev, ALLOW), S(pread64, ALLOW),
	S(pwrite64, ALLOW), S(preadv, ALLOW), S(pwritev, ALLOW), S(preadv2, ALLOW),
	S(pwritev2, ALLOW), S(lseek, ALLOW), S(close, ALLOW), S(close_range, ALLOW), S(dup, ALLOW),
	S(dup3, ALLOW), S(fcntl, FCNTL), S(flock, ALLOW), S(fsync, ALLOW), S(fdatasync, ALLOW),
	S(sync, ALLOW), S(syncfs, ALLOW), S(sync_file_range, ALLOW), S(ftruncate, ALLOW),
	S(fallocate, ALLOW), S(fadvise64, ALLOW), S(readahead, ALLOW), S(copy_file_range, ALLOW),
	S(sendfile, ALLOW), S(splice, ALLOW), S(tee, ALLOW), S(vmsplice, ABSENT), S(pipe2, ALLOW),
	S(ioctl, IOCTL), S(cachestat, ALLOW),
	S(io_setup, ALLOW), S(io_destroy, ALLOW), S(io_submit, ALLOW), S(io_cancel, ALLOW),
	S(io_getevents, ALLOW), S(io_pgetevents, ALLOW),
	/* Work done by kernel threads passes no filter. */
	S(io_uring_setup, ABSENT), S(io_uring_enter, ABSENT), S(io_uring_register, ABSENT),

	/* Waiting and timers. */
	S(pselect6, ALLOW), S(ppoll, ALLOW), S(epoll_create1, ALLOW), S(epoll_ctl, ALLOW),
	S(epoll_pwait, ALLOW), S(epoll_pwait2, ALLOW), S(eventfd2, ALLOW), S(signalfd4, ALLOW),
	S(timerfd_create, ALLOW), S(timerfd_settime, ALLOW), S(timerfd_gettime, ALLOW),
	S(inotify_init1, ALLOW), S(inotify_add_watch, ALLOW), S(inotify_rm_watch, ALLOW),
	S(nanosleep, ALLOW), S(clock_nanosleep, ALLOW), S(clock_gettime, ALLOW),
	S(clock_getres, ALLOW), S(gettimeofday, ALLOW), S(getitimer, ALLOW), S(setitimer, ALLOW),
	S(timer_create, ALLOW), S(timer_settime, ALLOW), S(timer_gettime, ALLOW),
	S(timer_getoverrun, ALLOW), S(timer_delete, ALLOW), S(times, ALLOW),
	S(adjtimex, ALLOW), S(clock_adjtime, ALLOW), /* reading; setting needs a capability */
	S(settimeofday, DENY), S(clock_settime, DENY),

	/* Paths: looking. */
	S(openat, OPENAT), S(openat2, OPENAT2), S(newfstatat, ALLOW), S(fstat, ALLOW),
	S(statx, ALLOW), S(statfs, ALLOW), S(fstatfs, ALLOW), S(faccessat, ALLOW),
	S(faccessat2, ALLOW), S(readlinkat, ALLOW), S(getdents64, ALLOW), S(getcwd, ALLOW),
	S(chdir, ALLOW), S(fchdir, ALLOW), S(umask, ALLOW), S(getxattr, ALLOW),
	S(lgetxattr, ALLOW), S(fgetxattr, ALLOW), S(listxattr, ALLOW), S(llistxattr, ALLOW),
	S(flistxattr, ALLOW), S(getxattrat, ALLOW), S(listxattrat, ALLOW),

	/* Paths: changing. */
	S(truncate, CHANGE), S(renameat, CHANGE), S(renameat2, CHANGE), S(unlinkat, CHANGE),
	S(linkat, CHANGE), S(symlinkat, CHANGE), S(mkdirat, CHANGE), S(mknodat, MKNODAT),
	S(fchmod, CHMOD), S(fchmodat, CHMODAT), S(fchmodat2, CHMODAT), S(fchown, META),
	S(fchownat, META), S(utimensat, META), S(setxattr, META), S(lsetxattr, META),
	S(fsetxattr, META), S(removexattr, META), S(lremovexattr, META), S(fremovexattr, META),
	S(setxattrat, META), S(removexattrat, META),

	/* Mounts, roots, handles and whole filesystems. */
	S(mount, DENY), S(umount2, DENY), S(pivot_root, DENY), S(chroot, DENY), S(open_tree, DENY),
	S(open_tree_attr, DENY), S(move_mount, DENY), S(fsopen, DENY), S(fsconfig, DENY),
	S(fsmount, DENY), S(fspick, DENY), S(mount_setattr, DENY), S(statmount, DENY),
	S(listmount, DENY), S(name_to_handle_at, DENY), S(open_by_handle_at, DENY),
	S(quotactl, DENY), S(quotactl_fd, DENY), S(swapon, DENY), S(swapoff, DENY),
	S(fanotify_init, DENY), S(fanotify_mark, DENY), S(acct, DENY),

	/* Memory. */
	S(mmap, ALLOW), S(munmap, ALLOW), S(mprotect, ALLOW), S(mremap, ALLOW), S(madvise, ALLOW),
	S(brk, ALLOW), S(msync, ALLOW), S(mincore, ALLOW), S(mlock, ALLOW), S(mlock2, ALLOW),
	S(munlock, ALLOW), S(mlockall, ALLOW), S(munlockall, ALLOW), S(mseal, ALLOW),
	S(remap_file_pages, ALLOW), S(memfd_create, ALLOW), S(membarrier, ALLOW),
	S(pkey_alloc, ALLOW), S(pkey_free, ALLOW), S(pkey_mprotect, ALLOW),
	S(map_shadow_stack, ALLOW), S(get_mempolicy, ALLOW), S(set_mempolicy, DENY),
	S(mbind, DENY), S(set_mempolicy_home_node, DENY), S(migrate_pages, DENY),
	S(move_pages, DENY), S(userfaultfd, DENY), S(process_madvise, DENY),
	S(process_mrelease, DENY),

	/* Processes, threads, signals. */
	S(clone, CLONE), S(clone3, ABSENT), /* flags in memory: nothing can be judged */
	S(unshare, UNSHARE), S(setns, DENY), S(execve, EXEC), S(execveat, EXEC), S(exit, ALLOW),
	S(exit_group, ALLOW), S(wait4, ALLOW), S(waitid, ALLOW), S(set_tid_address, ALLOW),
	S(futex, ALLOW), S(futex_waitv, ALLOW), S(futex_wake, ALLOW), S(futex_wait, ALLOW),
	S(futex_requeue, ALLOW), S(set_robust_list, ALLOW), S(get_robust_list, ALLOW),
	S(rseq, ALLOW), S(gettid, ALLOW), S(getpid, ALLOW), S(getppid, ALLOW), S(getpgid, ALLOW),
	S(setpgid, ALLOW), S(getsid, ALLOW), S(setsid, ALLOW), S(prctl, ALLOW),
	S(rt_sigaction, ALLOW), S(rt_sigprocmask, ALLOW), S(rt_sigpending, ALLOW),
	S(rt_sigsuspend, ALLOW), S(rt_sigtimedwait, ALLOW), S(rt_sigreturn, ALLOW),
	S(sigaltstack, ALLOW), S(restart_syscall, ALLOW), S(kill, ALLOW), S(tkill, ALLOW),
	S(tgkill, ALLOW), S(rt_sigqueueinfo, ALLOW), S(rt_tgsigqueueinfo, ALLOW),
	S(pidfd_open, ALLOW), S(pidfd_send_signal, ALLOW), S(pidfd_getfd, TRACE),
	S(ptrace, TRACE), S(process_vm_readv, TRACE), S(process_vm_writev, TRACE), S(kcmp, DENY),
	S(personality, PERSONALITY), S(seccomp, SECCOMP), S(landlock_create_ruleset, LANDLOCK),
	S(landlock_add_rule, LANDLOCK), S(landlock_restrict_self, RESTRICT),
	S(lsm_set_self_attr, DENY),

	/* Scheduling and limits. */
	S(sched_yield, ALLOW), S(sched_getaffinity, ALLOW), S(sched_setaffinity, SCHED),
	S(sched_getparam, ALLOW), S(sched_setparam, SCHED), S(sched_getscheduler, ALLOW),
	S(sched_setscheduler, SCHED), S(sched_get_priority_max, ALLOW),
	S(sched_get_priority_min, ALLOW), S(sched_rr_get_interval, ALLOW),
	S(sched_getattr, ALLOW), S(sched_setattr, SCHED), S(getpriority, ALLOW),
	S(setpriority, PRIORITY), S(ioprio_get, ALLOW), S(ioprio_set, IOPRIO),
	S(getrlimit, ALLOW), S(setrlimit, ALLOW), S(prlimit64, PRLIMIT), S(getrusage, ALLOW),
	S(getcpu, ALLOW),

	/* Who and where we are. The set* calls can only give up what a process has. */
	S(getuid, ALLOW), S(geteuid, ALLOW), S(getgid, ALLOW), S(getegid, ALLOW),
	S(getresuid, ALLOW), S(getresgid, ALLOW), S(getgroups, ALLOW), S(setuid, ALLOW),
	S(setgid, ALLOW), S(setreuid, ALLOW), S(setregid, ALLOW), S(setresuid, ALLOW),
	S(setresgid, ALLOW), S(setfsuid, ALLOW), S(setfsgid, ALLOW), S(setgroups, ALLOW),
	S(capget, ALLOW), S(capset, ALLOW), S(uname, ALLOW), S(sysinfo, ALLOW),
	S(getrandom, ALLOW), S(sethostname, DENY), S(setdomainname, DENY),

	/* Sockets. */
	S(socket, SOCKET), S(socketpair, SOCKETPAIR), S(bind, LISTEN), S(listen, LISTEN),
	S(accept, ALLOW), S(accept4, ALLOW), S(connect, CONNECT), S(getsockname, ALLOW),
	S(getpeername, ALLOW), S(sendto, SEND_ARG3), S(recvfrom, ALLOW), S(setsockopt, ALLOW),
	S(getsockopt, ALLOW), S(shutdown, ALLOW), S(sendmsg, SEND_ARG2), S(recvmsg, ALLOW),
	S(sendmmsg, SEND_ARG3), S(recvmmsg, ALLOW),

	/* Shared with whoever has the same IPC namespace. */
	S(shmget, IPC), S(shmat, IPC), S(shmdt, IPC), S(shmctl, IPC), S(semget, IPC),
	S(semop, IPC), S(semtimedop, IPC), S(semctl, IPC), S(msgget, IPC), S(msgsnd, IPC),
	S(msgrcv, IPC), S(msgctl, IPC), S(mq_open, IPC), S(mq_unlink, IPC), S(mq_timedsend, IPC),
	S(mq_timedreceive, IPC), S(mq_notify, IPC), S(mq_getsetattr, IPC),

	/* The kernel's own affairs. */
	S(add_key, DENY), S(request_key, DENY), S(keyctl, DENY), S(bpf, DENY),
	S(perf_event_open, DENY), S(init_module, DENY), S(finit_module, DENY),
	S(delete_module, DENY), S(kexec_load, DENY), S(reboot, DENY), S(syslog, DENY),
	S(vhangup, DENY), S(lookup_dcookie, DENY),
#ifdef SYS_kexec_file_load
	S(kexec_file_load, DENY),
#endif

#ifdef __x86_64__
	/* Calls that newer architectures never had. */
	S(open, OPEN), S(creat, CREAT), S(stat, ALLOW), S(lstat, ALLOW), S(access, ALLOW),
	S(readlink, ALLOW), S(getdents, ALLOW), S(rename, CHANGE), S(unlink, CHANGE),
	S(rmdir, CHANGE), S(link, CHANGE), S(symlink, CHANGE), S(mkdir, CHANGE), S(mknod, MKNOD),
	S(chmod, CHMOD), S(chown, META), S(lchown, META), S(utime, META), S(utimes, META),
	S(futimesat, META), S(poll, ALLOW), S(select, ALLOW), S(epoll_create, ALLOW),
	S(epoll_wait, ALLOW), S(eventfd, ALLOW), S(signalfd, ALLOW), S(inotify_init, ALLOW),
	S(pipe, ALLOW), S(dup2, ALLOW), S(fork, ALLOW), S(vfork, ALLOW), S(getpgrp, ALLOW),
	S(pause, ALLOW), S(alarm, ALLOW), S(time, ALLOW), S(arch_prctl, ALLOW),
	{335, SC_ALLOW}, {336, SC_ALLOW}, /* uretprobe, uprobe: only the kernel's trampoline may */
	S(iopl, DENY), S(ioperm, DENY), S(modify_ldt, DENY), S(uselib, DENY), S(ustat, DENY),
	S(sysfs, DENY),
#endif
};

/* clang-format on */
const size_t syscall_table_n = ARRAY_SIZE(syscall_table);
