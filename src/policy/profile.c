/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor and the built-in profiles.
 *
 * Each list below is written once and used twice: as the YAML that `croft policy show --profile`
 * explains and people copy from, and as a table that needs no parsing, because loading the default
 * policy is on the path of every command. A unit test parses the YAML and compares.
 *
 * What belongs here: system directories that programs need in order to run, toolchains below HOME
 * (read-only, and never a directory that also holds credentials), and a deny for the usual places
 * of secrets, which matters when a user grants a directory around them. Every entry costs a look-up
 * or a mount per command, so the lists are kept short.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/policy_impl.h"

/*
 * Never, for anyone: croft's own files, from which the next run takes its policy, and sockets of
 * services that start processes or containers outside the boundary on request.
 */
#define FLOOR_DENY(X)                                                                              \
	X("~/.config/croft")                                                                       \
	X("~/.local/state/croft")                                                                  \
	X("/etc/croft")                                                                            \
	X("/run/docker.sock")                                                                      \
	X("/run/docker")                                                                           \
	X("/run/podman")                                                                           \
	X("/run/containerd")                                                                       \
	X("/run/crio")                                                                             \
	X("/run/buildkit")                                                                         \
	X("/run/k3s")                                                                              \
	X("/run/libvirt")                                                                          \
	X("/run/incus")                                                                            \
	X("/run/snapd.socket")                                                                     \
	X("/run/dbus")                                                                             \
	X("/run/systemd")                                                                          \
	X("/run/user")                                                                             \
	X("/run/WSL")                                                                              \
	X("/run/host-services")                                                                    \
	X("/var/lib/docker")                                                                       \
	X("/var/lib/lxd")                                                                          \
	X("/var/lib/incus")                                                                        \
	X("/var/snap/lxd")                                                                         \
	X("~/.docker/run")                                                                         \
	X("~/.docker/desktop")

/* What programs need in order to start at all. The engine itself makes passwd, group and the like.
 */
#define SYSTEM_READ(X)                                                                             \
	X("/usr")                                                                                  \
	X("/bin")                                                                                  \
	X("/sbin")                                                                                 \
	X("/lib")                                                                                  \
	X("/lib32")                                                                                \
	X("/lib64")                                                                                \
	X("/libx32")                                                                               \
	X("/opt")                                                                                  \
	X("/nix/store")                                                                            \
	X("/gnu/store")                                                                            \
	X("/etc/alternatives")                                                                     \
	X("/etc/ld.so.cache")                                                                      \
	X("/etc/ld.so.conf")                                                                       \
	X("/etc/ld.so.conf.d")                                                                     \
	X("/etc/localtime")                                                                        \
	X("/etc/nsswitch.conf")                                                                    \
	X("/etc/protocols")                                                                        \
	X("/etc/services")                                                                         \
	X("/etc/ssl/certs")                                                                        \
	X("/etc/ssl/openssl.cnf")                                                                  \
	X("/etc/ssl/cert.pem")                                                                     \
	X("/etc/pki/ca-trust")                                                                     \
	X("/etc/pki/tls/certs")                                                                    \
	X("/etc/pki/tls/openssl.cnf")                                                              \
	X("/etc/crypto-policies")                                                                  \
	X("/etc/os-release") X("/etc/debian_version")

/* Configuration of common tools, without secrets. */
#define TOOL_READ(X)                                                                               \
	X("/etc/bash.bashrc")                                                                      \
	X("/etc/gitconfig")                                                                        \
	X("/etc/fonts")                                                                            \
	X("/etc/java-11-openjdk")                                                                  \
	X("/etc/java-17-openjdk")                                                                  \
	X("/etc/java-21-openjdk")                                                                  \
	X("/etc/java-25-openjdk")                                                                  \
	X("/etc/maven")                                                                            \
	X("/etc/mime.types")                                                                       \
	X("/etc/perl")                                                                             \
	X("/etc/php")                                                                              \
	X("/etc/profile")                                                                          \
	X("/etc/python3")                                                                          \
	X("/etc/terminfo")                                                                         \
	X("/home/linuxbrew/.linuxbrew")                                                            \
	X("~/.asdf")                                                                               \
	X("~/.local/bin")                                                                          \
	X("~/.local/share/mise")                                                                   \
	X("~/.sdkman")

