/* SPDX-License-Identifier: Apache-2.0 */
/* The reviewer's context: see review_context.h. */
#include "review/review_context.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "ledger/chain/story.h"

/* Lines of each kind; all together about forty. */
#define TESTS_SHOWN 4u
#define DENIALS_SHOWN 12u
#define HOSTS_SHOWN 8u
#define DEGRADATIONS_SHOWN 4u
#define COMMANDS_SHOWN 8u
#define TEXT_SHOWN_MAX 100u

/* At most TEXT_SHOWN_MAX bytes of a text, printable, cut at a character. */
static void show_short(struct buf *out, const char *s)
{
	size_t n = strlen(s);

	if (n > TEXT_SHOWN_MAX) {
		n = TEXT_SHOWN_MAX;
		while (n > 0 && ((unsigned char)s[n] & 0xc0) == 0x80)
			n--;
		str_show(out, s, n);
		buf_adds(out, "…");
		return;
	}
	str_show(out, s, n);
}

static void show_command(struct buf *out, const struct story_command *c)
{
	cleanup_buf struct buf line = BUF_INIT(1u << 20);

	story_argv(c, &line);
	show_short(out, line.failed ? "(a very long command)" : buf_str(&line));
}

static void show_more(struct buf *out, size_t shown, size_t n)
{
	if (n > shown)
		buf_addf(out, "    … and %zu more\n", n - shown);
}

static void add_up(const struct story *s, struct deeds *d)
{
	*d = (struct deeds){.denials = s->denials_n};
	if (s->denials_lost < SIZE_MAX - d->denials)
		d->denials += (size_t)s->denials_lost;
	for (size_t i = 0; i < s->commands_n; i++) {
		const struct story_command *c = &s->commands[i];

		d->commands++;
		d->interrupted += c->interrupted;
		d->failed += !c->interrupted && !c->running && c->exit_code != 0;
		if (c->wall_us > 0)
			d->wall_us += (uint64_t)c->wall_us;
		if (c->test && !c->running) {
			d->tests++;
			d->tested = true;
			d->passed = c->passed;
		}
	}
}

/* The newest first: the last test is the one that counts. */
static void show_tests(const struct story *s, const struct deeds *d, struct buf *out)
{
	size_t shown = 0;

	if (!d->tests) {
		buf_adds(out, "  tests        none was run (croft exec --as test)\n");
		return;
	}
	for (size_t i = s->commands_n; i-- > 0 && shown < TESTS_SHOWN;) {
		const struct story_command *c = &s->commands[i];

		if (!c->test || c->running)
			continue;
		buf_addf(out, "  test         %s: ", c->passed ? "passed" : "FAILED");
		show_command(out, c);
		buf_addc(out, '\n');
		shown++;
	}
	show_more(out, shown, d->tests);
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && str_eq(a, b));
}

static bool same_denial(const struct story_denial *a, const struct story_denial *b)
{
	return same_text(a->operation, b->operation) && same_text(a->path, b->path) &&
	       same_text(a->host, b->host) && a->port == b->port;
}

/* Each once, however many commands met it. */
static void show_denials(const struct story *s, const struct deeds *d, struct buf *out)
{
	const struct story_denial *shown[DENIALS_SHOWN];
	size_t n = 0, told = 0;

	for (size_t i = 0; i < s->denials_n && n < DENIALS_SHOWN; i++) {
		const struct story_denial *x = &s->denials[i];
		long long times = 0;
		size_t k = 0;

		while (k < n && !same_denial(shown[k], x))
			k++;
		if (k < n)
			continue;
		shown[n++] = x;
		for (size_t m = i; m < s->denials_n; m++)
			if (same_denial(x, &s->denials[m])) {
				times += s->denials[m].count > 1 ? (long long)s->denials[m].count : 1;
				told++;
			}
		buf_adds(out, "  denied       ");
		show_short(out, x->operation ? x->operation : "?");
		buf_addc(out, ' ');
		show_short(out, x->path ? x->path : x->host ? x->host : "?");
		if (x->path ? 0 : x->port > 0)
			buf_addf(out, ":%lld", (long long)x->port);
		if (times > 1)
			buf_addf(out, " (%lld times)", times);
		buf_addc(out, '\n');
	}
	show_more(out, told, d->denials);
}

static void show_hosts(const struct story *s, struct buf *out)
{
	size_t shown = 0;

	for (; shown < s->hosts_n && shown < HOSTS_SHOWN; shown++) {
		const struct story_host *h = &s->hosts[shown];

		buf_adds(out, "  network      ");
		show_short(out, h->host ? h->host : "?");
		buf_addf(out, ":%lld, %lld connections, %lld bytes sent\n", (long long)h->port,
			(long long)h->connections, (long long)h->up_b);
	}
	show_more(out, shown, s->hosts_n);
}

/* Each sentence once, however many commands had it. */
static void show_degradations(const struct story *s, struct buf *out)
{
	cleanup_strlist struct strlist seen = STRLIST_INIT(256);

	for (size_t i = 0; i < s->commands_n; i++) {
		const struct jnode *list = s->commands[i].degradations;

		for (size_t k = 0; k < jlen(list); k++) {
			const char *text = jstr(jat(list, k));

			if (text && !strlist_has(&seen, text))
				strlist_add(&seen, text);
		}
	}
	for (size_t i = 0; i < seen.n && i < DEGRADATIONS_SHOWN; i++) {
		buf_adds(out, "  degraded     ");
		show_short(out, seen.v[i]);
		buf_addc(out, '\n');
	}
	show_more(out, DEGRADATIONS_SHOWN, seen.n);
}

/* Those that failed first, then the newest. */
static void show_commands(const struct story *s, struct buf *out)
{
	size_t shown = 0;

	for (int good = 0; good < 2; good++) {
		for (size_t i = s->commands_n; i-- > 0 && shown < COMMANDS_SHOWN;) {
			const struct story_command *c = &s->commands[i];
			bool failed = c->interrupted || c->exit_code != 0;

			if (failed == (good == 1))
				continue;
			if (c->running)
				buf_adds(out, "  command      still running: ");
			else if (c->interrupted)
				buf_adds(out, "  command      interrupted: ");
			else
				buf_addf(
					out, "  command      exit %lld: ", (long long)c->exit_code);
			show_command(out, c);
			buf_addc(out, '\n');
			shown++;
		}
	}
	show_more(out, shown, s->commands_n);
}

int review_context(struct env *v, struct deeds *ret, struct buf *out, struct err *e)
{
	cleanup_story struct story s = {0};
	int r = 0;

	*ret = (struct deeds){0};
	if (!v->tip_known)
		r = ledger_tip(&v->tip, &v->repo, v->id, e);
	if (r < 0)
		return r;
	v->tip_known = true;
	if (!v->tip.commit.n)
		return 0;
	r = story_read(&s, &v->repo, &v->tip.commit, 0, e);
	if (r < 0)
		return err_wrap(e, "read the ledger of %s", v->name);
	add_up(&s, ret);
	if (!out)
		return 0;
	show_tests(&s, ret, out);
	show_denials(&s, ret, out);
	show_hosts(&s, out);
	show_degradations(&s, out);
	show_commands(&s, out);
	return out->failed ? err_set(e, ENOMEM, "show what the environment did") : 0;
}
