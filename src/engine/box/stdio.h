/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptors that a command is given from outside: its standard input, output and error.
 *
 * A descriptor carries the mount that it was opened through. Behind a private root that is a mount
 * of the host's, on which mode, owner, times and attributes of the file could be changed whatever
 * the root looks like.
 *
 *   pipe without a name, socket      as it is: the object has no place in any file system
 *   null, zero, full, random devices opened anew in the private root, whose nodes are read-only
 *   croft's pty                      opened anew through the read-only mount at /dev/console
 *   file, named pipe, other device   as it is, so that position, appending and state stay shared
 *                                    with who gave it; the broker refuses changes of its metadata
 */
#ifndef CROFT_ENGINE_BOX_STDIO_H
#define CROFT_ENGINE_BOX_STDIO_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define STDIO_OUTSIDE_MAX 4 /* three, and a terminal that none of them is */

/* An object of the host's that the command can reach by descriptor. */
struct outside {
	uint64_t mount;
	dev_t dev;
	ino_t ino;
};

struct init;

/*
 * After set-up, before lock-down: replace what can be replaced, and list the rest in in->outside.
 * Without a private root nothing is replaced.
 */
int stdio_settle(struct init *in, struct err *e);

#endif