#define PYTHON_READ(X)                                                                             \
	X("~/.local/lib")                                                                          \
	X("~/.local/share/pipx")                                                                   \
	X("~/.local/share/uv")                                                                     \
	X("~/.pyenv")                                                                              \
	X("~/miniconda3")                                                                          \
	X("~/miniforge3")

#define NODE_READ(X)                                                                               \
	X("~/.bun/bin")                                                                            \
	X("~/.deno/bin")                                                                           \
	X("~/.local/share/fnm")                                                                    \
	X("~/.local/share/pnpm")                                                                   \
	X("~/.npm-global")                                                                         \
	X("~/.nvm")                                                                                \
	X("~/.volta")

#define RUST_READ(X)                                                                               \
	X("~/.cargo/bin")                                                                          \
	X("~/.cargo/env")                                                                          \
	X("~/.cargo/git")                                                                          \
	X("~/.cargo/registry")                                                                     \
	X("~/.rustup")

#define GO_READ(X)                                                                                 \
	X("~/go")                                                                                  \
	X("~/sdk")

/* Git metadata of the workspace runs code on the host later, so it is not written in place. */
#define WORKSPACE_READ(X) X("./.git")
#define WORKSPACE_WRITE(X) X(".")

/* Where secrets usually are; a user may grant any of these explicitly. */
#define SECRET_DENY(X)                                                                             \
	X("~/.ssh")                                                                                \
	X("~/.gnupg")                                                                              \
	X("~/.aws")                                                                                \
	X("~/.azure")                                                                              \
	X("~/.kube")                                                                               \
	X("~/.docker")                                                                             \
	X("~/.netrc")                                                                              \
	X("~/.npmrc")                                                                              \
	X("~/.pypirc")                                                                             \
	X("~/.git-credentials")                                                                    \
	X("~/.config/git/credentials")                                                             \
	X("~/.config/gh")                                                                          \
	X("~/.config/gcloud")                                                                      \
	X("~/.config/google-chrome")                                                               \
	X("~/.config/chromium")                                                                    \
	X("~/.mozilla")                                                                            \
	X("~/.cargo/credentials")                                                                  \
	X("~/.cargo/credentials.toml")                                                             \
	X("~/.password-store")                                                                     \
	X("~/.local/share/keyrings")                                                               \
	X("~/.bash_history")

#define COMMON_PASS(X)                                                                             \
	X("PATH")                                                                                  \
	X("TERM")                                                                                  \
	X("COLORTERM")                                                                             \
	X("LANG")                                                                                  \
	X("LANGUAGE")                                                                              \
	X("LC_*")                                                                                  \
	X("TZ")                                                                                    \
	X("USER")                                                                                  \
	X("LOGNAME")                                                                               \
	X("SHELL")                                                                                 \
	X("COLUMNS")                                                                               \
	X("LINES")                                                                                 \
	X("NO_COLOR")                                                                              \
	X("FORCE_COLOR")                                                                           \
	X("CLICOLOR")                                                                              \
	X("CI")                                                                                    \
	X("EDITOR")                                                                                \
	X("VISUAL")                                                                                \
	X("PAGER")                                                                                 \
	X("SOURCE_DATE_EPOCH")

/* Where a toolchain is and how it is to build: paths and flags. */
#define TOOL_PASS(X) X("JAVA_HOME")
#define PYTHON_PASS(X)                                                                             \
	X("VIRTUAL_ENV")                                                                           \
	X("PYENV_ROOT")                                                                            \
	X("PYENV_VERSION")
#define NODE_PASS(X)                                                                               \
	X("NODE_ENV")                                                                              \
	X("NVM_DIR")                                                                               \
	X("VOLTA_HOME")
#define RUST_PASS(X)                                                                               \
	X("CARGO_HOME")                                                                            \
	X("RUSTUP_HOME")                                                                           \
	X("RUSTUP_TOOLCHAIN")                                                                      \
	X("RUST_BACKTRACE")                                                                        \
	X("RUST_LOG")                                                                              \
	X("RUSTFLAGS")
