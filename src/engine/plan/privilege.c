/* SPDX-License-Identifier: Apache-2.0 */
/* What the command may be, as the plan says it: ids, capabilities, filter, rlimits. Shown and digested. */
#include <assert.h>
#include <inttypes.h>

#include "base/cleanup.h"
#include "engine/plan/plan.h"
#include "os/seccomp.h"

const char *const plan_filter_names[] = {"allowlist"};
static_assert(ARRAY_SIZE(plan_filter_names) == PLAN_FILTER_NUM, "a name per filter");

/* By bit of enum seccomp_flags. */
static const char *const flag_names[] = {"notify-writes", "notify-reads", "broker", "process-tier",
	"no-inet", "no-ptrace", "notify-metadata", "devices", "no-setid", "notify-network"};
static_assert(1u << (ARRAY_SIZE(flag_names) - 1) == SECCOMP_NOTIFY_NETWORK, "a name per flag");

struct rlimit_set plan_rlimits(const struct policy_limits *l, bool staged)
{
	struct rlimit_set set = {.memory_b = l->memory_b,
		.pids = l->pids,
		.open_files = l->open_files,
		.file_size_b = l->file_size_b};

	/* What is staged is counted now and then; a single file cannot outrun that. */
	if (staged && l->disk_b != LIMIT_NONE)
		set.file_size_b = MIN_OF(set.file_size_b, l->disk_b);
	return set;
}

struct named_limit {
	const char *name;
	uint64_t v;
};

#define RLIMITS_NUM 5

static void named_limits(const struct rlimit_set *set, struct named_limit ret[RLIMITS_NUM])
{
	const struct named_limit all[RLIMITS_NUM] = {{"core_b", set->core_b},
		{"memory_b", set->memory_b}, {"pids", set->pids}, {"open_files", set->open_files},
		{"file_size_b", set->file_size_b}};

	for (size_t i = 0; i < RLIMITS_NUM; i++)
		ret[i] = all[i];
}

static void print_ids(const char *what, const struct id_line *line, size_t n, struct buf *out)
{
	buf_adds(out, what);
	for (size_t i = 0; i < n; i++) {
		const struct id_line *l = &line[i];

		if (l->count == 1)
			buf_addf(out, "%s %u is %u outside", i ? "," : "", l->inside, l->outside);
		else
			buf_addf(out, "%s %u to %u are %u to %u outside", i ? "," : "", l->inside,
				l->inside + l->count - 1, l->outside, l->outside + l->count - 1);
	}
}

static void print_identity(const struct id_map *m, struct buf *out)
{
	buf_adds(out, "identity         ");
	if (!m->uid_n) {
		buf_adds(out, "the caller's, without a user namespace\n");
		return;
	}
	print_ids("uid", m->uid, m->uid_n, out);
	print_ids("; gid", m->gid, m->gid_n, out);
	buf_addf(out, "; groups %s be changed\n", m->setgroups ? "can" : "cannot");
}

static void print_caps(uint64_t caps, struct buf *out)
{
	buf_adds(out, "capabilities     ");
	if (!caps)
		buf_adds(out, "none");
	for (unsigned i = 0, n = 0; i < 64; i++)
		if (caps >> i & 1)
			buf_addf(out, "%s%u", n++ ? ", " : "", i);
	buf_addc(out, '\n');
}

void plan_privilege_print(const struct plan *p, struct buf *out)
{
	struct named_limit limit[RLIMITS_NUM];
	unsigned n = 0;

	print_identity(&p->privilege.ids, out);
	print_caps(p->privilege.caps, out);
	buf_addf(out, "seccomp          %s", plan_filter_names[p->privilege.filter]);
	for (size_t i = 0; i < ARRAY_SIZE(flag_names); i++)
		if (p->seccomp_flags >> i & 1)
			buf_addf(out, ", %s", flag_names[i]);
	buf_addf(out, "%s\n", p->broker ? ", path-changing calls through the broker" : "");
	buf_adds(out, "rlimits          ");
	named_limits(&p->privilege.rlimits, limit);
	for (size_t i = 0; i < RLIMITS_NUM; i++)
		if (limit[i].v != LIMIT_NONE)
			buf_addf(out, "%s%s %" PRIu64, n++ ? ", " : "", limit[i].name, limit[i].v);
	buf_addc(out, '\n');
}

static void json_ids(
	struct json *j, const char *key, const struct id_line *line, size_t n)
{
	json_array(j, key);
	for (size_t i = 0; i < n; i++) {
		json_object(j, NULL);
		json_uint(j, "inside", line[i].inside);
		json_uint(j, "outside", line[i].outside);
		json_uint(j, "count", line[i].count);
		json_end(j);
	}
	json_end(j);
}

void plan_privilege_json(const struct plan *p, struct json *j)
{
	const struct id_map *m = &p->privilege.ids;
	struct named_limit limit[RLIMITS_NUM];

	json_object(j, "identity");
	json_bool(j, "user_namespace", m->uid_n > 0);
	json_ids(j, "uid_map", m->uid, m->uid_n);
	json_ids(j, "gid_map", m->gid, m->gid_n);
	json_bool(j, "setgroups", m->setgroups);
	json_end(j);
	json_array(j, "capabilities");
	for (unsigned i = 0; i < 64; i++)
		if (p->privilege.caps >> i & 1)
			json_uint(j, NULL, i);
	json_end(j);
	json_object(j, "seccomp");
	json_str(j, "profile", plan_filter_names[p->privilege.filter]);
	json_array(j, "flags");
	for (size_t i = 0; i < ARRAY_SIZE(flag_names); i++)
		if (p->seccomp_flags >> i & 1)
			json_str(j, NULL, flag_names[i]);
	json_end(j);
	json_end(j);
	json_object(j, "rlimits");
	named_limits(&p->privilege.rlimits, limit);
	for (size_t i = 0; i < RLIMITS_NUM; i++)
		if (limit[i].v != LIMIT_NONE)
			json_uint(j, limit[i].name, limit[i].v);
		else
			json_null(j, limit[i].name);
	json_end(j);
}
