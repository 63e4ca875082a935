/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small languages inside a policy: sizes and times, device and variable names.
 * Each accepts one spelling per meaning, or says what it wants to see.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/policy_impl.h"

#define SHOWN_MAX 128

const char *const limit_keys[LIMIT_NUM] = {
	"memory", "cpus", "pids", "open_files", "disk", "file_size", "timeout"};

int value_bad(struct err *e, const char *text, const char *why)
{
	cleanup_buf struct buf b = BUF_INIT(SHOWN_MAX * 8);
	size_t n = strlen(text);

	str_show(&b, text, MIN_OF(n, SHOWN_MAX));
	return err_invalid(e, "\"%s%s\" %s", buf_str(&b), n > SHOWN_MAX ? "..." : "", why);
}

uint64_t *limit_field(struct policy_limits *l, enum limit_id id)
{
	uint64_t *const field[LIMIT_NUM] = {&l->memory_b, &l->cpu_milli, &l->pids, &l->open_files,
		&l->disk_b, &l->file_size_b, &l->timeout_ms};

	return field[id];
}

/* Below these nothing could even start; above them the number is a mistake. */
static const struct {
	uint64_t min, max;
	const char *want;
} limit_range[LIMIT_NUM] = {
	[LIMIT_MEMORY] = {1 << 20, UINT64_MAX / 4,
		"is not a size of at least 1M; write 512M, 2G or none"},
	[LIMIT_CPUS] = {10, 4096000, "is not a number of CPUs; write 0.5, 2 or none"},
	[LIMIT_PIDS] = {1, 4194304, "is not a number of processes; write 512 or none"},
	[LIMIT_OPEN_FILES] = {16, 1 << 30,
		"is not a number of files of at least 16; write 4096 or none"},
	[LIMIT_DISK] = {1 << 16, UINT64_MAX / 4,
		"is not a size of at least 64K; write 512M, 2G or none"},
	[LIMIT_FILE_SIZE] = {1 << 10, UINT64_MAX / 4,
		"is not a size of at least 1K; write 512M, 2G or none"},
	[LIMIT_TIMEOUT] = {1, UINT64_MAX / 4, "is not a time; write 30s, 10m, 2h or none"},
};

int value_limit(uint64_t *ret, enum limit_id id, const char *text, struct err *e)
{
	uint64_t v = 0;
	bool ok = false;

	if (str_eq(text, "none")) {
		*ret = LIMIT_NONE;
		return 0;
	}
	switch (id) {
	case LIMIT_MEMORY:
	case LIMIT_DISK:
	case LIMIT_FILE_SIZE:
		ok = str_size(text, &v);
		break;
	case LIMIT_CPUS:
		ok = str_milli(text, limit_range[id].max, &v);
		break;
	case LIMIT_PIDS:
	case LIMIT_OPEN_FILES:
		ok = str_u64(text, limit_range[id].max, &v);
		break;
	case LIMIT_TIMEOUT:
		ok = str_duration(text, &v);
		break;
	case LIMIT_NUM:
		break;
	}
	if (!ok || v < limit_range[id].min || v > limit_range[id].max)
		return value_bad(e, text, limit_range[id].want);
	*ret = v;
	return 0;
}

/* The largest unit that divides it, so that there is one spelling per value and it reads well. */
static void show_units(
	struct buf *out, uint64_t v, const uint64_t *unit, const char *const *name, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (v % unit[i] == 0) {
			buf_addf(out, "%llu%s", (unsigned long long)(v / unit[i]), name[i]);
			return;
		}
	}
}

void limit_show(struct buf *out, enum limit_id id, uint64_t v)
{
	static const uint64_t size_unit[] = {1ull << 40, 1 << 30, 1 << 20, 1 << 10, 1};
	static const char *const size_name[] = {"T", "G", "M", "K", ""};
	static const uint64_t time_unit[] = {86400000, 3600000, 60000, 1000, 1};
	static const char *const time_name[] = {"d", "h", "m", "s", "ms"};

	if (v == LIMIT_NONE)
		buf_adds(out, "none");
	else if (id == LIMIT_MEMORY || id == LIMIT_DISK || id == LIMIT_FILE_SIZE)
		show_units(out, v, size_unit, size_name, ARRAY_SIZE(size_unit));
	else if (id == LIMIT_TIMEOUT)
		show_units(out, v, time_unit, time_name, ARRAY_SIZE(time_unit));
	else if (id == LIMIT_CPUS && v % 1000)
		buf_addf(out, "%llu.%03llu", (unsigned long long)v / 1000,
			(unsigned long long)v % 1000);
	else
		buf_addf(out, "%llu", (unsigned long long)(id == LIMIT_CPUS ? v / 1000 : v));
}

