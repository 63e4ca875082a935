/* SPDX-License-Identifier: Apache-2.0 */
/* Receipts: see receipt.h. */
#include "session/run/receipt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "session/run/hidden.h"
#include "croft.h"

int receipt_init(struct receipt *r)
{
	unsigned char raw[RUN_ID_LEN / 2];

	*r = (struct receipt){.command = STRLIST_INIT(65536),
		.degradations = STRLIST_INIT(64),
		.limits_hit = STRLIST_INIT(16),
		.network = NETWORK_INIT};
	redact_init(&r->hidden);
	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return -1;
	for (size_t i = 0; i < sizeof(raw); i++)
		snprintf(r->id + 2 * i, 3, "%02x", raw[i]);
	clock_gettime(CLOCK_REALTIME, &r->started);
	return 0;
}

void receipt_done(struct receipt *r)
{
	strlist_done(&r->command);
	strlist_done(&r->degradations);
	strlist_done(&r->limits_hit);
	record_done(&r->record);
	planted_done(&r->planted);
	network_done(&r->network);
	redact_done(&r->hidden);
	free(r->cwd);
	free(r->workspace);
	free(r->label);
	free(r->profile);
	free(r->json);
	free(r->text);
}

void receipt_degrade(struct receipt *r, const char *fmt, ...)
{
	cleanup_buf struct buf b = BUF_INIT(2048);
	va_list ap;

	va_start(ap, fmt);
	buf_addv(&b, fmt, ap);
	va_end(ap);
	if (r->degradations.n < 64)
		r->fixed &= ~(UINT64_C(1) << r->degradations.n);
	strlist_add(&r->degradations, buf_str(&b));
}

void receipt_degrade_fixed(struct receipt *r, const char *fmt, ...)
{
	cleanup_buf struct buf b = BUF_INIT(2048);
	size_t at = r->degradations.n;
	va_list ap;

	va_start(ap, fmt);
	buf_addv(&b, fmt, ap);
	va_end(ap);
	receipt_degrade(r, "%s", buf_str(&b));
	if (at < 64 && r->degradations.n > at)
		r->fixed |= UINT64_C(1) << at;
}

static const char *mode(const struct receipt *r)
{
	return r->staged ? "staged" : r->discard ? "discard" : "direct";
}

static void namespaces_json(const struct enforced *f, struct json *j)
{
	static const char *const names[] = {
		"user", "mount", "pid", "net", "ipc", "uts", "cgroup", "time"};
	const uint8_t has[] = {f->ns_user, f->ns_mount, f->ns_pid, f->ns_net, f->ns_ipc, f->ns_uts,
		f->ns_cgroup, f->ns_time};

	json_array(j, "namespaces");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (has[i])
			json_str(j, NULL, names[i]);
	json_end(j);
}

static const char *holder(const struct receipt *r, unsigned has, uint8_t rlimit, uint64_t limit)
{
	if (limit == LIMIT_NONE)
		return "unlimited";
	return r->cgroup_has & has ? "cgroup" : rlimit ? "rlimit" : "not enforced";
}

/* The private tmpfs has a size; files of the host's file systems have not. */
static const char *disk_holder(const struct receipt *r)
{
	if (!r->enforced.ns_mount)
		return r->limits.disk_b == LIMIT_NONE ? "unlimited" : "not enforced";
	return r->discard ? "private and discarded files only"
	       : r->staged
		       ? r->limits.disk_b == LIMIT_NONE
				 ? "private files only; staged ones are on the host's file system"
				 : "private files by the size of their file system, staged ones "
				   "by counting"
		       : "private files only";
}

