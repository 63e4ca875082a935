/* SPDX-License-Identifier: Apache-2.0 */
/* Doctor's facts about the machine: kernel, surroundings, subordinate ids, KVM. */
#include "doctor/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <linux/kvm.h>

#include "base/cleanup.h"
#include "os/path.h"

void doctor_check_machine(struct doctor_answer *a)
{
	struct utsname u;

	if (uname(&u) < 0)
		return;
	doctor_say(a, DOCTOR_FACT, "Linux %s on %s, as %s (uid %u)", u.release, u.machine,
		geteuid() == 0 ? "root" : "an ordinary user", geteuid());
}

void doctor_check_lsm(struct doctor_answer *a)
{
	char line[200];

	doctor_read_line("/sys/kernel/security/lsm", line, sizeof(line));
	doctor_say(a, DOCTOR_FACT, "%s", line[0] ? line : "cannot be read here");
}

void doctor_check_container(struct doctor_answer *a)
{
	char what[64] = "", version[256];

	doctor_read_line("/proc/version", version, sizeof(version));
	if (doctor_in_container(what, sizeof(what)))
		doctor_say(a, DOCTOR_FACT, "inside %s", what);
	else if (strstr(version, "icrosoft"))
		doctor_say(a, DOCTOR_FACT, "inside WSL");
	else
		doctor_say(a, DOCTOR_FACT, "no container noticed");
}

void doctor_check_subuid(struct doctor_answer *a)
{
	cleanup_buf struct buf b = BUF_INIT(1u << 20);
	struct passwd *pw = getpwuid(geteuid());
	char uid[16], range[64] = "";

	snprintf(uid, sizeof(uid), "%u", geteuid());
	if (file_read_at(AT_FDCWD, "/etc/subuid", &b) >= 0) {
		for (const char *p = buf_str(&b); *p;) {
			size_t line = strcspn(p, "\n"), name = strcspn(p, ":\n");

			if ((pw && strlen(pw->pw_name) == name && !strncmp(p, pw->pw_name, name)) ||
				(strlen(uid) == name && !strncmp(p, uid, name)))
				snprintf(range, sizeof(range), "%.*s",
					(int)(line > name ? line - name - 1 : 0), p + name + 1);
			p += line + (p[line] == '\n');
		}
	}
	doctor_say(a, DOCTOR_FACT, "%s%s", range[0] ? range : "none",
		range[0] ? "" : " (only container images with several users would need them)");
}

#if defined(__x86_64__)
/* One guest instruction: HLT at the reset of a 16-bit guest. 0, or the step that failed. */
static const char *kvm_run_one(int kvm, int vm)
{
	struct kvm_userspace_memory_region mem = {.guest_phys_addr = 0x1000, .memory_size = 0x1000};
	struct kvm_regs regs = {.rip = 0x1000, .rflags = 2};
	struct kvm_sregs sregs;
	int size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	cleanup_fd int cpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	char *page = mmap(NULL, 0x1000, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct kvm_run *run;

	if (cpu < 0 || page == MAP_FAILED || size < (int)sizeof(*run))
		return "creating a processor";
	page[0] = (char)0xf4;
	mem.userspace_addr = (uintptr_t)page;
	run = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, cpu, 0);
	if (run == MAP_FAILED || ioctl(vm, KVM_SET_USER_MEMORY_REGION, &mem) < 0 ||
		ioctl(cpu, KVM_GET_SREGS, &sregs) < 0)
		return "giving it memory";
	sregs.cs.base = 0;
	sregs.cs.selector = 0;
	if (ioctl(cpu, KVM_SET_SREGS, &sregs) < 0 || ioctl(cpu, KVM_SET_REGS, &regs) < 0)
		return "setting its registers";
	if (ioctl(cpu, KVM_RUN, 0) < 0 || run->exit_reason != KVM_EXIT_HLT)
		return "running one instruction";
	return NULL;
}
#else
static const char *kvm_run_one(int kvm, int vm)
{
	return NULL;
}
#endif

void doctor_check_kvm(struct doctor_answer *a)
{
	cleanup_fd int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC), vm = -1;
	const char *failed;

	if (kvm < 0) {
		doctor_say(a, DOCTOR_FACT, "/dev/kvm: %s", strerror(errno));
		return;
	}
	vm = ioctl(kvm, KVM_CREATE_VM, 0);
	if (vm < 0) {
		doctor_say(a, DOCTOR_FACT, "/dev/kvm opens, but makes no machine: %s",
			strerror(errno));
		return;
	}
	failed = kvm_run_one(kvm, vm);
	if (failed)
		doctor_say(a, DOCTOR_FACT, "makes a machine, but fails at %s", failed);
	else
		doctor_say(a, DOCTOR_FACT, "makes a machine and runs an instruction in it");
}
