/* SPDX-License-Identifier: Apache-2.0 */
/* Values and placeholders: see keeper_vault.h. */
#include "net/keeper/keeper_vault.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "ipc/pass.h"

/* Room to find out that a file is longer than it may be. */
#define BANK_B (NET_SECRETS_MAX * (size_t)SECRET_MAX_B + SECRET_MAX_B)

int vault_init(struct vault *v, const uint8_t seed[VAULT_SEED_LEN], struct err *e)
{
	*v = (struct vault){0};
	memcpy(v->seed, seed, sizeof(v->seed));
	v->scrubber = scrubber_new();
	if (!v->scrubber || secret_init(&v->bank[0], BANK_B) < 0 ||
		secret_init(&v->bank[1], BANK_B) < 0) {
		vault_done(v);
		return err_set(e, ENOMEM, "make memory for secrets");
	}
	return 0;
}

void vault_done(struct vault *v)
{
	for (size_t i = 0; i < v->n; i++)
		free(v->v[i].placeholder);
	placeholder_set_free(v->set);
	scrubber_free(v->scrubber);
	secret_done(&v->bank[0]);
	secret_done(&v->bank[1]);
	explicit_bzero(v, sizeof(*v));
}

bool vault_locked(const struct vault *v)
{
	return v->bank[0].locked && v->bank[1].locked && scrubber_locked(v->scrubber);
}

static struct vault_entry *entry_of(struct vault *v, const char *name)
{
	for (size_t i = 0; i < v->n; i++)
		if (str_eq(v->v[i].name, name))
			return &v->v[i];
	return NULL;
}

const struct vault_entry *vault_find(const struct vault *v, const char *name)
{
	for (size_t i = 0; i < v->n; i++)
		if (str_eq(v->v[i].name, name))
			return &v->v[i];
	return NULL;
}

/* ---- where the files come from ---- */

struct handed { /* what came through a socket */
	char name[NET_SECRETS_MAX][SECRET_NAME_MAX + 1];
	int fd[NET_SECRETS_MAX];
	size_t n;
};

static void handed_done(struct handed *h)
{
	for (size_t i = 0; i < h->n; i++)
		close_fd(&h->fd[i]);
}

/* 1: one more; 0: there are no more; else -errno. */
static int handed_receive(struct handed *h, int sock)
{
	char name[SECRET_NAME_MAX + 1];
	cleanup_fd int fd = -1;
	int r = pass_receive(sock, name, sizeof(name), &fd);

	if (r <= 0)
		return r == -EAGAIN ? 0 : r;
	if (name[SECRET_NAME_MAX] || h->n == NET_SECRETS_MAX)
		return -EBADMSG;
	memcpy(h->name[h->n], name, sizeof(name));
	h->fd[h->n++] = take_fd(&fd);
	return 1;
}

static int handed_take(struct handed *h, const char *name)
{
	for (size_t i = 0; i < h->n; i++)
		if (str_eq(h->name[i], name))
			return take_fd(&h->fd[i]);
	return -ENOENT;
}

/* ---- loading ---- */

/*
 * By number: the library's fstat() may go by the call that takes names, which a confined process
 * does not have.
 */
static int file_stat(int fd, struct stat *ret)
{
	return syscall(SYS_fstat, fd, ret) < 0 ? -errno : 0;
}

static bool is_socket(int fd)
{
	int type = 0;
	socklen_t len = sizeof(type);

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0;
}

/* One file's value behind what the bank holds already. */
static int read_value(struct secret *bank, int fd, const char *name, struct err *e)
{
	struct secret rest = {.data = bank->data + bank->len, .cap = SECRET_MAX_B + 1};
	const char *flaw;
	struct stat st;
	int r;

	if (bank->cap - bank->len < rest.cap)
		return err_set(e, ENOSPC, "read the secret %s", name);
	r = file_stat(fd, &st);
	if (r < 0)
		return err_set(e, -r, "look at the secret %s", name);
	flaw = secret_file_flaw(&st);
	if (flaw)
		return err_refuse(e, "the file of the secret %s %s", name, flaw);
	r = secret_fill(&rest, fd);
	bank->len += rest.len;
	if (r < 0)
		return err_set(e, -r, "read the secret %s", name);
	flaw = secret_flaw(rest.data, rest.len);
	if (flaw)
		return err_refuse(e, "the stored value of the secret %s %s", name, flaw);
	return 0;
}

/* An entry of this name, new ones with a placeholder as the launcher made it. */
static int entry_need(
	struct vault *v, const char *name, size_t len, struct vault_entry **ret, struct err *e)
{
	struct vault_entry *x = entry_of(v, name);

