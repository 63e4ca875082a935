/* SPDX-License-Identifier: Apache-2.0 */
/* Combining layers: precedence, the floor, the ceiling, and what a project may not do by itself. */
#include "test.h"

#include <time.h>

#include "policy/policy_impl.h"

static const struct policy_context ctx = {.home = "/home/u", .workspace = "/home/u/w"};

struct layers {
	const char *system, *user, *project, *cli; /* YAML without "version: 1", or NULL */
	bool trusted;
};

static struct policy pol;
static struct err err;

static struct policy_layer *layer(enum policy_layer_kind kind, const char *name, const char *body)
{
	struct policy_layer *l = NULL;
	char text[8192];

	if (!body)
		return NULL;
	snprintf(text, sizeof(text), "version: 1\n%s", body);
	if (policy_layer_parse(&l, kind, name, text, strlen(text), &ctx, &err) < 0)
		printf("# the test's own layer: %s\n", err.msg);
	return l;
}

/* 0, or the exit status of the refusal. */
static int resolve(struct layers in)
{
	struct policy_layer *v[4] = {layer(LAYER_SYSTEM, "system.yaml", in.system),
		layer(LAYER_USER, "user.yaml", in.user),
		layer(LAYER_PROJECT, "croft.yaml", in.project),
		layer(LAYER_CLI, "command line", in.cli)};
	int r;

	policy_done(&pol);
	err = ERR_INIT;
	r = policy_resolve(&pol, v, 4, in.trusted, &ctx, &err);
	for (int i = 0; i < 4; i++)
		policy_layer_free(v[i]);
	return r < 0 ? err_exit_code(&err) : 0;
}
#define RESOLVE(...) resolve((struct layers){__VA_ARGS__})

static const char *access_of(const char *path)
{
	return policy_access_names[policy_access(&pol, path, NULL)];
}

/* ---- precedence ---- */

TEST(specificity)
{
	static const struct {
		const char *body, *path, *access;
	} cases[] = {
		{"filesystem: {read: [/d]}", "/d/x", "read"},
		{"filesystem: {read: [/d]}", "/dd", "deny"},
		{"filesystem: {read: [/d], deny: [/d/s]}", "/d/s/x", "deny"},
		{"filesystem: {read: [/d], deny: [/d/s]}", "/d/t", "read"},
		{"filesystem: {read: [/d], deny: [/d/s], write: [/d/s/o]}", "/d/s/o/x", "write"},
		{"filesystem: {read: [/d], deny: [/d/s], write: [/d/s/o]}", "/d/s/p", "deny"},
		{"filesystem: {read: [/d], write: [/d]}", "/d/x", "write"},
		/* patterns */
		{"filesystem: {write: [/d], deny: ['/d/**/.env']}", "/d/.env", "deny"},
		{"filesystem: {write: [/d], deny: ['/d/**/.env']}", "/d/a/b/.env", "deny"},
		{"filesystem: {write: [/d], deny: ['/d/**/.env']}", "/d/a/env", "write"},
		{"filesystem: {write: [/d, /d/a/b], deny: ['/d/**/.env']}", "/d/a/b/.env", "deny"},
		{"filesystem: {write: [/d/a/.env], deny: ['/d/**/.env']}", "/d/a/.env", "write"},
		{"filesystem: {read: [/d/a], deny: ['/d/**']}", "/d/a/b", "read"},
		{"filesystem: {read: [/d/a], deny: ['/d/*']}", "/d/b", "deny"},
		{"filesystem: {read: ['/d/a*'], deny: ['/d/*b']}", "/d/ab",
			"deny"}, /* tie: narrower */
		{"filesystem: {write: ['/d/a*'], read: ['/d/*b']}", "/d/ab", "read"},
		{"filesystem: {read: ['/d/a*']}", "/d/ab/c/d", "read"},
		{"filesystem: {deny: ['/d/[id].js'], write: [/d]}", "/d/[id].js", "deny"},
		/* workspace and home */
		{"tier: auto", "/home/u/w/x", "write"},
		{"tier: auto", "/home/u/w", "write"},
		{"tier: auto", "/home/u/w/.git/config", "read"},
		{"tier: auto", "/home/u/x", "deny"},
		{"tier: auto", "/home/u/.ssh/id", "deny"},
		{"tier: auto", "/home/u/.rustup/x", "read"},
		{"tier: auto", "/usr/bin/env", "read"},
		{"tier: auto", "/etc/shadow", "deny"},
		{"tier: auto", "/", "deny"},
		{"filesystem: {read: [.]}", "/home/u/w/x",
			"read"}, /* a later layer, the same path */
		{"filesystem: {read: [~]}", "/home/u/.ssh/id", "deny"},
		{"filesystem: {read: [~]}", "/home/u/.bashrc", "read"},
		{"filesystem: {read: [~/.ssh]}", "/home/u/.ssh/id", "read"},
		{"filesystem: {read: [~/.ssh/config]}", "/home/u/.ssh/config", "read"},
		{"filesystem: {read: [~/.ssh/config]}", "/home/u/.ssh/id", "deny"},
		{"filesystem: {write: [./.git]}", "/home/u/w/.git/config", "write"},
		{"filesystem: {deny: [/usr]}", "/usr/bin/env", "deny"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CHECK_INT(RESOLVE(.user = cases[i].body), 0);
		if (strcmp(access_of(cases[i].path), cases[i].access) != 0) {
			test_fail(__FILE__, __LINE__, "%s: %s is %s, not %s", cases[i].body,
				cases[i].path, access_of(cases[i].path), cases[i].access);
			return;
		}
	}
}

/* The index and a plain walk over the rules give the same answers. */
TEST(index_agrees_with_walk)
{
	static const char *const paths[] = {"/d", "/d/a", "/d/a/b", "/d/a/.env", "/d/x.c", "/e",
		"/home/u/w/q", "/home/u/w/.git/x", "/usr/lib/x", "/run/user/0", "/home/u/.ssh", "/",
		"/d/ab/c", "/d/a-b", "/d/a-b/q/r", "/d/a-b/r", "/d/a/b/c/d", "/d/a/zz", "/d/a0",
		"/d/a/b-c/d"};

	CHECK_INT(RESOLVE(.user = "filesystem: {read: [/d, '/d/a*'], deny: ['/d/**/.env', "
				  "'/d/*.c', /d/a/b/c], write: [/d/a, /d/a-b/q, '/d/a/b-*']}"),
		0);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		const struct policy_rule *a, *b;
		enum access x = policy_access(&pol, paths[i], &a), y;

		pol.indexed = false;
		y = policy_access(&pol, paths[i], &b);
		pol.indexed = true;
		CHECK_INT(x, y);
		CHECK(a == b);
	}
}

