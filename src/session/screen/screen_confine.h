/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What croft-screen gives up before it reads the first byte.
 *
 * Order:   screen_confine_early() first: inherited descriptors, parent-death signal, limits; then
 *          screen_confine_files(), then screen_confine_calls(), which would refuse the others.
 * After:   it reads and writes its socket, asks for memory that cannot be executed, and ends.
 *          Anything else ends it.
 * Failure: a step that fails ends the program. Only Landlock may be missing: the filter knows no
 *          call that opens a file.
 */
#ifndef CROFT_SESSION_SCREEN_SCREEN_CONFINE_H
#define CROFT_SESSION_SCREEN_SCREEN_CONFINE_H

#include "base/err.h"

#define SCREEN_MEMORY_MAX_B (128u << 20) /* two screens of the largest size, twice while resized */

int screen_confine_early(int keep_fd, struct err *e);
int screen_confine_files(struct err *e);
int screen_confine_calls(int fd, struct err *e);

#endif
