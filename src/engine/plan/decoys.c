/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decoy list. Secrets refuse and tell; start-up files read as empty and refuse to be written, so
 * that a shell inside starts quietly and an attempt to persist in it is told.
 */
#include "engine/plan/decoys.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"

#define NAMES(...)                                                                                 \
	(const char *const[])                                                                      \
	{                                                                                          \
		__VA_ARGS__, NULL                                                                  \
	}

const struct decoy_path decoy_paths[] = {
	{"~/.ssh", DECOY_DIR,
		NAMES("id_rsa", "id_ed25519", "id_ecdsa", "id_dsa", "config", "known_hosts",
			"authorized_keys")},
	{"~/.gnupg", DECOY_DIR, NAMES("private-keys-v1.d", "secring.gpg", "pubring.kbx")},
	{"~/.aws", DECOY_DIR, NAMES("credentials", "config")},
	{"~/.azure", DECOY_DIR, NAMES("accessTokens.json", "msal_token_cache.json")},
	{"~/.kube", DECOY_DIR, NAMES("config")},
	{"~/.docker", DECOY_DIR, NAMES("config.json")},
	{"~/.config/gcloud", DECOY_DIR,
		NAMES("credentials.db", "application_default_credentials.json")},
	{"~/.config/gh", DECOY_DIR, NAMES("hosts.yml")},
	{"~/.config/op", DECOY_DIR, NAMES("config")},
	{"~/.password-store", DECOY_DIR, NULL},
	{"~/.local/share/keyrings", DECOY_DIR, NAMES("login.keyring")},
	{"~/.mozilla", DECOY_DIR, NAMES("firefox")},
	{"~/.config/google-chrome", DECOY_DIR, NULL},
	{"~/.config/chromium", DECOY_DIR, NULL},
	{"~/.config/systemd", DECOY_DIR, NAMES("user")},
	{"~/.config/autostart", DECOY_DIR, NULL},
	{"~/.netrc", DECOY_SECRET, NULL},
	{"~/.git-credentials", DECOY_SECRET, NULL},
	{"~/.pypirc", DECOY_SECRET, NULL},
	{"~/.pgpass", DECOY_SECRET, NULL},
	{"~/.vault-token", DECOY_SECRET, NULL},
	{"~/.bashrc", DECOY_STARTUP, NULL},
	{"~/.bash_profile", DECOY_STARTUP, NULL},
	{"~/.profile", DECOY_STARTUP, NULL},
	{"~/.zshrc", DECOY_STARTUP, NULL},
	{"~/.zshenv", DECOY_STARTUP, NULL},
	{"~/.zprofile", DECOY_STARTUP, NULL},
	{"~/.npmrc", DECOY_STARTUP, NULL},
	{"~/.gitconfig", DECOY_STARTUP, NULL},
	{"/etc/shadow", DECOY_SECRET, NULL},
	{"/etc/sudoers", DECOY_SECRET, NULL},
	{"/var/run/docker.sock", DECOY_SECRET, NULL},
};
const size_t decoy_paths_n = ARRAY_SIZE(decoy_paths);
_Static_assert(ARRAY_SIZE(decoy_paths) + DECOY_MASKS_MAX <= DECOYS_MAX, "every decoy has a slot");

/* What is looked for in a denied directory, if it is one of the list. */
static const char *const *names_in(const char *path)
{
	size_t n = strlen(path);

	for (size_t i = 0; i < decoy_paths_n; i++) {
		const char *d = decoy_paths[i].path;
		size_t len = strlen(d);

		if (d[0] == '~' && n >= len && strcmp(path + n - (len - 1), d + 1) == 0)
			return decoy_paths[i].names;
	}
	return NULL;
}

/* What is made for set-up to pass through, staged by name only, or of the kernel's, does not tell. */
static bool tells(const struct plan *p, const struct plan_op *op)
{
	if (p->policy->observe == OBSERVE_OFF)
		return false;
	if (op->kind == PLAN_MASK)
		return !op->holds && !op->staged && strncmp(op->dst, "/proc/", 6) != 0;
	return op->kind == PLAN_DECOY;
}

void decoy_slots(struct decoy_slots *ret, const struct plan *p)
{
	ret->n = ret->masks_n = 0;
	for (size_t i = 0; i < p->n && ret->n < DECOYS_MAX; i++) {
		const struct plan_op *op = &p->ops[i];
		bool mask = op->kind == PLAN_MASK;
		size_t at = ret->n;

		if (!tells(p, op) || (mask && ret->masks_n == DECOY_MASKS_MAX))
			continue;
		ret->path[at] = op->dst;
		ret->mask[at] = mask;
		ret->kind[at] = !mask        ? decoy_paths[op->mode].kind
				: op->is_dir ? DECOY_DIR
					     : DECOY_SECRET;
		ret->names[at] = mask ? names_in(op->dst) : decoy_paths[op->mode].names;
		ret->masks_n += mask;
		ret->n++;
	}
}

int decoy_slot_of(const struct decoy_slots *slots, const struct plan_op *op)
{
	for (size_t i = 0; i < slots->n; i++)
		if (slots->path[i] == op->dst)
			return (int)i;
	return -1;
}

void trap_name(char ret[TRAP_NAME_MAX], size_t slot, const char *name)
{
	snprintf(ret, TRAP_NAME_MAX, "%zu%s%s", slot, name ? ".d/" : "", name ? name : "");
}

/* "12.d/rest" after one of our directories: the slot, and "/rest". */
static const char *slot_of(const char *path, const char *dir, size_t *ret_slot)
{
	size_t n = strlen(dir), digits, slot = 0;

	if (strncmp(path, dir, n) != 0 || path[n] != '/')
		return NULL;
	path += n + 1;
	digits = strspn(path, "0123456789");
	if (digits == 0 || digits > 3)
		return NULL;
	while (digits-- > 0)
		slot = slot * 10 + (size_t)(*path++ - '0');
	path += strncmp(path, ".d", 2) == 0 ? 2 : 0;
	*ret_slot = slot;
	return *path == '/' || !*path ? path : NULL;
}

bool trap_rename(const struct decoy_slots *slots, char *path, size_t size)
{
	static const char *const dirs[] = {TRAP_DIR, TRAP_EMPTY_DIR, TRAP_SHUT_DIR};
	const char *rest = NULL;
	size_t slot = 0, n, len;

	for (size_t i = 0; i < ARRAY_SIZE(dirs) && !rest; i++)
		rest = slot_of(path, dirs[i], &slot);
	if (!rest || slot >= slots->n)
		return false;
	n = strlen(slots->path[slot]);
	len = strlen(rest);
	if (n + len >= size)
		return false;
	memmove(path + n, rest, len + 1);
	memcpy(path, slots->path[slot], n);
	return true;
}

static bool was_followed(int dir, size_t slot, const char *name)
{
	char path[TRAP_NAME_MAX];
	struct stat st;

	trap_name(path, slot, name);
	return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_atim.tv_sec != TRAP_ARMED_S;
}

void traps_read(int dir, const struct decoy_slots *slots,
	void (*touched)(void *arg, size_t slot, const char *name), void *arg)
{
	for (size_t i = 0; i < slots->n; i++) {
		bool tree = slots->mask[i] && slots->kind[i] == DECOY_DIR; /* has no symlink */

		if (slots->kind[i] == DECOY_STARTUP || (!tree && !was_followed(dir, i, NULL)))
			continue;
		for (const char *const *v = slots->names[i]; v && *v; v++)
			if (was_followed(dir, i, *v))
				touched(arg, i, *v);
		if (!tree)
			touched(arg, i, NULL);
	}
}
