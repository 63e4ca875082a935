/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is inside trees and commits: see read.h.
 *
 * Trust: objects come from sandboxes and from other people's repositories. Every length is checked
 *        before it is used, and a name that would mean another place is refused here, for everybody.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "git/read.h"

static bool mode_known(unsigned m)
{
	/* 0100664 is what very old versions of Git wrote. */
	return m == 0040000 || m == 0100644 || m == 0100755 || m == 0100664 || m == 0120000 ||
	       m == 0160000;
}

static bool name_fine(const char *s, size_t n)
{
	if (n == 0 || memchr(s, '/', n))
		return false;
	return !(s[0] == '.' && (n == 1 || (n == 2 && s[1] == '.')));
}

int git_tree_next(const void *raw, size_t n, enum git_hash h, size_t *at, struct tree_entry *ret)
{
	const char *p = raw, *nul;
	struct tree_entry t = {0};
	size_t i = *at, hash_n = git_hash_len(h);

	if (i >= n)
		return i == n ? 0 : -EBADMSG;
	for (size_t digits = 0; i < n && p[i] != ' '; i++, digits++) {
		if (p[i] < '0' || p[i] > '7' || digits >= 7)
			return -EBADMSG;
		t.mode = t.mode << 3 | (unsigned)(p[i] - '0');
	}
	if (i >= n || !mode_known(t.mode))
		return -EBADMSG;
	i++;
	nul = memchr(p + i, '\0', n - i);
	if (!nul)
		return -EBADMSG;
	t.name = p + i;
	t.name_n = (size_t)(nul - t.name);
	i += t.name_n + 1;
	if (!name_fine(t.name, t.name_n) || n - i < hash_n)
		return -EBADMSG;
	t.oid.n = (uint8_t)hash_n;
	memcpy(t.oid.v, p + i, hash_n);
	*at = i + hash_n;
	*ret = t;
	return 1;
}

/* ------------------------------------------------------------------ commits */

void commit_info_done(struct commit_info *c)
{
	free(c->author);
	free(c->committer);
	free(c->message);
	*c = (struct commit_info){0};
}

struct lines {
	const char *p;
	size_t n, at;
};

/* The next line without its end; false when there is none or it does not end. */
static bool next_line(struct lines *l, const char **ret, size_t *ret_n)
{
	const char *nl = l->at < l->n ? memchr(l->p + l->at, '\n', l->n - l->at) : NULL;

	if (!nl)
		return false;
	*ret = l->p + l->at;
	*ret_n = (size_t)(nl - *ret);
	l->at += *ret_n + 1;
	return true;
}

static bool header(const char *line, size_t n, const char *key, const char **ret, size_t *ret_n)
{
	size_t k = strlen(key);

	if (n <= k || memcmp(line, key, k) || line[k] != ' ')
		return false;
	*ret = line + k + 1;
	*ret_n = n - k - 1;
	return true;
}

static int set_once(char **to, const char *v, size_t n)
{
	if (*to || memchr(v, '\0', n))
		return -EBADMSG;
	*to = strndup(v, n);
	return *to ? 0 : -ENOMEM;
}

static int take_header(struct commit_info *c, const char *line, size_t n, size_t hash_n)
{
	const char *v;
	size_t vn;

	if (header(line, n, "tree", &v, &vn))
		return c->tree.n || vn != 2 * hash_n || !oid_parse(&c->tree, v, vn) ? -EBADMSG : 0;
	if (header(line, n, "parent", &v, &vn)) {
		if ((size_t)c->parents_n >= ARRAY_SIZE(c->parents))
			return -E2BIG;
		if (vn != 2 * hash_n || !oid_parse(&c->parents[c->parents_n], v, vn))
			return -EBADMSG;
		c->parents_n++;
		return 0;
	}
	if (header(line, n, "author", &v, &vn))
		return set_once(&c->author, v, vn);
	if (header(line, n, "committer", &v, &vn))
		return set_once(&c->committer, v, vn);
	return 0; /* a signature, an encoding, a line that goes on */
}

int git_commit_parse(
	const void *raw, size_t n, enum git_hash h, struct commit_info *ret, struct err *e)
{
	__attribute__((cleanup(commit_info_done))) struct commit_info c = {0};
	struct lines l = {.p = raw, .n = n};
	const char *line;
	size_t line_n;
	int r = 0;

	while (r == 0 && next_line(&l, &line, &line_n) && line_n > 0)
		r = take_header(&c, line, line_n, git_hash_len(h));
	if (r == 0) {
		c.message = strndup(n > l.at ? l.p + l.at : "", n - l.at);
		if (!c.message)
			r = -ENOMEM;
		else if (!c.tree.n || !c.author || !c.committer)
			r = -EBADMSG;
	}
	if (r == -E2BIG)
		return err_set(
			e, E2BIG, "this commit has more than %zu parents", ARRAY_SIZE(c.parents));
	if (r < 0)
		return err_set(e, -r, "this is not a commit as Git writes them");
	*ret = c;
	c = (struct commit_info){0};
	return 0;
}
