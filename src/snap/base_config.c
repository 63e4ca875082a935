/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of the user's configuration goes into a base: see base.h.
 *
 * Trust:  an allowlist. Nothing that names a program (filters, helpers, editors, hooks, aliases,
 *         transports with "::") and nothing that includes other files; addresses lose their passwords.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "git/program.h"
#include "git/repo.h"
#include "os/path.h"
#include "snap/base_impl.h"
#include "snap/scan_impl.h"

#define CONFIG_MAX_B ((size_t)16 << 20)

void base_settings_done(struct base_settings *s)
{
	buf_done(&s->core);
	buf_done(&s->remotes);
	buf_done(&s->exclude);
	buf_done(&s->attributes);
	buf_done(&s->sparse);
}

/* "value" with what a config file needs escaped. */
static void add_quoted(struct buf *b, const char *v)
{
	buf_addc(b, '"');
	for (; *v; v++) {
		if (*v == '\n') {
			buf_adds(b, "\\n");
			continue;
		}
		if (*v == '"' || *v == '\\')
			buf_addc(b, '\\');
		buf_addc(b, *v);
	}
	buf_adds(b, "\"\n");
}

/* "remote.some name.url" -> [remote "some name"] url = "…". Keys come lower-cased but for the middle. */
static void add_setting(struct buf *b, const char *key, const char *value)
{
	const char *first = strchr(key, '.'), *last = strrchr(key, '.');

	if (!first)
		return;
	buf_addf(b, "[%.*s", (int)(first - key), key);
	if (last > first) {
		buf_adds(b, " \"");
		for (const char *p = first + 1; p < last; p++) {
			if (*p == '"' || *p == '\\')
				buf_addc(b, '\\');
			buf_addc(b, *p);
		}
		buf_addc(b, '"');
	}
	buf_addf(b, "]\n\t%s = ", last + 1);
	add_quoted(b, value);
}

/*
 * An address without credentials. NULL: one that would run a program, or be taken for an option.
 * Caller frees.
 */
static char *clean_url(const char *url)
{
	const char *scheme = strstr(url, "://"), *rest, *at = NULL;
	cleanup_buf struct buf b = BUF_INIT(BASE_FILE_MAX_B);

	if (url[0] == '-' || strchr(url, '\n'))
		return NULL;
	for (const char *p = url; *p && *p != '/' && *p != '@' && *p != '['; p++)
		if (p[0] == ':' && p[1] == ':')
			return NULL;
	if (!scheme)
		return strdup(url); /* a path, or user@host:path, which holds no password */
	rest = scheme + 3;
	for (const char *p = rest; *p && *p != '/' && *p != '?' && *p != '#'; p++)
		if (*p == '@')
			at = p;
	buf_add(&b, url, (size_t)(rest - url));
	if (at) {
		/* ssh needs its user, who is no secret; elsewhere the name may be a token */
		if (str_starts(url, "ssh://") || str_starts(url, "git+ssh://"))
			buf_addf(&b, "%.*s@", (int)MIN_OF(strcspn(rest, ":@"), (size_t)INT_MAX),
				rest);
		rest = at + 1;
	}
	buf_adds(&b, rest);
	return buf_take(&b);
}

/* Settings of [core] that a checkout or a commit depends on. */
static bool is_core(const char *key)
{
	static const char *const keys[] = {"core.filemode", "core.symlinks", "core.ignorecase",
		"core.autocrlf", "core.eol", "core.precomposeunicode", "core.sparsecheckout",
		"core.sparsecheckoutcone", "core.checkroundtripencoding", "core.abbrev",
		"core.commentchar", "core.quotepath", "core.whitespace", "user.name", "user.email",
		"i18n.commitencoding", "i18n.logoutputencoding"};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (str_eq(key, keys[i]))
			return true;
	return false;
}

static bool truthy(const char *v)
{
	return str_eq(v, "true") || str_eq(v, "yes") || str_eq(v, "on") || str_eq(v, "1") || !*v;
}

struct reading {
	struct base_settings *s;
	const struct repo *repo;
	char *excludes;     /* core.excludesFile */
	bool excludes_here; /* the repository's own configuration says so */
};

static void one_setting(struct reading *r, const char *scope, const char *key, const char *value)
{
	if (str_eq(key, "core.excludesfile")) {
		free(r->excludes);
		r->excludes = strdup(value);
		r->excludes_here = str_eq(scope, "local") || str_eq(scope, "worktree");
	}
	if (str_starts(key, "core.sparsecheckout") && !r->repo->sparse)
		return;
	if (str_eq(key, "core.autocrlf"))
		r->s->autocrlf = truthy(value) || str_eq(value, "input");
	if (is_core(key)) {
		add_setting(&r->s->core, key, value);
	} else if (str_starts(key, "remote.") && str_ends(key, ".url")) {
		cleanup_free char *url = clean_url(value);

		if (url)
			add_setting(&r->s->remotes, key, url);
	} else if ((str_starts(key, "remote.") && str_ends(key, ".fetch")) ||
		   (str_starts(key, "branch.") &&
			   (str_ends(key, ".remote") || str_ends(key, ".merge")))) {
		add_setting(&r->s->remotes, key, value);
	}
}

