/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From an agent to what its sandbox needs.
 *
 * Purpose: find the program as the user's shell would, follow its symlinks to what an installer left (npm's
 *          node_modules, a version below ~/.local/share), and grant reading that, and no more than that.
 * Order:   program -> interpreter -> policy. Nothing is run.
 * Failure: a program that is not there is an error; everything else that is absent is left out.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/cleanup.h"
#include "policy/policy.h"
#include "session/config/secrets.h"

#define USE_MAX 512u /* entries in one list */
#define MODULES "/node_modules"

struct finder {
	struct agent_use *use;
	const struct agent *agent;
	const struct policy *policy;
	const char *home, *workspace;
};

void agent_use_init(struct agent_use *u)
{
	*u = (struct agent_use){.policy = BUF_INIT(POLICY_FILE_MAX_B),
		.read = STRLIST_INIT(USE_MAX),
		.argv = STRLIST_INIT(USE_MAX),
		.keyed = STRLIST_INIT(USE_MAX),
		.view = STRLIST_INIT(USE_MAX),
		.seen = STRLIST_INIT(USE_MAX)};
}

void agent_use_done(struct agent_use *u)
{
	struct strlist *const lists[] = {&u->read, &u->argv, &u->keyed, &u->view, &u->seen};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		strlist_done(lists[i]);
	buf_done(&u->policy);
}

static int add(struct strlist *l, const char *text, struct err *e)
{
	return strlist_add(l, text) ? 0 : err_set(e, ENOMEM, "make the agent's options");
}

/* "~/x" with the home put in; false: too long. */
static bool expand(char *ret, size_t size, const char *path, const char *home)
{
	int n = path[0] == '~' ? snprintf(ret, size, "%s%s", home, path + 1)
			       : snprintf(ret, size, "%s", path);

	return n >= 0 && (size_t)n < size;
}

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* As the shell does; only absolute directories, for others change with where one stands. */
static bool in_path(char *ret, size_t size, const char *name)
{
	const char *dirs = getenv("PATH");

	for (const char *p = dirs ? dirs : ""; *p;) {
		size_t n = strcspn(p, ":");

		if (p[0] == '/' && (size_t)snprintf(ret, size, "%.*s/%s", (int)n, p, name) < size &&
			is_program(ret))
			return true;
		p += n + (p[n] == ':');
	}
	return false;
}

static bool locate(const struct finder *f, char *ret, size_t size)
{
	for (size_t i = 0; i < f->agent->programs.n; i++)
		if (in_path(ret, size, f->agent->programs.v[i]))
			return true;
	for (size_t i = 0; i < f->agent->look.n; i++)
		if (expand(ret, size, f->agent->look.v[i], f->home) && is_program(ret))
			return true;
	return false;
}

static bool is_in(const char *dir, const char *path)
{
	size_t n = strlen(dir);

	return strncmp(dir, path, n) == 0 && (!path[n] || path[n] == '/');
}

/* Grant reading `path`, unless the sandbox sees it anyway. As a pattern for just this path. */
static int grant(struct finder *f, const char *path, struct err *e)
{
	cleanup_buf struct buf literal = BUF_INIT(4 * PATH_MAX);

	if (is_in(f->workspace, path) || policy_access(f->policy, path, NULL) >= ACCESS_READ)
		return 0;
	policy_path_literal(&literal, path);
	if (literal.failed)
		return err_set(e, ENOMEM, "make the agent's options");
	return strlist_has(&f->use->read, buf_str(&literal)) ? 0
							      : add(&f->use->read, buf_str(&literal), e);
}

/* What the program consists of: all packages of the same installation, as they are found by name. */
static int grant_modules(struct finder *f, const char *real, struct err *e)
{
	const char *at = strstr(real, MODULES "/");
	char dir[PATH_MAX];

	if (!at)
		return grant(f, real, e);
	snprintf(dir, sizeof(dir), "%.*s", (int)(at - real + strlen(MODULES)), real);
	return grant(f, dir, e);
}

