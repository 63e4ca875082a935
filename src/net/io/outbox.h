/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to the supervisor, in order, which may be slower than the gateway. OUTBOX_MAX wait at
 * most.
 */
#ifndef CROFT_NET_IO_OUTBOX_H
#define CROFT_NET_IO_OUTBOX_H

#include <stdbool.h>

#include "ipc/gateway_message.h"

#define OUTBOX_MAX 1024

struct outbox;
struct outbox *outbox_new(void);
void outbox_free(struct outbox *o);
bool outbox_empty(const struct outbox *o);
/* Send or keep; false when it could be neither. */
bool outbox_put(struct outbox *o, int sock, struct gateway_msg *m);
void outbox_flush(struct outbox *o, int sock);

#endif