static void enforced_json(const struct receipt *r, struct json *j)
{
	const struct enforced *f = &r->enforced;

	json_object(j, "enforced");
	namespaces_json(f, j);
	json_object(j, "landlock");
	json_int(j, "abi", f->landlock_abi);
	json_uint(j, "rules", f->landlock_rules);
	json_bool(j, "reads", f->landlock_reads);
	json_bool(j, "tcp_closed", f->landlock_tcp);
	json_bool(j, "ipc_scoped", f->landlock_scoped);
	json_end(j);
	json_object(j, "seccomp");
	json_str(j, "mode", "allowlist");
	json_uint(j, "instructions", f->seccomp_insns);
	json_bool(j, "broker", f->broker);
	json_bool(j, "metadata_broker", f->broker_meta);
	json_end(j);
	json_bool(j, "no_new_privs", f->no_new_privs);
	json_bool(j, "capabilities_empty", f->caps_empty);
	json_bool(j, "session_keyring_new", f->keyring_new);
	json_bool(j, "supplementary_groups_dropped", f->groups_dropped);
	json_uint(j, "mounts", f->mounts);
	json_bool(j, "decoys", f->decoys);
	json_bool(j, "traps", f->traps);
	json_str(j, "network",
		f->capture ? "captured: every connection is the gateway's"
		: f->proxy ? "TCP to the gateway's port only, by Landlock; other sockets closed by "
			     "seccomp"
		: f->ns_net       ? "loopback only"
		: f->landlock_tcp ? "TCP closed by Landlock, other sockets by seccomp"
				  : "closed by seccomp");
	json_object(j, "cgroup");
	json_str(j, "kind", cgroup_kind_names[r->cgroup_kind]);
	json_end(j);
	json_object(j, "limits_held_by");
	json_str(j, "memory", holder(r, CGROUP_HAS_MEMORY, f->rlimit_memory, r->limits.memory_b));
	json_str(j, "pids", holder(r, CGROUP_HAS_PIDS, f->rlimit_pids, r->limits.pids));
	json_str(j, "cpus", holder(r, CGROUP_HAS_CPU, 0, r->limits.cpu_milli));
	json_str(j, "disk", disk_holder(r));
	json_end(j);
	json_end(j);
}

static void limit_json(struct json *j, const char *key, uint64_t v)
{
	if (v == LIMIT_NONE)
		json_null(j, key);
	else
		json_uint(j, key, v);
}

static void limits_json(const struct policy_limits *l, struct json *j)
{
	json_object(j, "limits");
	limit_json(j, "memory_b", l->memory_b);
	limit_json(j, "cpu_milli", l->cpu_milli);
	limit_json(j, "pids", l->pids);
	limit_json(j, "open_files", l->open_files);
	limit_json(j, "disk_b", l->disk_b);
	limit_json(j, "file_size_b", l->file_size_b);
	limit_json(j, "timeout_ms", l->timeout_ms);
	json_end(j);
}

static void list_json(const struct strlist *l, struct json *j, const char *key)
{
	json_array(j, key);
	for (size_t i = 0; i < l->n; i++)
		json_str(j, NULL, l->v[i]);
	json_end(j);
}

/* A call that nobody watches is refused without a word; a call that is watched can be cut short. */
#define ELSEWHERE "a write that is refused elsewhere is not observed (observe: writes does)"

static const char *writes_seen(const struct receipt *r)
{
	if (r->enforced.broker)
		return "every path-changing call (broker)";
	if (r->observe >= OBSERVE_WRITES)
		return "write-intent opens, renames, deletions";
	if (r->observe == OBSERVE_OFF)
		return "not observed";
	if (r->enforced.decoys)
		return "well-known secret and start-up paths, and denied ones in grants (decoys; "
		       "below a directory told as reads); " ELSEWHERE;
	if (r->enforced.traps)
		return "well-known secret paths, and denied files in grants (traps: told as reads; "
		       "start-up files are not told); " ELSEWHERE;
	return ELSEWHERE;
}

/* What the watchers could see at all: the absence of a denial proves nothing beyond this. */
static void coverage_json(const struct receipt *r, struct json *j)
{
	static const char *const files[] = {[FILES_UNKNOWN] = "not looked for",
		[FILES_BY_LAYERS] = "what the layer holds that was written",
		[FILES_BY_WATCHER] = "what was seen to be written",
		[FILES_BY_SESSION] = "not known of one among many commands: the session's events "
				     "say what was written from one quiet moment to the next"};
	const struct enforced *f = &r->enforced;
	bool full = r->observe == OBSERVE_FULL;

	json_object(j, "coverage");
	json_str(j, "writes", writes_seen(r));
	json_str(j, "reads",
		full        ? "every open and exec"
		: f->decoys ? "well-known secret paths, and denied ones in grants (decoys)"
		: f->traps  ? "well-known secret paths, and denied files in grants (traps: whether, "
			      "not how often)"
			    : "not observed");
	if (r->files_by == FILES_BY_TIMES)
		json_strf(j, "files",
			"files with a change time after the start, among the first %u entries of "
			"the workspace; not what was deleted or moved",
			r->files_entries);
	else
		json_str(j, "files", files[r->files_by]);
	json_str(j, "note", "a missing denial is not proof that nothing was refused");
	json_end(j);
}

static void exit_json(const struct receipt *r, struct json *j)
{
	json_object(j, "exit");
	json_int(j, "code", r->exit_code);
	if (r->exit_signal)
		json_int(j, "signal", r->exit_signal);
	else
		json_null(j, "signal");
	json_bool(j, "timed_out", r->outcome.timed_out);
	json_bool(j, "orphaned", r->outcome.orphaned);
	json_end(j);
	json_object(j, "usage");
	json_fixed(j, "wall_ms", r->wall_us, 3);
	json_fixed(j, "cpu_ms", r->cpu_us, 3);
	json_uint(j, "peak_memory_b", r->peak_memory_b);
	json_end(j);
}