/* The interpreter that a script's first line names, found as it will be inside. */
static int grant_interpreter(struct finder *f, const char *script, struct err *e)
{
	cleanup_fd int fd = open(script, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char line[256], found[PATH_MAX], real[PATH_MAX], *word, *rest = NULL;
	ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);

	if (n < 3 || line[0] != '#' || line[1] != '!')
		return 0;
	line[n] = '\0';
	line[strcspn(line, "\r\n")] = '\0';
	word = strtok_r(line + 2, " \t", &rest);
	if (!word)
		return 0;
	if (str_ends(word, "/env")) {
		do
			word = strtok_r(NULL, " \t", &rest);
		while (word && word[0] == '-');
		if (!word || strchr(word, '/') || !in_path(found, sizeof(found), word))
			return 0; /* the sandbox will say that it is not there */
	} else {
		snprintf(found, sizeof(found), "%s", word);
	}
	if (!realpath(found, real))
		return 0;
	return grant(f, found, e) < 0 ? -e->errnum : grant(f, real, e);
}

static int use_program(struct finder *f, struct err *e)
{
	char found[PATH_MAX], real[PATH_MAX], part[PATH_MAX];
	const struct agent *a = f->agent;

	if (!locate(f, found, sizeof(found)))
		return err_invalid(e,
			"%s is not installed: there is no program called %s in PATH%s; install it, or put "
			"its directory in PATH",
			a->title ? a->title : a->name, a->programs.v[0],
			a->look.n ? ", nor where its installer puts it" : "");
	if (!realpath(found, real))
		return err_set(e, errno, "find what %s leads to", found);
	for (size_t i = 0; i < a->read.n; i++)
		if (expand(part, sizeof(part), a->read.v[i], f->home) && access(part, F_OK) == 0 &&
			grant(f, part, e) < 0)
			return -e->errnum;
	if (grant_modules(f, real, e) < 0 || grant_interpreter(f, real, e) < 0 ||
		add(&f->use->argv, real, e) < 0)
		return -e->errnum;
	for (size_t i = 0; i < a->arguments.n; i++)
		if (add(&f->use->argv, a->arguments.v[i], e) < 0)
			return -e->errnum;
	for (size_t i = 0; getuid() == 0 && i < a->root_arguments.n; i++)
		if (add(&f->use->argv, a->root_arguments.v[i], e) < 0)
			return -e->errnum;
	return 0;
}

/* ---- the policy ---- */

/* A value in double quotes: nothing in it can end it, or be more than its text. */
static void quoted(struct buf *out, const char *text)
{
	buf_addc(out, '"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			buf_addc(out, '\\');
		buf_addc(out, *text);
	}
	buf_addc(out, '"');
}

static void field(struct buf *out, const char *key, const char *value)
{
	buf_addf(out, "%s: ", key);
	quoted(out, value);
}

static void list_of(struct buf *out, const char *key, const struct strlist *l)
{
	if (l->n)
		buf_addf(out, "  %s:\n", key);
	for (size_t i = 0; i < l->n; i++) {
		buf_adds(out, "    - ");
		quoted(out, l->v[i]);
		buf_addc(out, '\n');
	}
}

/* A key that is stored, or is in the caller's environment; else the agent may know another way. */
static bool have_key(const char *name)
{
	struct err ignored = ERR_INIT;
	size_t len;

	return secret_length(name, &len, &ignored) == 0;
}

static bool is_bound(const char *const *bound, const char *name)
{
	size_t n = strlen(name);

	for (; bound && *bound; bound++)
		if (strncmp(*bound, name, n) == 0 && (*bound)[n] == '@')
			return true;
	return false;
}

