/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of one command and of everything it starts, at most those of the sandbox.
 *
 * Held by: groups of the command's own (os/cgroup.h: cgroup_part()), which its process enters before its
 *          exec; rlimits for open files and file size, and for memory and processes where there is no
 *          group. What is held by weaker means is in the command's receipt; what cannot be held refuses the
 *          command, unless the session was allowed less.
 * Order:   limits_begin() before the command is recorded -> limits_fill() for its EXEC -> limits_started() ->
 *          limits_note() for its receipt -> limits_end(), when nothing of it is left.
 * Limits:  groups that the kernel still drains are removed a little later; what is left then goes with the
 *          sandbox's.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "session/serve/process_impl.h"

#define AGAIN_MS 50

static_assert(WIRE_GROUPS_MAX == CGROUP_DIRS_MAX, "a command can be told of all its groups");

/* The groups of one command. */
struct part {
	struct part *next; /* of those that are to be removed */
	struct cgroup cgroup;
};

static uint64_t or_none(uint64_t v)
{
	return v ? v : LIMIT_NONE;
}

static struct policy_limits limits_of(const struct session_limits *l)
{
	struct policy_limits own = policy_no_limits();

	own.memory_b = or_none(l->memory_b);
	own.cpu_milli = or_none(l->cpu_milli);
	own.pids = or_none(l->pids);
	own.open_files = or_none(l->open_files);
	own.file_size_b = or_none(l->file_size_b);
	return own;
}

/* What the receipt says of limits that are the command's own, and of the others as before. */
static void describe(struct receipt *r, const struct session_limits *own)
{
	if (own->memory_b)
		r->limits.memory_b = own->memory_b;
	if (own->cpu_milli)
		r->limits.cpu_milli = own->cpu_milli;
	if (own->pids)
		r->limits.pids = own->pids;
	if (own->open_files)
		r->limits.open_files = own->open_files;
	if (own->file_size_b)
		r->limits.file_size_b = own->file_size_b;
}

static void degrade(struct receipt *r, const char *what, const char *why)
{
	cleanup_buf struct buf b = BUF_INIT(1024);

	buf_addf(&b, "%s: %s", what, why);
	if (!strlist_has(&r->degradations, buf_str(&b))) /* it is so for the sandbox, too */
		receipt_degrade(r, "%s", buf_str(&b));
}

/* The groups, and what they cannot hold. */
static int make_part(struct process *p, const struct cgroup_limits *l, struct err *e)
{
	struct session *s = p->session;
	struct receipt *r = p->receipt;
	unsigned want = (l->memory_b != LIMIT_NONE ? CGROUP_HAS_MEMORY : 0u) |
			(l->cpu_milli != LIMIT_NONE ? CGROUP_HAS_CPU : 0u) |
			(l->pids != LIMIT_NONE ? CGROUP_HAS_PIDS : 0u);
	struct cgroup *c;

	if (!want)
		return 0;
	p->part = calloc(1, sizeof(*p->part));
	if (!p->part)
		return err_set(e, ENOMEM, "limit a command");
	c = &p->part->cgroup;
	if (cgroup_part(c, &s->boundary.cgroup, s->freezer.dir_fd, r->id, l, e) < 0)
		return -e->errnum;
	r->cgroup_has = (r->cgroup_has & ~want) | c->has;
	if (r->cgroup_kind == CGROUP_NONE)
		r->cgroup_kind = c->kind;
	if (want & ~c->has & CGROUP_HAS_CPU) {
		if (!s->o->q->allow_degraded)
			return err_refuse(e,
				"a CPU limit of one command needs a cgroup, which is not available here "
				"(%s); leave it out",
				c->why);
		degrade(r, "no CPU limit", c->why);
	}
	if (want & ~c->has & CGROUP_HAS_MEMORY)
		degrade(r, "memory is limited per process (RLIMIT_DATA), not in total", c->why);
	return 0;
}

int limits_begin(struct process *p, const struct session_limits *own, struct err *e)
{
	struct session *s = p->session;
	struct policy_limits l = limits_of(own);
	struct cgroup_limits c = {.memory_b = l.memory_b, .cpu_milli = l.cpu_milli, .pids = l.pids};

	p->limits = *own;
	if (policy_limits_fit(&l, &s->receipt->policy.limits, s->o->name, e) < 0)
		return -e->errnum;
	describe(p->receipt, own);
	return make_part(p, &c, e);
}

int limits_fill(const struct process *p, struct wire_process *spec, struct wire_msg *m, struct err *e)
{
	unsigned has = p->part ? p->part->cgroup.has : 0;
	int n = p->part ? cgroup_join_fds(&p->part->cgroup, m->fd + m->fd_n, e) : 0;

	if (n < 0)
		return n;
	m->fd_n += (unsigned)n;
	spec->groups = (uint32_t)n;
	spec->limits = (struct wire_limits){
		.memory_b = has & CGROUP_HAS_MEMORY ? 0 : p->limits.memory_b,
		.pids = has & CGROUP_HAS_PIDS ? 0 : p->limits.pids,
		.open_files = p->limits.open_files,
		.file_size_b = p->limits.file_size_b};
	if (p->session->o->q->allow_degraded)
		spec->flags |= WIRE_LESS;
	return 0;
}

void limits_started(struct process *p, const struct wire_msg *m)
{
	struct receipt *r = p->receipt;

	r->enforced.rlimit_memory = (m->rlimits & WIRE_RLIMIT_MEMORY) != 0;
	r->enforced.rlimit_pids = (m->rlimits & WIRE_RLIMIT_PIDS) != 0;
	r->enforced.nproc_others = m->others;
	if (p->part && p->limits.pids && !(p->part->cgroup.has & CGROUP_HAS_PIDS))
		boundary_note_pids(r, p->part->cgroup.why);
}

void limits_note(struct process *p)
{
	struct receipt *r = p->receipt;
	struct cgroup_usage u = {0};

	if (!p->part)
		return;
	cgroup_usage(&p->part->cgroup, &u);
	r->cpu_us = MAX_OF(r->cpu_us, u.cpu_us);
	if (u.memory_peak_b)
		r->peak_memory_b = u.memory_peak_b;
	if (u.hits.oom_kills && !strlist_has(&r->limits_hit, "memory"))
		strlist_add(&r->limits_hit, "memory");
	if (u.hits.pids_refused && !strlist_has(&r->limits_hit, "pids"))
		strlist_add(&r->limits_hit, "pids");
}

/* ---- the end ---- */

/* Those that could not be removed at once. */
static void again(void *arg)
{
	struct session *s = arg;
	struct part **at = &s->parts;

	while (*at) {
		struct part *part = *at;

		if (!cgroup_try_remove(&part->cgroup)) {
			at = &part->next;
			continue;
		}
		*at = part->next;
		free(part);
	}
	if (s->parts)
		loop_timer(s->loop, &s->parts_again, AGAIN_MS, again, s);
}

void limits_end(struct process *p)
{
	struct session *s = p->session;
	struct part *part = p->part;

	p->part = NULL;
	if (!part)
		return;
	if (cgroup_try_remove(&part->cgroup)) {
		free(part);
		return;
	}
	part->next = s->parts;
	s->parts = part;
	if (!s->parts_again.slot)
		loop_timer(s->loop, &s->parts_again, AGAIN_MS, again, s);
}

void limits_done(struct session *s)
{
	loop_cancel(&s->parts_again);
	while (s->parts) {
		struct part *part = s->parts;

		s->parts = part->next;
		cgroup_remove(&part->cgroup);
		free(part);
	}
}
