/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an agent file. What is accepted is within its bounds; what is refused says where. */
#include <stdint.h>
#include <string.h>

#include "agent/agent.h"
#include "base/cleanup.h"
#include "must.h"

static void check_lines(const struct strlist *l)
{
	MUST(l->n <= AGENT_LIST_MAX);
	for (size_t i = 0; i < l->n; i++)
		for (const char *p = l->v[i]; *p; p++)
			MUST((unsigned char)*p >= ' ' && *p != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e = ERR_INIT;
	struct agent a;

	if (agent_parse(&a, "a", NULL, (const char *)data, size, &e) < 0) {
		MUST(e.kind != ERR_NONE && str_starts(e.msg, "a:"));
		return 0;
	}
	MUST(agent_name_valid(a.name) && a.programs.n > 0 && a.keys_n <= AGENT_KEYS_MAX);
	check_lines(&a.programs);
	check_lines(&a.hosts);
	check_lines(&a.set);
	check_lines(&a.view);
	check_lines(&a.arguments);
	for (size_t i = 0; i < a.programs.n; i++)
		MUST(!strchr(a.programs.v[i], '/'));
	for (size_t i = 0; i < a.view.n; i++)
		MUST(a.view.v[i][0] == '/' || str_starts(a.view.v[i], "~/"));
	for (size_t i = 0; i < a.set.n; i++)
		MUST(strchr(a.set.v[i], '='));
	for (size_t i = 0; i < a.keys_n; i++)
		MUST(a.keys[i].name && a.keys[i].host && (a.keys[i].place || !a.keys[i].field));
	agent_done(&a);
	return 0;
}