static int write_keys(struct finder *f, const char *const *bound, struct buf *out, struct err *e)
{
	bool any = false;

	for (size_t i = 0; i < f->agent->keys_n; i++) {
		const struct agent_key *k = &f->agent->keys[i];

		if (is_bound(bound, k->name) || !have_key(k->name))
			continue;
		buf_adds(out, any ? "" : "  secrets:\n");
		any = true;
		field(out, "    - {name", k->name);
		field(out, ", host", k->host);
		if (k->place)
			field(out, ", place", k->place);
		if (k->field)
			field(out, ", field", k->field);
		buf_adds(out, "}\n");
		if (!strlist_has(&f->use->keyed, k->name) && add(&f->use->keyed, k->name, e) < 0)
			return -e->errnum;
	}
	return 0;
}

static void write_rules(struct buf *out, const char *key, const struct strlist *hosts,
	const struct strlist *websockets, const char *more)
{
	if (hosts->n)
		buf_addf(out, "  %s:\n", key);
	for (size_t i = 0; i < hosts->n; i++) {
		field(out, "    - {host", hosts->v[i]);
		buf_adds(out, more);
		if (websockets && strlist_has(websockets, hosts->v[i]))
			buf_adds(out, ", mode: ws");
		buf_adds(out, "}\n");
	}
}

static void write_set(struct buf *out, const struct strlist *l)
{
	for (size_t i = 0; i < l->n; i++) {
		const char *eq = strchr(l->v[i], '=');

		buf_addf(out, "    %.*s: ", (int)(eq - l->v[i]), l->v[i]);
		quoted(out, eq + 1);
		buf_addc(out, '\n');
	}
}

static void write_environment(const struct agent *a, struct buf *out)
{
	bool root = getuid() == 0 && a->root_set.n, pass = false;

	if (!a->set.n && !root && !a->pass.n)
		return;
	buf_adds(out, "environment:\n");
	for (size_t i = 0; i < a->pass.n; i++) {
		buf_adds(out, pass ? "" : "  pass:\n");
		buf_addf(out, "    - %s\n", a->pass.v[i]);
		pass = true;
	}
	if (a->set.n || root)
		buf_adds(out, "  set:\n");
	write_set(out, &a->set);
	if (root)
		write_set(out, &a->root_set);
}

/* Configuration that is there, as the user's own words and as paths. */
static int find_views(struct finder *f, struct err *e)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < f->agent->view.n; i++) {
		const char *named = f->agent->view.v[i];

		if (!expand(path, sizeof(path), named, f->home) || access(path, F_OK) < 0 ||
			is_in(f->workspace, path))
			continue;
		if (add(&f->use->view, path, e) < 0 || add(&f->use->seen, named, e) < 0)
			return -e->errnum;
	}
	return 0;
}

static int write_policy(struct finder *f, const char *const *bound, struct err *e)
{
	const struct agent *a = f->agent;
	struct buf *out = &f->use->policy;

	buf_adds(out, "version: 1\n");
	if (f->use->read.n || f->use->view.n)
		buf_adds(out, "filesystem:\n");
	list_of(out, "read", &f->use->read);
	list_of(out, "view", &f->use->view);
	write_environment(a, out);
	if (a->hosts.n || a->telemetry.n) {
		buf_adds(out, "network:\n");
		write_rules(out, "allow", &a->hosts, &a->websockets, ", ports: [443]");
		write_rules(out, "deny", &a->telemetry, NULL, ", reason: " AGENT_TELEMETRY);
		if (write_keys(f, bound, out, e) < 0)
			return -e->errnum;
	}
	snprintf(f->use->name, sizeof(f->use->name), "agent %s", a->name);
	return out->failed ? err_set(e, ENOMEM, "make the agent's policy") : 0;
}

int agent_use(struct agent_use *ret, const struct agent *a, const struct policy *p, const char *home,
	const char *workspace, const char *const *bound, struct err *e)
{
	struct finder f = {
		.use = ret, .agent = a, .policy = p, .home = home, .workspace = workspace};

	agent_use_init(ret);
	if (use_program(&f, e) < 0 || find_views(&f, e) < 0 || write_policy(&f, bound, e) < 0) {
		agent_use_done(ret);
		return -e->errnum;
	}
	return 0;
}
