/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a policy file. Beyond not crashing: what is accepted resolves to a policy that keeps
 * the floor, that says the same again when its shown form is read back, and, from an untrusted
 * project, that gives nothing the user did not have.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "must.h"
#include "policy/policy_impl.h"

static const struct policy_context ctx = {.home = "/home/u", .workspace = "/home/u/w"};

static const char *const fixed[] = {"/etc/croft", "/etc/croft/policy.yaml",
	"/home/u/.config/croft/policy.yaml", "/home/u/.local/state/croft/trust/x",
	"/run/docker.sock", "/run/user/1000/bus", "/run/dbus/x"};

static void check_floor(const struct policy *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(fixed); i++)
		MUST(policy_access(p, fixed[i], NULL) == ACCESS_DENY);
	MUST(policy_access(p, "/home/u/w/croft.yaml", NULL) <= ACCESS_READ);
	for (size_t i = 0; i < p->rules_n; i++) {
		const struct policy_rule *r = &p->rules[i];

		MUST(r->path[0] == '/' && r->origin.file);
		MUST(i == 0 || strcmp(p->rules[i - 1].path, r->path) <= 0);
		if (r->glob)
			MUST(policy_access(p, r->path, NULL) <= ACCESS_WRITE);
		else
			MUST(policy_access(p, r->path, NULL) == r->access);
	}
}

static void check_forms(const struct policy *p)
{
	cleanup_buf struct buf text = BUF_INIT(64u << 20);
	cleanup_buf struct buf other = BUF_INIT(64u << 20);
	cleanup_policy struct policy again = {0};
	cleanup_policy_layer struct policy_layer *l = NULL;
	struct err e = ERR_INIT;
	struct digest d;

	policy_canonical(p, &text);
	MUST(!text.failed);
	digest_sha256(&d, text.data, text.len);
	MUST(memcmp(&d, &p->digest, sizeof(d)) == 0);
	policy_json(p, &other);
	policy_explain(p, "/home/u/w/x", &other);
	policy_explain_host(p, "a.test:443", &other);
	MUST(!other.failed && utf8_valid(other.data, other.len));
	buf_reset(&text);
	policy_show(p, &text);
	if (p->rules_n > 4000 || p->env_pass.n > 2000)
		return;
	MUST(policy_layer_parse(&l, LAYER_USER, "shown", text.data, text.len, &ctx, &e) == 0);
	MUST(policy_resolve(&again, &l, 1, false, &ctx, &e) == 0);
	MUST(memcmp(&again.digest, &p->digest, sizeof(again.digest)) == 0);
}

static void check_project(const struct policy *p, const struct policy *base)
{
	for (size_t i = 0; i < p->rules_n; i++)
		if (!p->rules[i].glob)
			MUST(policy_access(p, p->rules[i].path, NULL) <=
				policy_access(base, p->rules[i].path, NULL));
	for (size_t i = 0; i < base->rules_n; i++)
		MUST(policy_access(p, base->rules[i].path, NULL) <=
			policy_access(base, base->rules[i].path, NULL));
	MUST(p->threat >= base->threat && p->observe >= base->observe);
	MUST(p->limits.memory_b <= base->limits.memory_b && p->limits.pids <= base->limits.pids);
	MUST(p->devices.n == 0 && !net_wanted(p->net) && p->net->secrets_n == 0);
	MUST(!policy_env_passes(p, "AWS_SECRET_ACCESS_KEY"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum policy_layer_kind kinds[] = {LAYER_USER, LAYER_SYSTEM, LAYER_PROJECT};
	cleanup_policy struct policy base = {0};
	struct err e = ERR_INIT;

	MUST(policy_resolve(&base, NULL, 0, false, &ctx, &e) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		cleanup_policy_layer struct policy_layer *l = NULL;
		cleanup_policy struct policy p = {0};

		e = ERR_INIT;
		if (policy_layer_parse(
			    &l, kinds[i], "fuzz.yaml", (const char *)data, size, &ctx, &e) < 0) {
			MUST(e.kind != ERR_NONE && e.msg[0]);
			MUST(strstr(e.msg, "fuzz.yaml"));
			return 0;
		}
		if (policy_resolve(&p, &l, 1, false, &ctx, &e) < 0) {
			MUST(e.kind != ERR_NONE && e.msg[0]);
			continue;
		}
		check_floor(&p);
		if (kinds[i] == LAYER_USER)
			check_forms(&p);
		if (kinds[i] == LAYER_PROJECT)
			check_project(&p, &base);
	}
	return 0;
}