TEST(layers_override)
{
	CHECK_INT(
		RESOLVE(.user = "filesystem: {read: [/d]}", .cli = "filesystem: {write: [/d]}"), 0);
	CHECK_STR(access_of("/d"), "write");
	CHECK_INT(
		RESOLVE(.user = "filesystem: {write: [/d]}", .cli = "filesystem: {deny: [/d]}"), 0);
	CHECK_STR(access_of("/d"), "deny");
	CHECK_INT(
		RESOLVE(.user = "filesystem: {deny: [/d]}", .cli = "filesystem: {read: [/d]}"), 0);
	CHECK_STR(access_of("/d"), "read");
	CHECK_INT(RESOLVE(.user = "tier: process\nthreat: trusted\nobserve: off",
			  .cli = "tier: namespace"),
		0);
	CHECK_INT(pol.tier, TIER_NAMESPACE);
	CHECK_INT(pol.threat, THREAT_TRUSTED);
	CHECK_INT(pol.observe, OBSERVE_OFF);
	CHECK_INT(RESOLVE(.user = "threat: risky"), 0);
	CHECK_INT(pol.observe, OBSERVE_KNOWN);
	CHECK_INT(RESOLVE(.user = "threat: hostile"), 0);
	CHECK_INT(pol.observe, OBSERVE_WRITES); /* nobody says how much */
	CHECK_INT(RESOLVE(.user = "observe: known", .cli = "threat: hostile"), 0);
	CHECK_INT(pol.observe, OBSERVE_KNOWN);
	CHECK_INT(RESOLVE(.system = "threat: hostile", .cli = "profile: strict"), 0);
	CHECK_INT(pol.observe, OBSERVE_FULL); /* the profile's */
	CHECK_INT(RESOLVE(.user = "limits: {memory: 1G}", .cli = "limits: {memory: none}"), 0);
	CHECK(pol.limits.memory_b == LIMIT_NONE);
	CHECK_INT(pol.limits.pids, 4096);
	CHECK_INT(RESOLVE(.user = "environment: {set: {A: 1, B: 2}}",
			  .cli = "environment: {set: {A: 3}, pass: [Z]}"),
		0);
	CHECK_INT(pol.env_set_n, 2);
	CHECK_STR(pol.env_set[0].value, "3");
	CHECK(policy_env_passes(&pol, "Z"));
	CHECK(policy_env_passes(&pol, "LC_ALL"));
	CHECK(!policy_env_passes(&pol, "LCX"));
	CHECK(!policy_env_passes(&pol, "AWS_SECRET_ACCESS_KEY"));
	CHECK(!policy_env_passes(&pol, "LD_PRELOAD"));
	CHECK(!policy_env_passes(&pol, "SSH_AUTH_SOCK"));
}

