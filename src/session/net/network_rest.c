/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gateway that has nothing to do goes, and the next packet starts another: the supervisor's side.
 *
 * Order:   REST comes after the gateway has stopped listening and left its state. If we have sent nothing
 *          that it has not heard, it and its keeper are killed, and we listen again on the sockets that we
 *          kept: what waits in their queues was lost by nobody. Else REST is void, and it goes on.
 * Trust:   the state is bytes in a memory file of fixed size that only gateways look at. What a gateway can
 *          do with REST is to be replaced by another one that is told the same.
 * Failure: a gateway that ends in any other way is lost, as ever. One that cannot be started again, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/clock.h"
#include "session/net/network_impl.h"

#define REST_MS 30000u
#define REST_MS_MIN 100u
#define REST_MS_MAX (24u * 3600 * 1000)
#define CLOCK_SLACK_MS 50u

/*
 * Test seam: CROFT_GATEWAY_REST_MS. Sooner or later, the gateway after it is told the same and decides the
 * same.
 */
uint64_t network_rest_ms(void)
{
	const char *text = getenv("CROFT_GATEWAY_REST_MS");
	uint64_t ms;

	return text && str_u64(text, REST_MS_MAX, &ms) && ms >= REST_MS_MIN ? ms : REST_MS;
}

/* Of fixed size, so that whoever writes to it can take that much memory and no more. */
int network_rest_state(struct err *e)
{
	cleanup_fd int fd = memfd_create("gateway-state", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, GATEWAY_STATE_MAX_B) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		return err_set(e, errno, "make a memory file for the gateway");
	return take_fd(&fd);
}

void network_rest(struct network *n, const struct gateway_msg *m)
{
	if (n->ending || m->id != n->said)
		return;
	if (clock_ms() + CLOCK_SLACK_MS < n->started_ms + n->rest_ms) {
		network_lose(n, "it wanted to rest before its time");
		return;
	}
	network_hear_keeper(n);
	if (n->state != NETWORK_SERVED)
		return;
	network_end_gateway(n);
	n->state = NETWORK_RESTS;
	/* The next one counts from nothing. */
	for (size_t i = 0; i < n->denials_n; i++)
		n->denials[i].before = n->denials[i].count;
}
