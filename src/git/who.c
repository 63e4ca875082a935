/* SPDX-License-Identifier: Apache-2.0 */
/* Who commits: see who.h. The syntax is that of git-config(1). */
#include "git/who.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "os/path.h"

#define CONFIG_MAX_B (256u << 10)
#define VALUE_MAX_B 256
#define INCLUDES_MAX 5 /* one in another */

struct who {
	char name[VALUE_MAX_B], email[VALUE_MAX_B];
	bool unknown; /* it depends, or cannot be read as git would */
	const char *home;
};

enum section { SECTION_OTHER, SECTION_USER, SECTION_INCLUDE };

static void read_file(struct who *w, const char *path, int depth);

/* "[user]", "[include]"; with a subsection it is neither. */
static enum section read_section(struct who *w, const char *line)
{
	size_t n = strcspn(line, "]\" \t");

	if (n == 9 && strncasecmp(line, "includeif", n) == 0)
		w->unknown = true;
	if (line[n] != ']')
		return SECTION_OTHER;
	return n == 4 && strncasecmp(line, "user", n) == 0      ? SECTION_USER
	       : n == 7 && strncasecmp(line, "include", n) == 0 ? SECTION_INCLUDE
								: SECTION_OTHER;
}

/* A value without its quotes, escapes and comment. False: it is too long, or goes on in the next line. */
static bool read_value(const char *p, char *ret, size_t size)
{
	bool quoted = false;
	size_t n = 0, end = 0;

	for (p += strspn(p, " \t"); *p && (quoted || (*p != '#' && *p != ';')); p++) {
		char c = *p;

		if (c == '"') {
			quoted = !quoted;
			end = n;
			continue;
		}
		if (c == '\\') {
			static const char from[] = "\"\\ntb", to[] = "\"\\\n\t\b";
			const char *at = p[1] ? strchr(from, p[1]) : NULL;

			if (!at)
				return false;
			c = to[at - from];
			p++;
		}
		if (n + 1 >= size)
			return false;
		ret[n++] = c;
		if (quoted || (c != ' ' && c != '\t' && c != '\r'))
			end = n;
	}
	ret[end] = '\0';
	return !quoted;
}

static void include(struct who *w, const char *from, const char *path, int depth)
{
	const char *slash = strrchr(from, '/');
	char full[PATH_MAX];
	int n;

	if (path[0] == '/')
		n = snprintf(full, sizeof(full), "%s", path);
	else if (path[0] == '~' && path[1] == '/')
		n = snprintf(full, sizeof(full), "%s%s", w->home, path + 1);
	else
		n = snprintf(full, sizeof(full), "%.*s/%s", (int)(slash - from), from, path);
	if (path[0] == '~' && path[1] != '/')
		w->unknown = true;
	else if (n > 0 && (size_t)n < sizeof(full))
		read_file(w, full, depth + 1);
}

static void read_setting(
	struct who *w, enum section in, const char *line, const char *path, int depth)
{
	size_t n = strspn(line, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");
	const char *eq = line + n + strspn(line + n, " \t");
	char value[PATH_MAX];

	if (in == SECTION_OTHER || *eq != '=')
		return;
	if (in == SECTION_INCLUDE && n == 4 && strncasecmp(line, "path", n) == 0) {
		if (read_value(eq + 1, value, sizeof(value)))
			include(w, path, value, depth);
		else
			w->unknown = true;
	} else if (in == SECTION_USER && n == 4 && strncasecmp(line, "name", n) == 0) {
		if (!read_value(eq + 1, w->name, sizeof(w->name)))
			w->unknown = true;
	} else if (in == SECTION_USER && n == 5 && strncasecmp(line, "email", n) == 0) {
		if (!read_value(eq + 1, w->email, sizeof(w->email)))
			w->unknown = true;
	}
}

static void read_file(struct who *w, const char *path, int depth)
{
	cleanup_buf struct buf b = BUF_INIT(CONFIG_MAX_B);
	cleanup_fd int fd = -1;
	enum section in = SECTION_OTHER;
	struct stat st;
	char *line, *next;

	/* O_NONBLOCK: a FIFO in its place must not hold the run. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return;
	if (depth > INCLUDES_MAX || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
		file_read_fd(fd, &b) < 0 || memchr(b.data, '\0', b.len)) {
		w->unknown = true;
		return;
	}
	buf_addc(&b, '\0');
	for (line = (char *)b.data; !b.failed && line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		line += strspn(line, " \t\r");
		if (*line == '[') {
			in = read_section(w, line + 1);
			line = strchr(line, ']');
			line = line ? line + 1 + strspn(line + 1, " \t") : NULL;
		}
		if (line && isalpha((unsigned char)*line))
			read_setting(w, in, line, path, depth);
	}
}

/* Quoted, so that whatever is in it stays a value. Control characters are no part of a name. */
static bool add_setting(struct buf *out, const char *key, const char *value)
{
	for (const char *p = value; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return false;
	buf_addf(out, "\t%s = \"", key);
	for (const char *p = value; *p; p++) {
		if (*p == '"' || *p == '\\')
			buf_addc(out, '\\');
		buf_addc(out, *p);
	}
	buf_adds(out, "\"\n");
	return true;
}

bool git_who(const char *home, const char *xdg_config, const char *system, struct buf *ret)
{
	struct who w = {.home = home};
	char path[PATH_MAX];
	int n = xdg_config && xdg_config[0] == '/'
			? snprintf(path, sizeof(path), "%s/git/config", xdg_config)
			: snprintf(path, sizeof(path), "%s/.config/git/config", home);

	if (n > 0 && (size_t)n < sizeof(path))
		read_file(&w, path, 0);
	n = snprintf(path, sizeof(path), "%s/.gitconfig", home);
	if (n > 0 && (size_t)n < sizeof(path))
		read_file(&w, path, 0);
	if (w.unknown || (!w.name[0] && !w.email[0]))
		return false;
	if (system)
		buf_addf(ret, "[include]\n\tpath = %s\n", system);
	buf_adds(ret, "[user]\n");
	if ((w.name[0] && !add_setting(ret, "name", w.name)) ||
		(w.email[0] && !add_setting(ret, "email", w.email)))
		return false;
	return !ret->failed;
}