static void plain_json(const struct receipt *r, struct buf *out, bool indent)
{
	struct json j;
	char when[32];
	struct tm tm;

	gmtime_r(&r->started.tv_sec, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	json_init(&j, out, indent);
	json_object(&j, NULL);
	json_str(&j, "schema", "croft.receipt/v1");
	json_str(&j, "croft", CROFT_VERSION);
	json_str(&j, "id", r->id);
	json_str(&j, "started", when);
	if (r->label)
		json_str(&j, "label", r->label);
	list_json(&r->command, &j, "command");
	json_str(&j, "cwd", r->cwd);
	json_str(&j, "workspace", r->workspace);
	json_object(&j, "policy");
	json_str(&j, "digest", r->policy_digest.hex);
	json_str(&j, "enforced_digest", r->enforced_digest.hex);
	json_str(&j, "profile", r->profile);
	json_end(&j);
	json_str(&j, "tier", r->tier);
	json_str(&j, "mode", mode(r));
	enforced_json(r, &j);
	list_json(&r->degradations, &j, "degradations");
	limits_json(&r->limits, &j);
	list_json(&r->limits_hit, &j, "limits_hit");
	exit_json(r, &j);
	network_json(&r->network, &j);
	record_denials_json(
		&r->record, &j, r->id, network_denials_json, &r->network, r->network.denials_lost);
	json_object(&j, "files");
	record_files_json(&r->record, &j);
	planted_json(&r->planted, &j);
	json_end(&j);
	coverage_json(r, &j);
	json_end(&j);
	buf_addc(out, '\n');
}

void receipt_hide(struct receipt *r)
{
	struct err e = ERR_INIT;

	r->hidden_unknown = hidden_know(&r->hidden, &r->policy, &e) < 0;
	if (r->hidden_unknown)
		receipt_degrade(
			r, "there is no receipt, since what to hide in it is not known: %s", e.msg);
}

void receipt_json_hiding(
	const struct receipt *r, struct redact *hidden, struct buf *out, bool indent)
{
	cleanup_buf struct buf plain = BUF_INIT(out->max);

	plain_json(r, &plain, indent);
	if (plain.failed || redact_json(hidden, buf_str(&plain), plain.len, out) < 0)
		out->failed = true;
}

void receipt_json(struct receipt *r, struct buf *out, bool indent)
{
	if (r->hidden_unknown)
		out->failed = true;
	else
		receipt_json_hiding(r, &r->hidden, out, indent);
}

/*
 * The digest of what held: the policy's digest, the plan as executed, the mechanisms and what was
 * missing. Two runs with the same value ran behind the same boundary.
 */
static void seal_enforced(struct receipt *r, const struct plan *p)
{
	cleanup_buf struct buf b = BUF_INIT(RECEIPT_JSON_MAX);
	struct json j;

	json_init(&j, &b, false);
	json_object(&j, NULL);
	json_str(&j, "policy", r->policy_digest.hex);
	json_str(&j, "tier", r->tier);
	json_str(&j, "mode", mode(r));
	json_str(&j, "plan", p->digest.hex);
	enforced_json(r, &j);
	list_json(&r->degradations, &j, "degradations");
	json_end(&j);
	digest_sha256(&r->enforced_digest, buf_str(&b), b.len);
}

void receipt_seal(struct receipt *r, const struct plan *p)
{
	int st = r->outcome.status;

	if (r->outcome.lost && !WIFSIGNALED(st)) {
		r->exit_code = CROFT_EXIT_FAILED;
	} else if (WIFSIGNALED(st)) {
		r->exit_signal = WTERMSIG(st);
		r->exit_code = 128 + r->exit_signal;
	} else {
		r->exit_code = WEXITSTATUS(st);
	}
	if (r->outcome.timed_out)
		r->exit_code = CROFT_EXIT_TIMEOUT;
	if (r->outcome.replaced[0])
		r->exit_code = CROFT_EXIT_REFUSED;
	seal_enforced(r, p);
}

static size_t denials_n(const struct receipt *r)
{
	return r->record.denials_n + r->network.denials_n;
}

/* Does a rule refuse this host because nothing depends on it? Then it is told of in one line. */
static bool is_telemetry(const struct receipt *r, const char *host)
{
	const struct net_policy *n = r->policy.net;

	for (size_t i = 0; n && i < n->rules_n; i++)
		if (n->rules[i].effect == NET_DENY && n->rules[i].reason && n->rules[i].host &&
			str_eq(n->rules[i].reason, "telemetry") && str_eq(n->rules[i].host, host))
			return true;
	return false;
}

static size_t telemetry_n(const struct receipt *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->network.denials_n; i++)
		n += is_telemetry(r, r->network.denials[i].host);
	return n;
}