#define GO_PASS(X)                                                                                 \
	X("GOPATH")                                                                                \
	X("GOROOT")                                                                                \
	X("GOFLAGS")                                                                               \
	X("GOOS")                                                                                  \
	X("GOARCH")                                                                                \
	X("CGO_ENABLED")
#define C_PASS(X)                                                                                  \
	X("CC")                                                                                    \
	X("CXX")                                                                                   \
	X("CFLAGS")                                                                                \
	X("CXXFLAGS")                                                                              \
	X("CPPFLAGS")                                                                              \
	X("LDFLAGS")                                                                               \
	X("MAKEFLAGS")

#define USUAL_LIMITS(X)                                                                            \
	X("memory", "8G")                                                                          \
	X("pids", "4096")                                                                          \
	X("open_files", "16384")
#define STRICT_LIMITS(X)                                                                           \
	X("memory", "2G")                                                                          \
	X("pids", "256")                                                                           \
	X("open_files", "1024")                                                                    \
	X("disk", "512M")                                                                          \
	X("file_size", "1G")                                                                       \
	X("timeout", "30m")

/* ---- the two forms ---- */

#define AS_ITEM(s) "    - " s "\n"
#define AS_LIMIT(k, v) "  " k ": " v "\n"
#define AS_READ_IF(s) {ACCESS_READ, true, s},
#define AS_WRITE(s) {ACCESS_WRITE, false, s},
#define AS_DENY(s) {ACCESS_DENY, false, s},
#define AS_NAME(s) s,
#define AS_PAIR(k, v) {"limits." k, v},

struct builtin_rule {
	enum access access;
	bool optional;
	const char *path;
};

struct builtin_pair {
	const char *key, *value;
};

struct builtin {
	const char *name;
	const char *text;
	const char *threat, *observe;
	const struct builtin_rule *rules;
	size_t rules_n;
	const char *const *pass;
	size_t pass_n;
	const struct builtin_pair *limits;
	size_t limits_n;
	bool sealed; /* network.allow: [] */
};

#define PROFILE_TEXT(threat, WORDS, READ, PASS, LIMITS, tail)                                      \
	"version: 1\n"                                                                             \
	"threat: " threat "\n"                                                                     \
	WORDS(AS_LINE)                                                                             \
	"filesystem:\n"                                                                            \
	"  read-if-present:\n" READ(AS_ITEM) WORKSPACE_READ(AS_ITEM) "  write:\n" WORKSPACE_WRITE( \
		AS_ITEM) "  deny:\n" SECRET_DENY(AS_ITEM) "environment:\n"                         \
							  "  pass:\n" PASS(                        \
								  AS_ITEM) "limits:"               \
									   "\n" LIMITS(AS_LIMIT)   \
										   tail