TEST(origin_is_kept)
{
	const struct policy_rule *r;

	CHECK_INT(RESOLVE(.user = "filesystem:\n  read:\n    - /d\n"), 0);
	policy_access(&pol, "/d/x", &r);
	CHECK(r);
	CHECK_INT(r->origin.layer, LAYER_USER);
	CHECK_STR(r->origin.file, "user.yaml");
	CHECK_INT(r->origin.line, 4);
	CHECK_INT(r->origin.column, 7);
	CHECK_INT(policy_access(&pol, "/nowhere", &r), ACCESS_DENY);
	CHECK(!r);
}

/* ---- profiles ---- */

TEST(profile_choice)
{
	CHECK_INT(RESOLVE(.user = "tier: auto"), 0);
	CHECK_STR(pol.profile, "default");
	CHECK_INT(RESOLVE(.system = "profile: c", .user = "profile: rust"), 0);
	CHECK_STR(pol.profile, "rust");
	CHECK_STR(access_of("/home/u/.rustup"), "read");
	CHECK_STR(access_of("/home/u/.nvm"), "deny");
	CHECK_INT(RESOLVE(.user = "profile: rust", .cli = "profile: strict"), 0);
	CHECK_STR(access_of("/home/u/.rustup"), "deny");
	CHECK_INT(pol.threat, THREAT_HOSTILE);
	CHECK_INT(pol.limits.pids, 256);
}

/* What the tables say is what the published YAML says. */
TEST(profiles_match_their_text)
{
	for (size_t i = 0; i <= policy_profile_names_n; i++) {
		const char *name = i < policy_profile_names_n ? policy_profile_names[i] : NULL;
		const char *text = name ? policy_profile_text(name) : policy_floor_text();
		struct policy_layer *made = NULL, *parsed = NULL;

		CHECK(text);
		CHECK_INT(policy_layer_builtin(&made, name, &ctx, &err), 0);
		if (policy_layer_parse(
			    &parsed, LAYER_PROFILE, "text", text, strlen(text), &ctx, &err) < 0) {
			test_fail(__FILE__, __LINE__, "%s: %s", name ? name : "floor", err.msg);
			return;
		}
		CHECK_INT(made->rules_n, parsed->rules_n);
		for (size_t k = 0; k < made->rules_n; k++) {
			CHECK_STR(made->rules[k].path, parsed->rules[k].path);
			CHECK_INT(made->rules[k].access, parsed->rules[k].access);
			CHECK_INT(made->rules[k].optional, parsed->rules[k].optional);
			CHECK_INT(made->rules[k].glob, parsed->rules[k].glob);
		}
		CHECK_INT(made->pass.n, parsed->pass.n);
		for (size_t k = 0; k < made->pass.n; k++)
			CHECK_STR(made->pass.v[k].name, parsed->pass.v[k].name);
		for (int k = 0; k < LIMIT_NUM; k++) {
			CHECK_INT(made->limits[k].set, parsed->limits[k].set);
			CHECK(made->limits[k].v == parsed->limits[k].v);
		}
		CHECK_INT(made->tier.set, parsed->tier.set);
		CHECK_INT(made->threat.v, parsed->threat.v);
		CHECK_INT(made->observe.v, parsed->observe.v);
		CHECK_INT(made->net.reach, parsed->net.reach);
		CHECK_INT(parsed->net.rules_n, 0);
		CHECK_INT(made->set.n, 0);
		CHECK_INT(parsed->set.n, 0);
		policy_layer_free(made);
		policy_layer_free(parsed);
	}
}

/* Nothing that holds credentials, and no pattern (which would cost a directory walk per command).
 */
TEST(profiles_are_harmless)
{
	static const char *const secret[] = {"/home/u/.ssh/id", "/home/u/.aws/credentials",
		"/home/u/.gnupg/x", "/home/u/.cargo/credentials.toml", "/home/u/.npmrc",
		"/home/u/.netrc", "/home/u/.pypirc", "/home/u/.config/gh/hosts.yml",
		"/home/u/.docker/config.json", "/home/u/.git-credentials", "/etc/shadow",
		"/etc/ssl/private/key.pem", "/etc/pki/tls/private/key", "/root/x",
		"/var/run/docker.sock", "/home/u/.gitconfig", "/home/u/.bashrc",
		"/home/u/.config/croft/policy.yaml", "/home/u/.local/state/croft/trust",
		"/run/user/1000/bus", "/run/dbus/system_bus_socket", "/proc/1/environ",
		"/sys/kernel", "/tmp/x", "/home/other/x"};

	for (size_t i = 0; i < policy_profile_names_n; i++) {
		char body[64];

		snprintf(body, sizeof(body), "profile: %s", policy_profile_names[i]);
		CHECK_INT(RESOLVE(.user = body), 0);
		CHECK_INT(pol.globs_n, 0);
		CHECK_STR(access_of("/home/u/w/x"), "write");
		CHECK_STR(access_of("/usr/bin/x"), "read");
		for (size_t k = 0; k < sizeof(secret) / sizeof(secret[0]); k++)
			if (strcmp(access_of(secret[k]), "deny") != 0) {
				test_fail(__FILE__, __LINE__, "%s gives %s to %s",
					policy_profile_names[i], access_of(secret[k]), secret[k]);
				return;
			}
	}
}

