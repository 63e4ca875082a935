/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decoy list. Secrets refuse and tell; start-up files read as empty and refuse to be written, so
 * that a shell inside starts quietly and an attempt to persist in it is told.
 */
#include "engine/decoys.h"

#include "base/cleanup.h"

const struct decoy_path decoy_paths[] = {
	{"~/.ssh", DECOY_DIR},
	{"~/.gnupg", DECOY_DIR},
	{"~/.aws", DECOY_DIR},
	{"~/.azure", DECOY_DIR},
	{"~/.kube", DECOY_DIR},
	{"~/.docker", DECOY_DIR},
	{"~/.config/gcloud", DECOY_DIR},
	{"~/.config/gh", DECOY_DIR},
	{"~/.config/op", DECOY_DIR},
	{"~/.password-store", DECOY_DIR},
	{"~/.local/share/keyrings", DECOY_DIR},
	{"~/.mozilla", DECOY_DIR},
	{"~/.config/google-chrome", DECOY_DIR},
	{"~/.config/chromium", DECOY_DIR},
	{"~/.config/systemd", DECOY_DIR},
	{"~/.config/autostart", DECOY_DIR},
	{"~/.netrc", DECOY_SECRET},
	{"~/.git-credentials", DECOY_SECRET},
	{"~/.pypirc", DECOY_SECRET},
	{"~/.pgpass", DECOY_SECRET},
	{"~/.vault-token", DECOY_SECRET},
	{"~/.bash_history", DECOY_SECRET},
	{"~/.bashrc", DECOY_STARTUP},
	{"~/.bash_profile", DECOY_STARTUP},
	{"~/.profile", DECOY_STARTUP},
	{"~/.zshrc", DECOY_STARTUP},
	{"~/.zshenv", DECOY_STARTUP},
	{"~/.zprofile", DECOY_STARTUP},
	{"~/.npmrc", DECOY_STARTUP},
	{"~/.gitconfig", DECOY_STARTUP},
	{"/etc/shadow", DECOY_SECRET},
	{"/etc/sudoers", DECOY_SECRET},
	{"/var/run/docker.sock", DECOY_SECRET},
};
const size_t decoy_paths_n = ARRAY_SIZE(decoy_paths);
_Static_assert(ARRAY_SIZE(decoy_paths) <= DECOYS_MAX, "every decoy has a slot");

void decoy_slots(struct decoy_slots *ret, const struct plan *p)
{
	ret->n = 0;
	for (size_t i = 0; i < p->n && ret->n < DECOYS_MAX; i++) {
		if (p->ops[i].kind != PLAN_DECOY)
			continue;
		ret->path[ret->n] = p->ops[i].dst;
		ret->kind[ret->n] = (enum decoy_kind)p->ops[i].mode;
		ret->n++;
	}
}
