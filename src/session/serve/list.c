/* SPDX-License-Identifier: Apache-2.0 */
/* What a session says of itself and its processes: JSON, one object. */
#include <inttypes.h>
#include <unistd.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "os/clock.h"
#include "session/serve/session_impl.h"

static void time_json(struct json *j, const char *key, const struct timespec *t)
{
	char when[40];
	struct tm tm;

	gmtime_r(&t->tv_sec, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	json_str(j, key, when);
}

/* null: no limit. */
static void limit_json(struct json *j, const char *key, uint64_t v)
{
	if (v == UINT64_MAX)
		json_null(j, key);
	else
		json_uint(j, key, v);
}

/* Of its own: null where only the sandbox's holds. */
static void limits_json(const struct session_limits *l, struct json *j)
{
	const struct {
		const char *key;
		uint64_t v;
	} all[] = {{"memory_b", l->memory_b}, {"cpu_milli", l->cpu_milli}, {"pids", l->pids},
		{"open_files", l->open_files}, {"file_size_b", l->file_size_b}};

	json_object(j, "limits");
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		limit_json(j, all[i].key, all[i].v ? all[i].v : UINT64_MAX);
	json_end(j);
}

static void process_json(const struct process *p, struct json *j)
{
	const struct receipt *r = p->receipt; /* NULL: it is over */
	const struct process_was *was = &p->was;
	bool ended = p->state >= PROCESS_LEFT;
	uint64_t wall_us = !r ? was->wall_us : ended ? r->wall_us : clock_us() - p->t0_us;

	json_object(j, NULL);
	json_uint(j, "process", p->id);
	json_str(j, "run", r ? r->id : was->run);
	json_str(j, "state", process_state_name(p));
	time_json(j, "started", r ? &r->started : &was->started);
	json_list(j, "command", r ? &r->command : &was->command);
	json_str(j, "cwd", r ? r->cwd : was->cwd);
	json_str(j, "label", r ? r->label : was->label);
	json_bool(j, "terminal", p->tty);
	json_bool(j, "detached", p->detached);
	limits_json(&p->limits, j);
	if (ended)
		json_int(j, "exit", r ? r->exit_code : was->exit_code);
	else
		json_null(j, "exit");
	json_uint(j, "wall_ms", wall_us / 1000);
	json_uint(j, "output_b", p->log.end);
	json_uint(j, "output_kept_from_b", p->log.begin);
	json_end(j);
}

void list_processes(const struct session *s, struct buf *out)
{
	struct json j;

	json_init(&j, out, true);
	json_object(&j, NULL);
	json_str(&j, "schema", "croft.session/v1");
	json_str(&j, "name", s->o->name);
	json_str(&j, "session", s->receipt->id);
	json_int(&j, "pid", getpid());
	time_json(&j, "up_since", &s->receipt->started);
	json_str(&j, "tier", s->receipt->tier);
	json_str(&j, "policy", s->receipt->policy_digest.hex);
	json_str(&j, "state", s->stopping ? "going down" : s->paused ? "paused" : "up");
	json_str(&j, "pauses_by", pause_means(s));
	json_str(&j, "workspace", s->receipt->workspace);
	limit_json(&j, "linger_ms", s->o->linger_ms);
	limit_json(&j, "lifetime_ms", s->o->lifetime_ms);
	limit_json(&j, "pause_idle_ms", s->o->idle_ms);
	json_array(&j, "options");
	for (const char *const *w = s->o->words; w && *w; w++)
		json_str(&j, NULL, *w);
	json_end(&j);
	json_array(&j, "notes");
	for (size_t i = 0; s->o->notes && i < s->o->notes->n; i++)
		json_str(&j, NULL, s->o->notes->v[i]);
	json_end(&j);
	port_list(s, &j);
	json_array(&j, "processes");
	for (const struct process *p = s->processes; p; p = p->next)
		process_json(p, &j);
	json_end(&j);
	json_end(&j);
	buf_addc(out, '\n');
}