/* ---- the floor ---- */

TEST(floor_holds)
{
	static const char *const grants[] = {"read: [~/.config/croft]",
		"write: [~/.local/state/croft/trust]", "read: [/etc/croft]",
		"write: [/run/docker.sock]", "read: [/run/user/1000/bus]", "read: [/run/dbus]",
		"write: [./croft.yaml]"};
	char body[128];

	for (size_t i = 0; i < sizeof(grants) / sizeof(grants[0]); i++) {
		snprintf(body, sizeof(body), "filesystem: {%s}", grants[i]);
		CHECK_INT(RESOLVE(.user = body), 126);
		CHECK_INT(RESOLVE(.cli = body), 126);
		CHECK_INT(RESOLVE(.system = body), 126);
		CHECK_INT(RESOLVE(.project = body, .trusted = true), 126);
	}
	CHECK_INT(
		RESOLVE(.user = "filesystem:\n  read:\n    - ~/.config/croft/policy.yaml\n"), 126);
	CHECK_STR(err.msg, "user.yaml:4: read /home/u/.config/croft/policy.yaml is not possible: "
			   "croft itself denies /home/u/.config/croft");
	/* Around it, and by pattern, it stays closed. */
	CHECK_INT(RESOLVE(.cli = "filesystem: {write: [~, /run, '~/**/*.yaml', "
				 "'~/.config/*/policy.yaml']}"),
		0);
	CHECK_STR(access_of("/home/u/.config/croft/policy.yaml"), "deny");
	CHECK_STR(access_of("/home/u/.config/other/policy.yaml"), "write");
	CHECK_STR(access_of("/run/user/1000/bus"), "deny");
	CHECK_STR(access_of("/run/postgresql/s"), "write");
	CHECK_STR(access_of("/home/u/w/croft.yaml"), "read");
	CHECK_STR(access_of("/home/u/w/sub/croft.yaml"), "write");
}

TEST(project_file_is_fixed)
{
	const struct policy_rule *r;

	CHECK_INT(RESOLVE(.cli = "filesystem: {write: [., './*.yaml']}"), 0);
	CHECK_INT(policy_access(&pol, "/home/u/w/croft.yaml", &r), ACCESS_READ);
	CHECK(r->capped && !r->glob);
	CHECK_INT(RESOLVE(.cli = "filesystem: {deny: [./croft.yaml]}"), 0);
	CHECK_STR(access_of("/home/u/w/croft.yaml"), "deny");
	CHECK_INT(RESOLVE(.cli = "filesystem: {deny: [.]}"), 0);
	CHECK_STR(access_of("/home/u/w/croft.yaml"), "deny");
	CHECK_INT(RESOLVE(.cli = "filesystem: {read: [./croft.yaml]}"), 0);
	CHECK_INT(policy_access(&pol, "/home/u/w/croft.yaml", &r), ACCESS_READ);
	CHECK(r->capped && !r->optional); /* the user wants it fixed also when absent */
}

/* ---- the ceiling ---- */

TEST(ceiling_denies)
{
	CHECK_INT(RESOLVE(.system = "filesystem: {deny: [/data]}",
			  .user = "filesystem: {read: [/data]}"),
		126);
	CHECK_STR(err.msg, "user.yaml:2: read /data is not possible: system.yaml:2 denies /data");
	CHECK_INT(RESOLVE(.system = "filesystem: {deny: [/data]}",
			  .cli = "filesystem: {write: [/data/x]}"),
		126);
	CHECK_INT(RESOLVE(.system = "filesystem: {deny: [/data]}",
			  .user = "filesystem: {read: ['/data/*']}"),
		0);
	CHECK_STR(access_of("/data/x"), "deny");
	CHECK_INT(RESOLVE(.system = "filesystem: {deny: ['/**/secret']}",
			  .user = "filesystem: {read: [/data/secret]}"),
		126);
	CHECK_INT(RESOLVE(.system = "filesystem: {deny: ['/**/secret']}",
			  .user = "filesystem: {read: [/data]}"),
		0);
	CHECK_STR(access_of("/data/a/secret/x"), "deny");
	CHECK_STR(access_of("/data/a"), "read");
	/* Built-in grants give way without a word. */
	CHECK_INT(RESOLVE(.system = "filesystem: {deny: [~/.cargo, /opt]}"), 0);
	CHECK_STR(access_of("/home/u/.cargo/bin/x"), "deny");
	CHECK_STR(access_of("/opt/x"), "deny");
	/* The workspace is what a person asked for by being there. */
	CHECK_INT(RESOLVE(.system = "filesystem: {deny: [/home]}"), 0);
	CHECK_STR(access_of("/home/u/w/x"), "deny");
}