/* The user's own patterns first, so that the repository's, which come later, prevail. */
static int read_excludes(struct reading *r, struct err *e)
{
	const char *home = getenv("HOME"), *xdg = getenv("XDG_CONFIG_HOME");
	char path[PATH_MAX];
	int n, rc = 0;

	if (r->excludes && str_starts(r->excludes, "~/") && home)
		n = snprintf(path, sizeof(path), "%s/%s", home, r->excludes + 2);
	else if (r->excludes)
		n = snprintf(path, sizeof(path), "%s", r->excludes);
	else if (xdg && *xdg)
		n = snprintf(path, sizeof(path), "%s/git/ignore", xdg);
	else
		n = snprintf(path, sizeof(path), "%s/.config/git/ignore", home ? home : "");
	if (n > 0 && (size_t)n < sizeof(path) && path[0] == '/') {
		const char *ws = r->repo->workspace;

		/* The command will see what is in it: a repository may name only what it sees anyway. */
		if (!r->excludes_here)
			file_read_at(AT_FDCWD, path, &r->s->exclude);
		else if (repo_below(ws, path))
			rc = repo_read_file(ws, path + strlen(ws) + 1, &r->s->exclude);
		else
			rc = err_refuse(e,
				"the repository's own configuration names a file outside of %s as "
				"core.excludesFile; set it with git config --global instead",
				ws);
	}
	if (r->s->exclude.len && r->s->exclude.data[r->s->exclude.len - 1] != '\n')
		buf_addc(&r->s->exclude, '\n');
	return rc == -EPERM && e->errnum ? rc : 0;
}

/* dir/info/NAME, when there is one. The command will see it: so it is that file, not what a symlink names. */
static int read_info(const char *dir, const char *name, struct buf *ret, struct err *e)
{
	char path[64];
	int r;

	snprintf(path, sizeof(path), "info/%s", name);
	r = repo_read_file(dir, path, ret);
	if (r == -ELOOP || r == -EINVAL)
		return err_refuse(
			e, "%s/%s must be a plain file, not a symlink or special file", dir, path);
	return r < 0 && r != -ENOENT ? err_set(e, -r, "read %s/%s", dir, path) : 0;
}

static void begin(struct base_settings *s, const struct repo *r)
{
	*s = (struct base_settings){.core = BUF_INIT(BASE_FILE_MAX_B),
		.remotes = BUF_INIT(BASE_FILE_MAX_B),
		.exclude = BUF_INIT(BASE_FILE_MAX_B),
		.attributes = BUF_INIT(BASE_FILE_MAX_B),
		.sparse = BUF_INIT(BASE_FILE_MAX_B)};
	if (r->hash == GIT_SHA256)
		buf_adds(&s->core, "[core]\n\trepositoryformatversion = 1\n[extensions]\n"
				   "\tobjectformat = sha256\n");
	else
		buf_adds(&s->core, "[core]\n\trepositoryformatversion = 0\n");
	buf_adds(&s->core, "[core]\n\tbare = false\n\tlogallrefupdates = true\n");
}

int base_settings_read(struct base_settings *ret, const struct repo *r, struct err *e)
{
	cleanup_buf struct buf out = BUF_INIT(CONFIG_MAX_B);
	struct git_run g = {
		.argv = (const char *const[]){"config", "-z", "--show-scope", "--list", NULL},
		.out = &out};
	struct reading rd = {.s = ret, .repo = r};
	int rc;

	begin(ret, r);
	rc = r->git_dir ? repo_git(r, &g, e) : err_invalid(e, "%s is no repository", r->workspace);
	if (rc < 0)
		return err_wrap(e, "read the repository's configuration");
	for (size_t at = 0; at < out.len;) {
		const char *scope = out.data + at;
		char *key = out.data + at + strlen(scope) + 1, *value;

		if (key >= out.data + out.len) {
			free(rd.excludes);
			return err_set(e, EBADMSG, "read the repository's configuration");
		}
		at += strlen(scope) + strlen(key) + 2;
		value = strchr(key, '\n');
		if (value)
			*value++ = '\0';
		one_setting(&rd, scope, key, value ? value : "true");
	}
	buf_adds(&ret->core, "[core]\n\tsafecrlf = false\n[gc]\n\tauto = 0\n[maintenance]\n"
			     "\tauto = false\n");
	rc = read_excludes(&rd, e);
	free(rd.excludes);
	if (rc == 0)
		rc = read_info(r->common_dir, "exclude", &ret->exclude, e);
	if (rc == 0)
		rc = read_info(r->common_dir, "attributes", &ret->attributes, e);
	if (rc == 0 && r->sparse)
		rc = read_info(r->git_dir, "sparse-checkout", &ret->sparse, e);
	if (rc == 0 && (ret->core.failed || ret->remotes.failed || ret->exclude.failed))
		rc = err_set(e, EFBIG, "the repository's configuration is too large");
	return rc;
}