#define PROFILE(id, threat_, WORDS, READ, PASS, LIMITS, tail)                                      \
	static const struct builtin_rule id##_rules[] = {READ(AS_READ_IF) WORKSPACE_READ(          \
		AS_READ_IF) WORKSPACE_WRITE(AS_WRITE) SECRET_DENY(AS_DENY)};                       \
	static const char *const id##_pass[] = {PASS(AS_NAME)};                                    \
	static const struct builtin_pair id##_limits[] = {LIMITS(AS_PAIR)};                        \
	static const struct builtin id##_profile = {.name = #id,                                   \
		.text = PROFILE_TEXT(threat_, WORDS, READ, PASS, LIMITS, tail),                    \
		.threat = threat_,                                                                 \
		.observe = "" WORDS(AS_WORD),                                                      \
		.rules = id##_rules,                                                               \
		.rules_n = ARRAY_SIZE(id##_rules),                                                 \
		.pass = id##_pass,                                                                 \
		.pass_n = ARRAY_SIZE(id##_pass),                                                   \
		.limits = id##_limits,                                                             \
		.limits_n = ARRAY_SIZE(id##_limits),                                               \
		.sealed = sizeof(tail) > 1}

/* Where a profile says nothing, the threat level decides (resolve.c). */
#define OBSERVE_USUAL(X)
#define OBSERVE_ALL(X) X("observe", "full")
#define AS_LINE(key, value) key ": " value "\n"
#define AS_WORD(key, value) value

#define SEALED "network:\n  allow: []\n"
#define OPEN ""

#define ALL_READ(X) SYSTEM_READ(X) TOOL_READ(X) PYTHON_READ(X) NODE_READ(X) RUST_READ(X) GO_READ(X)
#define ALL_PASS(X)                                                                                \
	COMMON_PASS(X) TOOL_PASS(X) PYTHON_PASS(X) NODE_PASS(X) RUST_PASS(X) GO_PASS(X) C_PASS(X)
#define STRICT_READ(X) SYSTEM_READ(X)
#define STRICT_PASS(X) COMMON_PASS(X)
#define ONLY_PYTHON_READ(X) SYSTEM_READ(X) TOOL_READ(X) PYTHON_READ(X)
#define ONLY_PYTHON_PASS(X) COMMON_PASS(X) PYTHON_PASS(X) C_PASS(X)
#define ONLY_NODE_READ(X) SYSTEM_READ(X) TOOL_READ(X) NODE_READ(X)
#define ONLY_NODE_PASS(X) COMMON_PASS(X) NODE_PASS(X)
#define ONLY_RUST_READ(X) SYSTEM_READ(X) TOOL_READ(X) RUST_READ(X)
#define ONLY_RUST_PASS(X) COMMON_PASS(X) RUST_PASS(X) C_PASS(X)
#define ONLY_GO_READ(X) SYSTEM_READ(X) TOOL_READ(X) GO_READ(X)
#define ONLY_GO_PASS(X) COMMON_PASS(X) GO_PASS(X) C_PASS(X)
#define ONLY_C_READ(X) SYSTEM_READ(X) TOOL_READ(X)
#define ONLY_C_PASS(X) COMMON_PASS(X) C_PASS(X)

PROFILE(default, "risky", OBSERVE_USUAL, ALL_READ, ALL_PASS, USUAL_LIMITS, OPEN);
PROFILE(strict, "hostile", OBSERVE_ALL, STRICT_READ, STRICT_PASS, STRICT_LIMITS, SEALED);
PROFILE(offline, "risky", OBSERVE_USUAL, ALL_READ, ALL_PASS, USUAL_LIMITS, SEALED);
PROFILE(python, "risky", OBSERVE_USUAL, ONLY_PYTHON_READ, ONLY_PYTHON_PASS, USUAL_LIMITS, OPEN);
PROFILE(node, "risky", OBSERVE_USUAL, ONLY_NODE_READ, ONLY_NODE_PASS, USUAL_LIMITS, OPEN);
PROFILE(rust, "risky", OBSERVE_USUAL, ONLY_RUST_READ, ONLY_RUST_PASS, USUAL_LIMITS, OPEN);
PROFILE(go, "risky", OBSERVE_USUAL, ONLY_GO_READ, ONLY_GO_PASS, USUAL_LIMITS, OPEN);
PROFILE(c, "risky", OBSERVE_USUAL, ONLY_C_READ, ONLY_C_PASS, USUAL_LIMITS, OPEN);

static const struct builtin_rule floor_rules[] = {FLOOR_DENY(AS_DENY)};
static const struct builtin floor_layer = {.name = "floor",
	.text = "version: 1\nfilesystem:\n  deny:\n" FLOOR_DENY(AS_ITEM),
	.rules = floor_rules,
	.rules_n = ARRAY_SIZE(floor_rules)};

static const struct builtin *const profiles[] = {&default_profile, &strict_profile,
	&offline_profile, &python_profile, &node_profile, &rust_profile, &go_profile, &c_profile};

const char *const policy_profile_names[] = {
	"default", "strict", "offline", "python", "node", "rust", "go", "c"};
const size_t policy_profile_names_n = ARRAY_SIZE(policy_profile_names);
_Static_assert(ARRAY_SIZE(policy_profile_names) == ARRAY_SIZE(profiles), "one name per profile");

static const struct builtin *builtin_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(profiles); i++)
		if (str_eq(profiles[i]->name, name))
			return profiles[i];
	return NULL;
}

const char *policy_profile_text(const char *name)
{
	const struct builtin *b = builtin_find(name);

	return b ? b->text : NULL;
}

const char *policy_floor_text(void)
{
	return floor_layer.text;
}