TEST(ceiling_exceptions)
{
	static const char sys[] = "filesystem: {deny: [/data], read: [/data/pub, '/data/*.md'], "
				  "write: [/data/pub/in]}";

	CHECK_INT(RESOLVE(.system = sys), 0);
	CHECK_STR(access_of("/data/x"), "deny");
	CHECK_STR(access_of("/data/pub/x"), "read");
	CHECK_STR(access_of("/data/pub/in/x"), "write");
	CHECK_STR(access_of("/data/a.md"), "read");
	CHECK_INT(RESOLVE(.system = sys, .user = "filesystem: {write: [/data/pub]}"), 126);
	CHECK_INT(RESOLVE(.system = sys, .user = "filesystem: {write: [/data/pub/x]}"), 126);
	CHECK_INT(RESOLVE(.system = sys,
			  .user = "filesystem: {deny: [/data/pub], read: [/data/pub/in/q]}"),
		0);
	CHECK_STR(access_of("/data/pub/x"), "deny");
	CHECK_STR(access_of("/data/pub/in/q"), "read");
	/* A grant of the system's outside its denies is a default, not a bound. */
	CHECK_INT(RESOLVE(.system = "filesystem: {read: [/data]}",
			  .user = "filesystem: {write: [/data]}"),
		0);
	CHECK_STR(access_of("/data/x"), "write");
}

TEST(ceiling_values)
{
	CHECK_INT(RESOLVE(.system = "limits: {memory: 1G, pids: 10000}",
			  .cli = "limits: {memory: 2G, pids: none}"),
		0);
	CHECK(pol.limits.memory_b == 1ull << 30);
	CHECK_INT(pol.limits.pids, 10000);
	CHECK_INT(RESOLVE(.system = "limits: {memory: 16G}"), 0);
	CHECK(pol.limits.memory_b == 8ull << 30);
	CHECK_INT(RESOLVE(.system = "limits: {memory: 1G}", .user = "limits: {memory: 512M}"), 0);
	CHECK(pol.limits.memory_b == 512ull << 20);
	CHECK_INT(RESOLVE(.system = "tier: namespace", .cli = "tier: process"), 126);
	CHECK_STR(err.msg, "command line:2:7: tier process is less than the namespace that "
			   "system.yaml requires");
	CHECK_INT(RESOLVE(.system = "tier: namespace", .cli = "tier: auto"), 126);
	CHECK_INT(RESOLVE(.system = "tier: namespace"), 0);
	CHECK_INT(pol.tier, TIER_NAMESPACE);
	CHECK_INT(RESOLVE(.system = "tier: process", .user = "tier: namespace"), 0);
	CHECK_INT(pol.tier, TIER_NAMESPACE);
	CHECK_INT(RESOLVE(.system = "tier: auto", .user = "tier: process"), 0);
	CHECK_INT(pol.tier, TIER_PROCESS);
	CHECK_INT(RESOLVE(.system = "threat: hostile", .user = "threat: risky"), 126);
	CHECK_INT(RESOLVE(.system = "threat: hostile"), 0);
	CHECK_INT(pol.threat, THREAT_HOSTILE);
	CHECK_INT(RESOLVE(.system = "threat: trusted"), 0);
	CHECK_INT(pol.threat, THREAT_RISKY); /* the profile's, which is stricter */
	CHECK_INT(RESOLVE(.system = "observe: full", .cli = "observe: writes"), 126);
	CHECK_INT(RESOLVE(.system = "filesystem: {deny: [/dev/kvm]}", .cli = "devices: [/dev/kvm]"),
		126);
}

static bool has_host(const char *host)
{
	for (size_t i = 0; i < pol.net->rules_n; i++)
		if (pol.net->rules[i].host && str_eq(pol.net->rules[i].host, host))
			return true;
	return false;
}