/* What was written and is as before, or ignored, is no change. More than can be kept is said to be more. */
static void text_changed(const struct receipt *r, struct buf *out)
{
	size_t n = r->settled ? r->differ : r->record.files_n;
	bool more = r->record.files_full && r->files_by != FILES_UNKNOWN &&
		    r->files_by != FILES_BY_TIMES && !r->settled;

	if (n)
		buf_addf(out, ", %s%zu file%s changed", more ? "more than " : "", n,
			n == 1 ? "" : "s");
}

static void text_head(const struct receipt *r, struct buf *out)
{
	buf_addf(out, "croft: %s tier, ", r->tier);
	buf_adds(out, r->staged    ? "changes staged"
		      : r->discard ? "changes discarded"
				   : "wrote in place (--direct)");
	if (r->outcome.replaced[0])
		buf_addf(out, ", ended by croft, exit %d", r->exit_code);
	else if (r->outcome.timed_out)
		buf_addf(out, ", timed out");
	else if (r->outcome.orphaned)
		buf_addf(out, ", ended with the program that started it (not with --stay)");
	else if (r->exit_signal)
		buf_addf(out, ", killed by signal %d", r->exit_signal);
	else
		buf_addf(out, ", exit %d", r->exit_code);
	buf_addf(out, ", %" PRIu64 ".%" PRIu64 " ms", r->wall_us / 1000, r->wall_us % 1000 / 100);
	text_changed(r, out);
	if (r->network.requests || r->network.connections)
		buf_addf(out, ", %" PRIu64 " connection%s", r->network.connections,
			r->network.connections == 1 ? "" : "s");
	if (denials_n(r) > telemetry_n(r))
		buf_addf(out, ", %zu denied", denials_n(r) - telemetry_n(r));
	buf_addf(out, " [%s]\n", r->id);
}

#define TEXT_DENIALS 10
#define TEXT_FILES 10
#define TEXT_SHARED " (by this or another command)"

static void text_telemetry(const struct receipt *r, struct buf *out)
{
	const struct network_denial *d = r->network.denials;
	uint64_t count = 0;
	size_t hosts = 0;

	for (size_t i = 0; i < r->network.denials_n; i++) {
		bool told = false;

		if (!is_telemetry(r, d[i].host))
			continue;
		count += d[i].count;
		for (size_t k = 0; k < i && !told; k++)
			told = str_eq(d[k].host, d[i].host);
		if (told)
			continue;
		buf_adds(out, hosts++ ? ", " : "  refused telemetry to ");
		str_show(out, d[i].host, strlen(d[i].host));
	}
	if (hosts)
		buf_addf(out, " (%" PRIu64 " time%s)\n", count, count == 1 ? "" : "s");
}

static void text_network_denial(const struct network_denial *d, struct buf *out)
{
	buf_adds(out, "  denied  network ");
	if (d->method[0]) {
		str_show(out, d->method, strlen(d->method));
		buf_addc(out, ' ');
	}
	str_show(out, d->host, strlen(d->host));
	if (d->port)
		buf_addf(out, ":%u", d->port);
	str_show(out, d->path, strlen(d->path));
	if (d->count > 1)
		buf_addf(out, " (%" PRIu64 " times)", d->count);
	if (d->shared)
		buf_adds(out, TEXT_SHARED);
	buf_adds(out, d->fix[0] ? "  allow with: " : "  ");
	str_show(out, d->fix[0] ? d->fix : d->why, strlen(d->fix[0] ? d->fix : d->why));
	buf_addc(out, '\n');
}