/*
 * The tables hold normalised paths without wildcards, so expanding one is putting home or workspace
 * in front. That this equals what the strict way would make of the YAML is tested, not assumed.
 */
static const char *builtin_path(struct arena *a, const char *path, const struct policy_context *ctx)
{
	const char *prefix = path[0] == '~' ? ctx->home : ctx->workspace;
	size_t n = strlen(prefix);

	if (path[0] == '/')
		return path;
	if (n == 1 && path[1])
		n = 0; /* "/" itself */
	return arena_join(a, prefix, n, path + 1, strlen(path + 1));
}

static int builtin_values(struct policy_layer *l, const struct builtin *b, struct err *e)
{
	static const struct layer_pos nowhere = {0};
	int r = 0;

	for (size_t i = 0; r == 0 && i < b->limits_n; i++)
		r = layer_value(l, b->limits[i].key, b->limits[i].value, nowhere, e);
	if (r == 0 && b->threat)
		r = layer_value(l, "threat", b->threat, nowhere, e);
	if (r == 0 && b->observe && b->observe[0])
		r = layer_value(l, "observe", b->observe, nowhere, e);
	l->net.reach = b->sealed;
	return r;
}

int builtin_layer(const struct policy_layer **ret, struct arena *a, const char *name,
	const struct policy_context *ctx, struct err *e)
{
	const struct builtin *b = name ? builtin_find(name) : &floor_layer;
	struct policy_layer *l;
	int r;

	if (!b)
		return err_invalid(e, "there is no profile \"%s\"", name);
	l = arena_alloc(a, sizeof(*l));
	if (!l)
		return err_set(e, ENOMEM, "make the layer %s", b->name);
	*l = (struct policy_layer){.kind = name ? LAYER_PROFILE : LAYER_FLOOR, .name = b->name};
	l->rules = arena_alloc(a, b->rules_n * sizeof(*l->rules));
	l->pass.v = arena_alloc(a, b->pass_n * sizeof(*l->pass.v));
	if (!l->rules || !l->pass.v)
		return err_set(e, ENOMEM, "make the layer %s", b->name);
	for (size_t i = 0; i < b->rules_n; i++) {
		struct policy_rule *rule = &l->rules[l->rules_n++];

		*rule = (struct policy_rule){.access = b->rules[i].access,
			.optional = b->rules[i].optional,
			.path = builtin_path(a, b->rules[i].path, ctx),
			.origin.layer = l->kind};
		if (!rule->path)
			return err_set(e, ENOMEM, "make the layer %s", b->name);
	}
	for (size_t i = 0; i < b->pass_n; i++)
		l->pass.v[l->pass.n++] = (struct layer_item){.name = b->pass[i]};
	r = builtin_values(l, b, e);
	if (r < 0)
		return r;
	*ret = l;
	return 0;
}

int policy_layer_builtin(struct policy_layer **ret, const char *name,
	const struct policy_context *ctx, struct err *e)
{
	cleanup_policy_layer struct policy_layer *l = NULL;
	const struct policy_layer *b = NULL;
	int r = policy_layer_new(&l, LAYER_FLOOR, name ? name : floor_layer.name, e);

	if (r == 0)
		r = builtin_layer(&b, &l->arena, name, ctx, e);
	if (r < 0)
		return r;
	/* Lists that the caller may extend are allocated as those of any other layer. */
	l->kind = b->kind;
	l->threat = b->threat;
	l->observe = b->observe;
	l->net.reach = b->net.reach;
	memcpy(l->limits, b->limits, sizeof(l->limits));
	l->rules = malloc(b->rules_n * sizeof(*l->rules));
	l->pass.v = malloc((b->pass.n + 1) * sizeof(*l->pass.v));
	if (!l->rules || !l->pass.v)
		return err_set(e, ENOMEM, "make the layer %s", l->name);
	memcpy(l->rules, b->rules, b->rules_n * sizeof(*l->rules));
	memcpy(l->pass.v, b->pass.v, b->pass.n * sizeof(*l->pass.v));
	l->rules_n = l->rules_cap = b->rules_n;
	l->pass.n = b->pass.n;
	l->pass.cap = b->pass.n + 1;
	*ret = take_ptr(l);
	return 0;
}