TEST(ceiling_hosts)
{
	static const char sys[] = "network: {allow: ['*.example.com', api.test:443]}";

	CHECK_INT(RESOLVE(.system = sys, .user = "network: {allow: [a.example.com, evil.org, "
						 "api.test:443, api.test]}"),
		0);
	CHECK_INT(pol.net->rules_n, 3); /* api.test means port 80 as well, which is above it */
	CHECK(has_host("*.example.com"));
	CHECK(has_host("a.example.com"));
	CHECK(has_host("api.test"));
	CHECK_INT(pol.net->ceilings_n, 2);
	CHECK_INT(RESOLVE(.system = sys, .cli = "network: {allow: [evil.org]}"), 126);
	CHECK_INT(RESOLVE(.system = sys, .cli = "network: {allow: [example.com]}"),
		126); /* never the apex */
	CHECK_INT(RESOLVE(.system = sys, .cli = "network: {allow: [a.b.example.com]}"), 126);
	CHECK_INT(RESOLVE(.system = sys, .cli = "network: {allow: ['**.example.com']}"), 126);
	CHECK_INT(RESOLVE(.system = sys, .cli = "network: {allow: [evilexample.com]}"), 126);
	CHECK_INT(RESOLVE(.cli = "profile: offline\nnetwork: {allow: [a.b]}"), 126);
	CHECK_STR(err.msg, "host a.b is not possible: profile offline does not allow it");
	CHECK_INT(RESOLVE(.user = "network: {allow: [a.b]}", .cli = "profile: offline"), 0);
	CHECK_INT(pol.net->rules_n, 0);
	CHECK(!net_wanted(pol.net));
}

/* ---- projects ---- */

TEST(project_narrows_freely)
{
	static const char *const narrower[] = {
		"filesystem: {deny: [./secrets]}",
		"filesystem: {deny: ['./**/*.pem']}",
		"filesystem: {read: [.]}",
		"filesystem: {read: [./vendor], write: [./vendor/out]}",
		"filesystem: {write: [./build]}",
		"filesystem: {write: ['./build/**']}",
		"filesystem: {read: ['./src/*']}",
		"filesystem: {read: [/usr/share]}",
		"filesystem: {deny: [/opt, ~/.cargo]}",
		"profile: strict",
		"profile: offline",
		"profile: c",
		"limits: {memory: 1G, timeout: 5m, cpus: 1}",
		"tier: namespace",
		"threat: hostile",
		"observe: full",
		"environment: {pass: [PATH, LC_ALL], set: {FOO: bar, DEBUG: 1}}",
		"network: {allow: []}",
	};

	for (size_t i = 0; i < sizeof(narrower) / sizeof(narrower[0]); i++)
		if (RESOLVE(.project = narrower[i]) != 0) {
			test_fail(__FILE__, __LINE__, "%s: %s", narrower[i], err.msg);
			return;
		}
}

