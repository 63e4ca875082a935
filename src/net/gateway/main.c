/* SPDX-License-Identifier: Apache-2.0 */
/*
 * croft-gateway: started by croft with a control socket, as the gateway of one sandbox or as its
 * keeper of secrets.
 */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "net/gateway/confine.h"
#include "net/gateway/gateway.h"
#include "net/keeper/keeper.h"

#ifndef CROFT_GATEWAY_VERSION /* the build gives the project's */
#define CROFT_GATEWAY_VERSION "unknown"
#endif

#define EXIT_FAILED 125

static bool control_is_there(void)
{
	int type = 0;
	socklen_t len = sizeof(type);

	return getsockopt(GATEWAY_CONTROL_FD, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
	       type == SOCK_SEQPACKET;
}

static int usage(void)
{
	fprintf(stderr,
		"croft-gateway: croft starts this for a sandbox; it is of no use by itself.\n"
		"usage: croft-gateway [--keeper]   with a control socket as descriptor %d\n"
		"       croft-gateway --version\n",
		GATEWAY_CONTROL_FD);
	return EXIT_FAILED;
}

int main(int argc, char **argv)
{
	bool keeper = argc == 2 && str_eq(argv[1], "--keeper");
	struct err e = ERR_INIT;

	if (argc == 2 && str_eq(argv[1], "--version")) {
		puts("croft-gateway " CROFT_GATEWAY_VERSION);
		return 0;
	}
	prctl(PR_SET_NAME, "croft-gateway"); /* executed by descriptor, older kernels call it by its number */
	if ((argc != 1 && !keeper) || !control_is_there())
		return usage();
	if (keeper)
		return keeper_main();
	if (confine_early(GATEWAY_CONTROL_FD, &e) == 0 && gateway_run(GATEWAY_CONTROL_FD, &e) == 0)
		return 0;
	fprintf(stderr, "croft-gateway: %s\n", e.msg);
	return err_exit_code(&e);
}
