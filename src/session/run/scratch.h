/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A private directory on the host for tiers without mounts of their own: HOME and TMPDIR of the
 * command, removed afterwards. Directories left by a supervisor that was killed are swept by the
 * next one of the same user.
 */
#ifndef CROFT_SESSION_RUN_SCRATCH_H
#define CROFT_SESSION_RUN_SCRATCH_H

#include "base/err.h"

#define SCRATCH_PATH_MAX 512

struct scratch {
	int base_fd;
	char name[64];
	char path[SCRATCH_PATH_MAX];
	char home[SCRATCH_PATH_MAX + 8];
	char tmp[SCRATCH_PATH_MAX + 8];
};

#define SCRATCH_INIT ((struct scratch){.base_fd = -1})

int scratch_make(struct scratch *s, const char *id, struct err *e);
void scratch_remove(struct scratch *s);

#endif