TEST(project_widens_only_when_trusted)
{
	static const struct {
		const char *user, *project, *says;
	} wider[] = {
		{NULL, "filesystem: {read: [/data]}", "croft.yaml:2: "},
		{NULL, "filesystem:\n  read:\n    - ~/data\n", "croft.yaml:4: "},
		{NULL, "filesystem: {read: [~]}", "read /home/u where your own policy has deny"},
		{NULL, "filesystem: {write: [./.git]}",
			"write /home/u/w/.git where your own policy has read"},
		{NULL, "filesystem: {write: [./.git/hooks/x]}", "write /home/u/w/.git/hooks/x"},
		{NULL, "filesystem: {read: [~/.ssh]}", "read /home/u/.ssh"},
		{NULL, "filesystem: {read: [./../other]}", "read /home/u/other"},
		{NULL, "filesystem: {write: [/usr/local]}", "write /usr/local"},
		{NULL, "filesystem: {read-if-present: [/data]}", "read /data"},
		{NULL, "filesystem: {read: ['~/*.txt']}", "read /home/u/*.txt"},
		{NULL, "filesystem: {write: ['./**/hooks']}",
			"write /home/u/w/**/hooks where your own policy has read"},
		{"filesystem: {deny: [./s]}", "filesystem: {read: [./s/x]}", "read /home/u/w/s/x"},
		{"filesystem: {deny: [./s]}", "filesystem: {read: [./s]}", "read /home/u/w/s"},
		{"filesystem: {deny: ['./**/.env']}", "filesystem: {read: [./a/.env]}",
			"read /home/u/w/a/.env"},
		{"filesystem: {deny: ['./**/.env']}", "filesystem: {read: ['./**/.env']}",
			"/home/u/w/**/.env"},
		{"filesystem: {deny: ['./**/.env']}", "filesystem: {write: ['./a/*']}",
			"write /home/u/w/a/*"},
		{"profile: strict", "profile: default", "(through profile default)"},
		{"profile: c", "profile: rust", "(through profile rust)"},
		{NULL, "limits: {memory: 900G}", "limits.memory 900G where your own policy has 8G"},
		{NULL, "limits: {pids: none}", "limits.pids none where your own policy has 4096"},
		{NULL, "tier: process", "tier process where your own policy has auto"},
		{"tier: namespace", "tier: auto", "tier auto where your own policy has namespace"},
		{NULL, "threat: trusted", "threat trusted where your own policy has risky"},
		{NULL, "observe: off", "observe off where your own policy has known"},
		{"threat: hostile", "observe: known",
			"observe known where your own policy has writes"},
		{NULL, "environment: {pass: [AWS_SECRET_ACCESS_KEY]}",
			"passing the variable AWS_SECRET_ACCESS_KEY"},
		{NULL, "environment: {pass: [L*]}", "passing the variable L*"},
		{NULL, "environment: {set: {LD_PRELOAD: x}}", "setting the variable LD_PRELOAD"},
		{NULL, "environment: {set: {PATH: x}}", "setting the variable PATH"},
		{NULL, "environment: {set: {HTTPS_PROXY: x}}", "setting the variable HTTPS_PROXY"},
		{NULL, "devices: [/dev/kvm]", "device /dev/kvm"},
		{NULL, "network: {allow: [evil.org]}", "host evil.org"},
	};

	for (size_t i = 0; i < sizeof(wider) / sizeof(wider[0]); i++) {
		int untrusted = RESOLVE(.user = wider[i].user, .project = wider[i].project);
		bool says = strstr(err.msg, wider[i].says) &&
			    strstr(err.msg, "croft policy trust") && strstr(err.msg, "croft.yaml:");

		if (untrusted != 126 || !says) {
			test_fail(__FILE__, __LINE__, "%s: %d, %s", wider[i].project, untrusted,
				err.msg);
			return;
		}
		if (RESOLVE(.user = wider[i].user, .project = wider[i].project, .trusted = true) !=
			0) {
			test_fail(__FILE__, __LINE__, "%s when trusted: %s", wider[i].project,
				err.msg);
			return;
		}
	}
}

