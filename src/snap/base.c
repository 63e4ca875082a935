/* SPDX-License-Identifier: Apache-2.0 */
/* Bases by their keys: found, opened, swept. See base.h; making one is in base_make.c. */
#include "snap/base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/jsonread.h"
#include "os/path.h"
#include "os/tree.h"
#include "snap/base_impl.h"
#include "snap/scan_impl.h"

void base_done(struct base *b)
{
	free(b->key);
	free(b->tree);
	treemap_close(b->trees);
	strlist_done(&b->objects);
	*b = (struct base){0};
}

/* ------------------------------------------------------------------ the key */

/* Which submodules the host has: names below modules/ that hold a HEAD, as they lie. */
static void add_modules(struct buf *b, const char *dir, int depth)
{
	cleanup_dir DIR *d = opendir(dir);
	struct strlist names = STRLIST_INIT(4096);
	struct dirent *de;

	while (d && (de = readdir(d)))
		if (de->d_name[0] != '.')
			strlist_add(&names, de->d_name);
	strlist_sort(&names);
	for (size_t i = 0; i < names.n; i++) {
		cleanup_free char *path = path_join(dir, names.v[i]);
		cleanup_free char *head = path ? path_join(path, "HEAD") : NULL;

		if (head && access(head, F_OK) == 0)
			buf_addf(b, "module %s\n", path);
		else if (path && depth < BASE_SUBMODULE_DEPTH_MAX)
			add_modules(b, path, depth + 1);
	}
	strlist_done(&names);
}

static void add_part(struct buf *b, const char *what, const void *p, size_t n)
{
	buf_addf(b, "%s %zu\n", what, n);
	buf_add(b, p, n);
}

static char *make_key(const struct repo *r, const struct base_settings *s, const struct oid *tree)
{
	cleanup_buf struct buf b = BUF_INIT(8 * BASE_FILE_MAX_B);
	cleanup_free char *modules = path_join(r->common_dir, "modules");
	struct digest d;

	buf_addf(&b, "croft base %d\n", BASE_FORMAT);
	add_part(&b, "repository", r->common_dir, strlen(r->common_dir));
	add_part(&b, "tree", oid_hex(tree).s, strlen(oid_hex(tree).s));
	for (size_t i = 0; i < r->objects.n; i++)
		add_part(&b, "objects", r->objects.v[i], strlen(r->objects.v[i]));
	add_part(&b, "core", buf_str(&s->core), s->core.len);
	add_part(&b, "remotes", buf_str(&s->remotes), s->remotes.len);
	add_part(&b, "exclude", buf_str(&s->exclude), s->exclude.len);
	add_part(&b, "attributes", buf_str(&s->attributes), s->attributes.len);
	add_part(&b, "sparse", buf_str(&s->sparse), s->sparse.len);
	if (!modules)
		return NULL;
	add_modules(&b, modules, 0);
	if (b.failed)
		return NULL;
	digest_sha256(&d, b.data, b.len);
	return strndup(d.hex, BASE_KEY_LEN);
}

static bool is_key(const char *s)
{
	return str_hex(s, BASE_KEY_LEN, BASE_KEY_LEN);
}

/* ------------------------------------------------------------------ opening */

/* Paths are any bytes and JSON is not: what is not plain ASCII stands as %XX. */
static bool unescape(struct strlist *l, const char *s)
{
	cleanup_buf struct buf b = BUF_INIT(BASE_FILE_MAX_B);

	for (; *s; s++) {
		if (*s != '%') {
			buf_addc(&b, *s);
			continue;
		}
		if (hex_digit(s[1]) < 0 || hex_digit(s[2]) < 0)
			return false;
		buf_addc(&b, (char)(hex_digit(s[1]) << 4 | hex_digit(s[2])));
		s += 2;
	}
	return !b.failed && strlen(buf_str(&b)) == b.len && buf_str(&b)[0] == '/' &&
	       strlist_add(l, buf_str(&b));
}

