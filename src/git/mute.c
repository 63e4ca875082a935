/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that a repository's own configuration names, silenced: see mute.h. */
#include "git/mute.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"

#define SETTING_MAX_B ((size_t)1 << 20)

/*
 * What git does when nothing is said, as a value. "section.*.name" has any subsection, or none. A program
 * that is never needed for what croft asks of git becomes `false`.
 */
static const struct {
	const char *key, *value;
} defaults[] = {
	{"core.fsmonitor", "false"},
	{"core.hookspath", "/dev/null"},
	{"core.sshcommand", "ssh"},
	{"core.askpass", ""},
	{"core.pager", "cat"},
	{"core.editor", "false"},
	{"core.gitproxy", "none"}, /* the first one counts, not the last: see mute_settings() */
	{"core.alternaterefscommand", "true"},
	{"sequence.editor", "false"},
	{"gpg.program", "gpg"},
	{"gpg.openpgp.program", "gpg"},
	{"gpg.x509.program", "gpgsm"},
	{"gpg.ssh.program", "ssh-keygen"},
	{"gpg.ssh.defaultkeycommand", "false"},
	{"filter.*.clean", ""},
	{"filter.*.smudge", ""},
	{"filter.*.process", ""},
	{"filter.*.required", "false"},
	{"diff.external", "false"},
	{"diff.*.command", "false"},
	{"diff.*.textconv", "cat"},
	{"merge.*.driver", "false"},
	{"interactive.difffilter", "cat"},
	{"remote.*.vcs", "false"}, /* git-remote-VCS; with a slash in it, from the working directory */
	{"remote.*.uploadpack", "git-upload-pack"},
	{"remote.*.receivepack", "git-receive-pack"},
	{"submodule.*.update", "none"},
	{"hook.*.command", "true"},
	{"uploadpack.packobjectshook", "false"},
	{"protocol.allow", "user"},
	{"protocol.ext.allow", "never"},
};

/* Last parts of keys that name programs, here or in a version of git to come. */
static const char *const endings[] = {"command", "cmd", "program", "helper", "driver", "textconv",
	"editor", "pager", "askpass", "hook", "external", "proxycommand"};

void mute_done(struct mute *m)
{
	strlist_done(&m->own);
	strlist_done(&m->theirs);
}

static const char *last_part(const char *key)
{
	const char *dot = strrchr(key, '.');

	return dot ? dot + 1 : key;
}

static bool is_like(const char *pattern, const char *key)
{
	const char *star = strstr(pattern, ".*.");
	size_t head = star ? (size_t)(star - pattern) : 0;

	if (!star)
		return str_eq(pattern, key);
	return strncmp(pattern, key, head + 1) == 0 && str_eq(last_part(key), last_part(pattern));
}

/* Does it name a program, or decide about one? *ret: what stands for none. */
static bool names_program(const char *key, const char **ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++)
		if (is_like(defaults[i].key, key)) {
			*ret = defaults[i].value;
			return true;
		}
	/* git calls its own helpers by words that may be aliases: "remote-x" for the address x::y. */
	if (str_starts(key, "alias.")) {
		*ret = "";
		return true;
	}
	/* A pager needs a terminal, and has none here. */
	if (str_starts(key, "pager."))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(endings); i++)
		if (str_ends(last_part(key), endings[i])) {
			*ret = "false";
			return true;
		}
	return false;
}

static bool is_credential(const char *key)
{
	return str_starts(key, "credential.") && str_eq(last_part(key), "helper");
}

int mute_take(struct mute *m, bool own, const char *key, const char *value, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(SETTING_MAX_B), shown = BUF_INIT(8192);
	const char *none;

	if (!names_program(key, &none))
		return 0;
	if (!own) {
		buf_addf(&b, "%s\n%s", key, value ? value : "true");
		if (b.failed || !strlist_add(&m->theirs, b.data))
			return err_set(e, E2BIG, "the configuration of Git is too large");
		return 0;
	}
	str_show(&shown, key, MIN_OF(strlen(key), (size_t)400));
	if (strchr(key, '=') || strchr(key, '\n'))
		return err_refuse(e,
			"the repository's own configuration names a program in %s, which croft "
			"cannot keep git from running; remove it, or set it with git config "
			"--global",
			buf_str(&shown));
	if (!strlist_has(&m->own, key) && !strlist_add(&m->own, key))
		return err_set(e, E2BIG, "the repository's configuration is too large");
	return 0;
}

/* The last value that another scope gives, or NULL. */
static const char *value_of(const struct mute *m, const char *key)
{
	size_t n = strlen(key);

	for (size_t i = m->theirs.n; i-- > 0;)
		if (strncmp(m->theirs.v[i], key, n) == 0 && m->theirs.v[i][n] == '\n')
			return m->theirs.v[i] + n + 1;
	return NULL;
}

static bool add(struct strlist *ret, const char *key, size_t n, const char *value)
{
	cleanup_buf struct buf b = BUF_INIT(SETTING_MAX_B);

	buf_addf(&b, "%.*s=%s", (int)n, key, value);
	return !b.failed && strlist_add(ret, b.data);
}

/* An empty one ends the list of helpers; then those of the user again. */
static bool add_credentials(const struct mute *m, struct strlist *ret)
{
	bool fine = add(ret, "credential.helper", strlen("credential.helper"), "");

	for (size_t i = 0; fine && i < m->theirs.n; i++) {
		cleanup_free char *key = strndup(m->theirs.v[i], strcspn(m->theirs.v[i], "\n"));

		fine = key && (!is_credential(key) || strchr(key, '=') ||
				      add(ret, key, strlen(key), m->theirs.v[i] + strlen(key) + 1));
	}
	return fine;
}

int mute_settings(const struct mute *m, struct strlist *ret, struct err *e)
{
	bool credentials = false, fine = true;

	for (size_t i = 0; fine && i < m->own.n; i++) {
		const char *key = m->own.v[i], *value = value_of(m, key), *none = "";

		if (is_credential(key)) {
			credentials = true;
			continue;
		}
		names_program(key, &none);
		/* A proxy command cannot be overridden, so git: is not spoken. */
		if (str_eq(key, "core.gitproxy"))
			fine = strlist_add(ret, "protocol.git.allow=never");
		fine = fine && add(ret, key, strlen(key), value ? value : none);
	}
	if (fine && credentials)
		fine = add_credentials(m, ret);
	return fine ? 0 : err_set(e, ENOMEM, "silence the repository's configuration");
}