/* The user may ask for it on the command line; the project's request is judged without that. */
TEST(project_does_not_name_what_runs)
{
	static const struct {
		const char *project;
		int refused;
	} cases[] = {{"filesystem: {write: [./src]}", 0}, {"filesystem: {write: [./.vscode]}", 126},
		{"filesystem: {write: [./.envrc]}", 126}, {"filesystem: {write: ['./src/**/.envrc']}", 126},
		{"filesystem: {write: ['./src/**/out']}", 0}, {"filesystem: {write-runs: [./.vscode]}", 126},
		{"filesystem: {write-runs: ['./.v*']}", 126}, {"filesystem: {write-git: [./.git]}", 126}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (RESOLVE(.project = cases[i].project) != cases[i].refused)
			test_fail(__FILE__, __LINE__, "%s: %s", cases[i].project, err.msg);
	CHECK_INT(RESOLVE(.project = "filesystem: {write: [./.vscode]}", .trusted = true), 0);
	CHECK_INT(RESOLVE(.user = "filesystem: {write-runs: [./.vscode]}",
			  .project = "filesystem: {write: [./.vscode]}"),
		0);
}

TEST(project_does_not_widen_a_grant_for_committing)
{
	CHECK_INT(RESOLVE(.user = "filesystem: {write-git: [./.git]}",
			  .project = "filesystem: {write: [./.git]}"),
		126);
	CHECK_INT(RESOLVE(.user = "filesystem: {write: [./.git]}",
			  .project = "filesystem: {write-git: [./.git]}"),
		0);
	CHECK_STR(access_of("/home/u/w/.git/index"), "write");
	CHECK_STR(access_of("/home/u/w/.git/hooks/x"), "read");
	CHECK(!layer(LAYER_USER, "user.yaml", "filesystem: {write-git: ['./*']}"));
	CHECK(strstr(err.msg, "is a pattern"));
	CHECK(!layer(LAYER_USER, "user.yaml", "filesystem: {write-git: [./.git], write: [./.git]}"));
	CHECK(strstr(err.msg, "keep one"));
}

TEST(what_runs_is_said_once)
{
	cleanup_buf struct buf shown = BUF_INIT(1u << 20);
	struct digest without;
	bool found = false;

	CHECK_INT(RESOLVE(.cli = "filesystem: {write: [~/.claude]}"), 0);
	without = pol.digest;
	CHECK_INT(RESOLVE(.user = "filesystem: {write-runs: [~/.claude]}",
			  .cli = "filesystem: {write: [~/.claude]}"),
		0);
	CHECK(pol.rules[policy_find(&pol, "/home/u/.claude", &found)].runs && found);
	CHECK(strcmp(pol.digest.hex, without.hex) != 0);
	policy_show(&pol, &shown);
	CHECK(strstr(buf_str(&shown), "  write-runs:\n    - /home/u/.claude  #"));
	/* Both keys may name it, and a later layer takes it away altogether. */
	CHECK_INT(RESOLVE(.user = "filesystem: {write-runs: [~/.claude], write: [~/.claude]}"), 0);
	CHECK(pol.rules[policy_find(&pol, "/home/u/.claude", &found)].runs);
	CHECK_INT(RESOLVE(.user = "filesystem: {write-runs: [~/.claude]}",
			  .cli = "filesystem: {read: [~/.claude]}"),
		0);
	CHECK(!pol.rules[policy_find(&pol, "/home/u/.claude", &found)].runs);
}

TEST(project_and_command_line)
{
	CHECK_INT(
		RESOLVE(.project = "filesystem: {deny: [./s]}", .cli = "filesystem: {read: [./s]}"),
		0);
	CHECK_STR(access_of("/home/u/w/s"), "read");
	CHECK_INT(RESOLVE(.project = "filesystem: {read: [/data]}",
			  .cli = "filesystem: {read: [/data]}"),
		126);
	CHECK_INT(RESOLVE(.project = "profile: rust", .cli = "profile: strict"), 0);
	CHECK_STR(pol.profile, "strict");
	CHECK_INT(RESOLVE(.user = "filesystem: {read: [/data]}",
			  .project = "filesystem: {read: [/data/x]}"),
		0);
	CHECK_INT(RESOLVE(.project = "filesystem: {read: [/a, /b, /c]}"), 126);
	CHECK(strstr(err.msg, "(and 2 more)"));
}

/* ---- size ---- */

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* ours, whatever else the machine does */
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

TEST(ten_thousand_rules)
{
	struct buf b = BUF_INIT(4u << 20);
	struct policy_layer *l = NULL;
	double start, took;

	buf_adds(&b, "version: 1\nfilesystem:\n  deny:\n");
	for (int i = 0; i < 10000; i++)
		buf_addf(&b, "    - ./dir%d/sub%d/file%d\n", i % 97, i % 13, i);
	start = seconds();
	CHECK_INT(policy_layer_parse(&l, LAYER_USER, "big", b.data, b.len, &ctx, &err), 0);
	policy_done(&pol);
	CHECK_INT(policy_resolve(&pol, &l, 1, false, &ctx, &err), 0);
	took = seconds() - start;
	printf("# parsed and resolved 10,000 rules in %.1f ms\n", took * 1e3);
#if !defined(__SANITIZE_ADDRESS__)
	CHECK(took < 0.3); /* ten times what it takes */
#endif
	start = seconds();
	for (int i = 0; i < 10000; i++) {
		char path[128];

		snprintf(path, sizeof(path), "/home/u/w/dir%d/sub%d/file%d", i % 97, i % 13, i);
		CHECK_INT(policy_access(&pol, path, NULL), ACCESS_DENY);
	}
	printf("# one question of 10,000 rules: %.2f us\n", (seconds() - start) * 1e6 / 10000);
	policy_layer_free(l);
	buf_done(&b);
}

TEST(default_policy_is_fast)
{
	double start = seconds();

	for (int i = 0; i < 100; i++) {
		policy_done(&pol);
		CHECK_INT(policy_resolve(&pol, NULL, 0, false, &ctx, &err), 0);
	}
	printf("# default policy: %zu rules in %.1f us\n", pol.rules_n,
		(seconds() - start) * 1e6 / 100);
}

TEST(too_many_together)
{
	struct buf b = BUF_INIT(4u << 20);
	struct policy_layer *l[2] = {0};

	for (int k = 0; k < 2; k++) {
		buf_reset(&b);
		buf_adds(&b, "version: 1\nfilesystem:\n  deny:\n");
		for (int i = 0; i < 9000; i++)
			buf_addf(&b, "    - /x%d/%d\n", k, i);
		CHECK_INT(policy_layer_parse(&l[k], k ? LAYER_USER : LAYER_SYSTEM, "big", b.data,
				  b.len, &ctx, &err),
			0);
	}
	policy_done(&pol);
	CHECK(policy_resolve(&pol, l, 2, false, &ctx, &err) < 0);
	CHECK(strstr(err.msg, "16384"));
	policy_layer_free(l[0]);
	policy_layer_free(l[1]);
	buf_done(&b);
}
