/* SPDX-License-Identifier: Apache-2.0 */
/* Generations: see generation.h. The gateway's list holds one reference to each. */
#include "net/gateway/generation.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "net/gateway/flow.h"
#include "net/reach/resolver.h"

struct generation *generation_hold(struct generation *g)
{
	g->refs++;
	return g;
}

void generation_drop(struct generation *g)
{
	if (!g || --g->refs > 0)
		return;
	policy_network_free(g->policy);
	free(g);
}

static int read_text(struct buf *b, int fd, struct err *e)
{
	char chunk[4096];
	ssize_t n;

	while ((n = pread(fd, chunk, sizeof(chunk), (off_t)b->len)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(e, errno, "read the network policy");
		buf_add(b, chunk, (size_t)n);
		if (b->failed)
			return err_invalid(e, "the network policy is longer than %u bytes",
				GENERATION_TEXT_MAX_B);
	}
	return 0;
}

int generation_load(struct generation **ret, int fd, uint32_t number, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(GENERATION_TEXT_MAX_B);
	struct generation *g;
	int r = read_text(&b, fd, e);

	if (r < 0)
		return r;
	g = calloc(1, sizeof(*g));
	if (!g)
		return err_set(e, ENOMEM, "read the network policy");
	r = policy_network_parse(&g->policy, buf_str(&b), b.len, e);
	if (r < 0) {
		free(g);
		return r;
	}
	g->number = number;
	g->refs = 1;
	*ret = g;
	return 0;
}

void generation_sweep(struct gateway *g)
{
	struct generation *last = g->gen, *old;
	uint32_t needed;

	if (!last || !last->older)
		return;
	needed = last->number;
	for (const struct flow *f = g->flows; f; f = f->next)
		needed = MIN_OF(needed, f->born);
	while (last->older && last->older->number >= needed)
		last = last->older;
	old = take_ptr(last->older);
	while (old) {
		struct generation *older = old->older;

		generation_drop(old);
		old = older;
	}
}

void generation_begin(struct gateway *g, struct generation *gen)
{
	gen->older = g->gen;
	g->gen = gen;
	receivers_add(&g->receivers, gen->policy);
	resolver_policy(g->resolver, gen->policy);
	flow_judge_again(g);
	for (struct flow *f = g->flows; f;) {
		size_t n = g->flows_n;

		if (gen->number - f->born > GENERATIONS_MAX)
			flow_abort(f, "the policy changed too often while it was open");
		f = g->flows_n == n ? f->next : g->flows;
	}
	generation_sweep(g);
}

void generation_end(struct gateway *g)
{
	struct generation *gen = take_ptr(g->gen);

	while (gen) {
		struct generation *older = gen->older;

		generation_drop(gen);
		gen = older;
	}
}