	if (!x) {
		if (v->n == PLACEHOLDERS_MAX)
			return err_refuse(
				e, "this sandbox had more than %d secrets", PLACEHOLDERS_MAX);
		x = &v->v[v->n];
		*x = (struct vault_entry){.placeholder = malloc(len), .placeholder_len = len};
		if (!x->placeholder)
			return err_set(e, ENOMEM, "make a placeholder");
		memcpy(x->name, name, strlen(name) + 1);
		placeholder_make(x->placeholder, len, v->seed, name);
		v->n++;
	}
	*ret = x;
	return 0;
}

static int load_one(struct vault *v, struct secret *bank, struct handed *h, int dir,
	const char *name, struct err *e)
{
	cleanup_fd int fd = -1;
	struct vault_entry *x = NULL;
	size_t at = bank->len;
	bool same;
	int r;

	fd = dir >= 0 ? openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
		      : handed_take(h, name);
	if (fd < 0 && v->loaded)
		return 0; /* gone since: its entry, if there is one, has no value any more */
	if (fd < 0)
		return err_invalid(e,
			"the secret %s is not stored; store it with: croft secret set %s", name,
			name);
	r = read_value(bank, fd, name, e);
	if (r == 0)
		r = entry_need(v, name, bank->len - at, &x, e);
	if (r < 0)
		return r;
	same = x->value && x->value_len == bank->len - at &&
	       memcmp(x->value, bank->data + at, x->value_len) == 0;
	x->value = bank->data + at;
	x->value_len = bank->len - at;
	x->changed = !same;
	return 0;
}

static int load_all(
	struct vault *v, struct secret *bank, const struct net_policy *p, int from, struct err *e)
{
	struct handed h = {0};
	int dir = -1, r = 0;

	if (p->secrets_n > NET_SECRETS_MAX)
		return err_invalid(e, "more than %u secrets", NET_SECRETS_MAX);
	if (from >= 0 && !is_socket(from))
		dir = from;
	else if (from >= 0)
		while ((r = handed_receive(&h, from)) > 0)
			;
	if (r < 0)
		err_set(e, -r, "receive secrets");
	for (size_t i = 0; r == 0 && i < p->secrets_n; i++) {
		const char *name = p->secrets[i].name;
		const struct vault_entry *x = vault_find(v, name);

		if (x && x->value >= bank->data && x->value < bank->data + bank->cap)
			continue; /* bound twice, loaded once */
		if (!secret_name_valid(name))
			r = err_invalid(e, "a secret has a name that is none");
		else
			r = load_one(v, bank, &h, dir, name, e);
	}
	handed_done(&h);
	return r;
}

void vault_forget(struct vault *v)
{
	for (size_t i = 0; i < v->n; i++) {
		v->v[i].value = NULL;
		v->v[i].value_len = 0;
		v->v[i].changed = true;
	}
	secret_reset(&v->bank[0]);
	secret_reset(&v->bank[1]);
}

static bool hide_all(struct vault *v)
{
	bool ok = true;

	for (size_t i = 0; ok && i < v->n; i++)
		ok = !v->v[i].value || scrubber_add(v->scrubber, v->v[i].value, v->v[i].value_len);
	return ok;
}

/*
 * A server may give back what it was sent before, so values that were replaced stay hidden; only
 * when there is no room for more, these are forgotten.
 */
static int hide(struct vault *v, struct err *e)
{
	if (hide_all(v) || (scrubber_reset(v->scrubber) == 0 && hide_all(v)))
		return 0;
	return err_set(e, ENOMEM, "prepare to hide secrets in answers");
}

static int compile(struct vault *v, struct err *e)
{
	const char *text[PLACEHOLDERS_MAX];
	size_t len[PLACEHOLDERS_MAX];
	struct placeholder_set *set;

	for (size_t i = 0; i < v->n; i++) {
		text[i] = v->v[i].placeholder;
		len[i] = v->v[i].placeholder_len;
	}
	set = placeholder_set_new(text, len, v->n);
	if (!set)
		return err_set(e, ENOMEM, "prepare the search for placeholders");
	placeholder_set_free(v->set);
	v->set = set;
	return 0;
}

int vault_load(struct vault *v, const struct net_policy *p, int from, struct err *e)
{
	struct secret *old = &v->bank[v->active], *bank = &v->bank[!v->active];
	int r = load_all(v, bank, p, from, e);

	if (r == 0)
		r = compile(v, e);
	if (r == 0)
		r = hide(v, e);
	if (r < 0) {
		vault_forget(v);
		return r;
	}
	for (size_t i = 0; i < v->n; i++) {
		struct vault_entry *x = &v->v[i];

		if (x->value >= bank->data && x->value < bank->data + bank->cap)
			continue;
		x->value = NULL; /* of the old bank, or none: not bound any more, or not stored */
		x->value_len = 0;
		x->changed = true;
	}
	secret_reset(old);
	v->active = !v->active;
	v->loaded = true;
	return 0;
}