static void text_denials(const struct receipt *r, struct buf *out, bool verbose)
{
	size_t files = r->record.denials_n, n = denials_n(r);
	uint64_t lost = r->record.denials_lost + r->network.denials_lost;
	size_t shown = 0;

	for (size_t i = 0; i < n && (verbose || shown < TEXT_DENIALS); i++) {
		const struct denial *d = i < files ? &r->record.denials[i] : NULL;
		cleanup_buf struct buf fix = BUF_INIT(20480);

		if (i >= files && is_telemetry(r, r->network.denials[i - files].host))
			continue;
		shown++;
		if (!d) {
			text_network_denial(&r->network.denials[i - files], out);
			continue;
		}
		buf_addf(out, "  denied  %-7s ", notice_op_names[d->op]);
		str_show(out, d->path, strlen(d->path));
		if (d->count > 1)
			buf_addf(out, " (%" PRIu64 " times)", d->count);
		if (d->shared)
			buf_adds(out, TEXT_SHARED);
		denial_fix(d, &fix);
		buf_addf(out, "  allow with: %s%s\n", buf_str(&fix),
			denial_fix_waits(d->path, buf_str(&fix)) ? " (once it exists)" : "");
	}
	n -= telemetry_n(r);
	if (!verbose && n > TEXT_DENIALS)
		buf_addf(out, "  … and %zu more: croft why %s\n", n - TEXT_DENIALS, r->id);
	text_telemetry(r, out);
	if (lost)
		buf_addf(out, "  … and %" PRIu64 " beyond what is recorded\n", lost);
}

/* What a client of containers says is that a daemon is missing, which helps nobody. */
static void text_containers(const struct receipt *r, struct buf *out)
{
	static const char *const clients[] = {
		"docker", "docker-compose", "podman", "podman-compose", "nerdctl", "buildah"};
	const char *name = r->command.n ? r->command.v[0] : "", *slash = strrchr(name, '/');

	for (size_t i = 0; r->exit_code && i < ARRAY_SIZE(clients); i++)
		if (str_eq(slash ? slash + 1 : name, clients[i]))
			buf_addf(out,
				"  %-7s is kept from the daemon, with which it could do anything on this "
				"machine; no tier of this version runs containers inside\n",
				clients[i]);
}

static void text_verbose(const struct receipt *r, struct buf *out)
{
	const struct enforced *f = &r->enforced;

	buf_addf(out, "  policy  %.16s… (%s), enforced %.16s…\n", r->policy_digest.hex,
		r->profile ? r->profile : "-", r->enforced_digest.hex);
	buf_addf(out,
		"  held by %sLandlock ABI %d (%u rules), seccomp (%u instructions%s), cgroup %s\n",
		f->ns_user ? "namespaces, " : "", f->landlock_abi, f->landlock_rules,
		f->seccomp_insns,
		f->broker        ? ", broker"
		: f->broker_meta ? ", broker for metadata"
				 : "",
		cgroup_kind_names[r->cgroup_kind]);
	buf_addf(out, "  used    %" PRIu64 " ms CPU, %" PRIu64 " KiB peak memory\n",
		r->cpu_us / 1000, r->peak_memory_b / 1024);
	for (size_t i = 0; i < r->record.files_n && i < TEXT_FILES * 10; i++) {
		buf_addf(out, "  %-8s", file_change_names[r->record.files[i].change]);
		str_show(out, r->record.files[i].path, strlen(r->record.files[i].path));
		buf_addc(out, '\n');
	}
}

/* Fully when asked, or when the user has accepted them for this run; otherwise how many. */
static void text_degradations(const struct receipt *r, struct buf *out, bool verbose)
{
	size_t shown = verbose || r->allow_degraded ? r->degradations.n : r->fell_back;
	size_t rest = 0;

	for (size_t i = shown; i < r->degradations.n; i++)
		rest += i >= 64 || !(r->fixed & UINT64_C(1) << i);

	for (size_t i = 0; i < shown; i++)
		buf_addf(out, "  less    %s\n", r->degradations.v[i]);
	if (rest)
		buf_addf(out, "  less    %zu weaker protection%s recorded; -v shows them\n", rest,
			rest == 1 ? "" : "s");
}

void receipt_text(const struct receipt *r, struct buf *out, bool verbose)
{
	text_head(r, out);
	if (r->outcome.replaced[0]) {
		buf_adds(out, "  ended   ");
		str_show(out, r->outcome.replaced, strlen(r->outcome.replaced));
		buf_adds(out, " was replaced on this machine while the command ran, so it was no "
			      "longer protected; run the command again\n");
	}
	text_denials(r, out, verbose);
	planted_text(&r->planted, out, verbose);
	text_containers(r, out);
	if (r->settled && r->ignored && r->record.files_n > r->differ)
		buf_addf(out,
			"  ignored %" PRIu64 " changed path%s that Git ignores will not land; %s "
			"in the environment\n",
			r->ignored, r->ignored == 1 ? "" : "s",
			r->ignored == 1 ? "it stays" : "they stay");
	for (size_t i = 0; i < r->limits_hit.n; i++)
		buf_addf(out, "  limit   %s\n", r->limits_hit.v[i]);
	text_degradations(r, out, verbose);
	if (verbose)
		text_verbose(r, out);
}