static int read_json(struct base *b, int dir, struct err *e)
{
	cleanup_buf struct buf text = BUF_INIT(BASE_FILE_MAX_B);
	cleanup_jdoc struct jdoc *doc = NULL;
	const struct jnode *objects;
	int64_t format;
	int r = file_read_at(dir, "base.json", &text);

	if (r < 0)
		return err_set(e, -r, "read base.json");
	r = jdoc_parse(&doc, buf_str(&text), text.len, e);
	if (r < 0)
		return r;
	objects = jget(jdoc_root(doc), "objects");
	if (!jint(jget(jdoc_root(doc), "format"), &format) || format != BASE_FORMAT)
		return err_invalid(e, "it was made by another version of croft");
	for (size_t i = 0; i < jlen(objects); i++) {
		const char *s = jstr(jat(objects, i));

		if (!s || !unescape(&b->objects, s))
			return err_invalid(e, "base.json does not list object directories");
	}
	return 0;
}

int base_open(struct base *ret, const char *state_dir, const char *key, struct err *e)
{
	cleanup_base struct base b = {.objects = STRLIST_INIT(BASE_OBJECTS_MAX)};
	cleanup_free char *dir_path = NULL;
	cleanup_fd int dir = -1;
	int r;

	if (!is_key(key))
		return err_invalid(e, "a base's name is %d hexadecimal digits", BASE_KEY_LEN);
	if (asprintf(&dir_path, "%s/bases/%s", state_dir, key) < 0)
		return err_set(e, ENOMEM, "open a base");
	b.key = strdup(key);
	b.tree = path_join(dir_path, "tree");
	if (!b.key || !b.tree)
		return err_set(e, ENOMEM, "open a base");
	dir = open(dir_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return err_set(e, errno, "open the base %s", dir_path);
	r = read_json(&b, dir, e);
	if (r == 0)
		r = treemap_open(&b.trees, dir, "trees", e);
	if (r < 0)
		return err_wrap(e, "the base %s cannot be used (remove it, and it is made again)",
			dir_path);
	*ret = b;
	b = (struct base){0};
	return 0;
}

int base_get(struct base *ret, const struct repo *r, const struct oid *commit,
	const struct oid *tree, const char *state_dir,
	void (*progress)(void *arg, unsigned percent), void *arg, struct err *e)
{
	cleanup_base_settings struct base_settings s;
	cleanup_free char *key = NULL;
	int rc = base_settings_read(&s, r, e);

	if (rc < 0)
		return rc;
	key = make_key(r, &s, tree);
	if (!key)
		return err_set(e, ENOMEM, "name a base");
	rc = base_open(ret, state_dir, key, e);
	if (rc != -ENOENT)
		return rc;
	*e = ERR_INIT;
	rc = base_make(r, &s, tree, state_dir, key, progress, arg, e);
	if (rc < 0)
		return err_wrap(e, "check out commit %.12s", oid_hex(commit).s);
	return base_open(ret, state_dir, key, e);
}

/* ------------------------------------------------------------------ sweeping */

/* A maker holds a lock on its directory while it lives. */
static bool is_abandoned(int bases, const char *name)
{
	cleanup_fd int fd = openat(bases, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

/* Out of sight at once, then removed at leisure: nobody opens half a base. */
static int remove_base(int bases, const char *name)
{
	char old[64];

	snprintf(old, sizeof(old), ".old.%.32s", name);
	if (name[0] == '.')
		return tree_remove_at(bases, name);
	if (renameat(bases, name, bases, old) < 0)
		return -errno;
	return tree_remove_at(bases, old);
}

int base_sweep(const char *state_dir, bool (*used)(void *arg, const char *key), void *arg,
	bool dry_run, struct err *e)
{
	cleanup_free char *path = path_join(state_dir, "bases");
	cleanup_dir DIR *d = path ? opendir(path) : NULL;
	struct dirent *de;
	int n = 0, r = 0;

	if (!d)
		return errno == ENOENT ? 0 : err_set(e, errno, "list %s/bases", state_dir);
	while ((de = readdir(d))) {
		bool rubbish =
			str_starts(de->d_name, ".old.") ||
			(str_starts(de->d_name, ".new.") && is_abandoned(dirfd(d), de->d_name));
		int rc;

		if (!rubbish && (!used || !is_key(de->d_name) || used(arg, de->d_name)))
			continue;
		rc = dry_run ? 0 : remove_base(dirfd(d), de->d_name);
		if (rc < 0)
			r = rc;
		else if (!rubbish)
			n++;
	}
	return r < 0 ? err_set(e, -r, "remove a base that is no longer used from %s", path) : n;
}