/* ---- environment ---- */

int value_env_name(const char *name, bool pattern, struct err *e)
{
	size_t n = strlen(name), plain = n;

	if (pattern && n && name[n - 1] == '*')
		plain = n - 1;
	if (n == 0)
		return err_invalid(e, "a variable name is empty");
	if (plain == 0)
		return value_bad(e, name, "would pass the whole environment; name the variables");
	if (n > POLICY_ENV_NAME_MAX)
		return value_bad(e, name, "is longer than 255 bytes");
	for (size_t i = 0; i < plain; i++) {
		char c = name[i];

		if (c == '_' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
			(i > 0 && c >= '0' && c <= '9'))
			continue;
		return value_bad(e, name,
			pattern ? "is not a variable name; letters, digits and _, with * only at "
				  "the end"
				: "is not a variable name; letters, digits and _");
	}
	return 0;
}

/*
 * Variables that decide what code a program loads or whom it talks to: a project may set the others
 * freely, these only with the user's approval.
 */
bool value_env_risky(const char *name)
{
	static const char *const risky[] = {"PATH", "HOME", "SHELL", "ENV", "BASH_ENV", "IFS",
		"CDPATH", "PS4", "PROMPT_COMMAND", "EDITOR", "VISUAL", "PAGER", "BROWSER", "LD_*",
		"GCONV_PATH", "LOCPATH", "HOSTALIASES", "RES_OPTIONS", "TMPDIR", "GIT_*", "SSH_*",
		"GPG_*", "PYTHON*", "PERL*", "RUBY*", "GEM_*", "BUNDLE_*", "NODE_*", "npm_*",
		"NPM_*", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH",
		"CARGO_*", "RUST*", "GO*", "CC", "CXX", "LUA_*", "DOTNET_*", "PHP*", "*_PROXY",
		"*_proxy", "*_CA_BUNDLE", "SSL_*", "XDG_*", "DBUS_*", "DOCKER_*", "CROFT_*"};

	for (size_t i = 0; i < ARRAY_SIZE(risky); i++)
		if (str_wild(risky[i], name))
			return true;
	return false;
}

/* ---- devices ---- */

/* What croft gives every sandbox anyway. */
static const char *const minimal_devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random",
	"/dev/urandom", "/dev/tty", "/dev/ptmx"};

/* Memory, kernel log, consoles and input of the host: never, whoever asks. */
static const char *const forbidden_devices[] = {"/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg",
	"/dev/console", "/dev/uinput", "/dev/input", "/dev/pts", "/dev/fd", "/dev/shm",
	"/dev/mqueue", "/dev/mapper", "/dev/disk", "/dev/block", "/dev/cpu", "/dev/vsock",
	"/dev/vhost-vsock"};

int value_device(char **ret, const char *text, struct err *e)
{
	struct policy_context none = {.home = "/", .workspace = "/"};
	cleanup_free char *path = NULL;
	int r;

	if (text[0] != '/' || policy_has_glob(text))
		return value_bad(e, text, "is not a device; write its path, such as /dev/kvm");
	r = policy_path_expand(&path, text, &none, e);
	if (r < 0)
		return r;
	if (!str_starts(path, "/dev/"))
		return value_bad(e, text, "is not below /dev");
	for (size_t i = 0; i < ARRAY_SIZE(minimal_devices); i++)
		if (str_eq(path, minimal_devices[i]))
			return value_bad(e, text, "is always there and need not be listed");
	for (size_t i = 0; i < ARRAY_SIZE(forbidden_devices); i++)
		if (path_within(forbidden_devices[i], path))
			return value_bad(e, text, "cannot be given to a sandbox");
	if (str_starts(path, "/dev/tty") && path[8] >= '0' && path[8] <= '9')
		return value_bad(
			e, text, "is a console of the host and cannot be given to a sandbox");
	*ret = take_ptr(path);
	return 0;
}
