/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcroft: what is up, and what runs in it. A session answers in JSON (session/serve/list.c), which is what
 * programs of other languages get; here it becomes structs, and from those the report for people is made.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/sandbox_impl.h"
#include "base/cleanup.h"
#include "base/jsonread.h"
#include "session/join/join.h"

#define SESSIONS_MAX 65536
#define WORDS_SHOWN 32
#define WORD_SHOWN_B 200

struct sessions {
	struct croft_sessions list; /* first: it is what the caller has */
	struct croft_session_info *v;
	struct jdoc **docs; /* whose strings v refers to */
	char **texts;
	size_t n;
};

static long long number(const struct jnode *n, const char *key)
{
	int64_t v = 0;

	jint(jget(n, key), &v);
	return v;
}

static const char *text(const struct jnode *n, const char *key)
{
	const char *s = jstr(jget(n, key));

	return s ? s : "";
}

static long long when(const struct jnode *n, const char *key)
{
	struct tm tm = {0};

	return strptime(text(n, key), "%Y-%m-%dT%H:%M:%SZ", &tm) ? timegm(&tm) : 0;
}

/* The word's place in names; the last one when it is none of them. */
static unsigned state_of(const char *word, const char *const *names, unsigned n)
{
	unsigned i = 0;

	while (i + 1 < n && !str_eq(word, names[i]))
		i++;
	return i;
}

/* The strings of a list, ended by NULL: freed by the caller; they are the document's. */
static const char **words_of(const struct jnode *list)
{
	const char **v = calloc(jlen(list) + 1, sizeof(*v));

	for (size_t i = 0; v && i < jlen(list); i++)
		v[i] = jstr(jat(list, i)) ? jstr(jat(list, i)) : "";
	return v;
}

static struct croft_limits limits_of(const struct jnode *n)
{
	return (struct croft_limits){
		.memory_b = (unsigned long long)number(n, "memory_b"),
		.cpu_milli = (unsigned long long)number(n, "cpu_milli"),
		.pids = (unsigned long long)number(n, "pids"),
		.open_files = (unsigned long long)number(n, "open_files"),
		.file_size_b = (unsigned long long)number(n, "file_size_b")};
}

static int fill_process(struct croft_process_info *p, const struct jnode *n)
{
	static const char *const states[] = {"running", "ending", "left processes", "ended"};
	const char **argv = words_of(jget(n, "command"));

	if (!argv)
		return -ENOMEM;
	*p = (struct croft_process_info){.process = (unsigned)number(n, "process"),
		.run = text(n, "run"),
		.state = (enum croft_process_state)state_of(text(n, "state"), states, 4),
		.exit = (int)number(n, "exit"),
		.started_s = when(n, "started"),
		.wall_ms = (unsigned long long)number(n, "wall_ms"),
		.argv = argv,
		.cwd = text(n, "cwd"),
		.label = text(n, "label"),
		.terminal = jtrue(jget(n, "terminal")),
		.detached = jtrue(jget(n, "detached")),
		.limits = limits_of(jget(n, "limits")),
		.output_b = (unsigned long long)number(n, "output_b"),
		.output_from_b = (unsigned long long)number(n, "output_kept_from_b")};
	return 0;
}

static int fill(struct croft_session_info *s, const struct jnode *root)
{
	static const char *const states[] = {"up", "paused", "going down"};
	const struct jnode *ports = jget(root, "ports"), *list = jget(root, "processes");
	struct croft_port *port = calloc(jlen(ports) + 1, sizeof(*port));
	struct croft_process_info *p = calloc(jlen(list) + 1, sizeof(*p));
	const char **options = words_of(jget(root, "options")), **notes = words_of(jget(root, "notes"));
	int r = port && p && options && notes ? 0 : -ENOMEM;

	*s = (struct croft_session_info){.name = text(root, "name"),
		.id = text(root, "session"),
		.tier = text(root, "tier"),
		.policy_digest = text(root, "policy"),
		.workspace = text(root, "workspace"),
		.options = options,
		.notes = notes,
		.state = (enum croft_session_state)state_of(text(root, "state"), states, 3),
		.pid = (int)number(root, "pid"),
		.up_since_s = when(root, "up_since"),
		.linger_ms = (unsigned long long)number(root, "linger_ms"),
		.lifetime_ms = (unsigned long long)number(root, "lifetime_ms"),
		.idle_ms = (unsigned long long)number(root, "pause_idle_ms"),
		.ports = port,
		.processes = p};
	for (size_t i = 0; r == 0 && i < jlen(ports); i++)
		port[s->ports_n++] =
			(struct croft_port){.host = (unsigned)number(jat(ports, i), "host"),
				.inside = (unsigned)number(jat(ports, i), "inside")};
	for (size_t i = 0; r == 0 && i < jlen(list); i++, s->processes_n++)
		r = fill_process(&p[i], jat(list, i));
	return r;
}

/* One more, from what its session says; text becomes the list's. */
static int add(struct sessions *l, char *json, struct err *e)
{
	void *v;

	if ((v = reallocarray(l->v, l->n + 1, sizeof(*l->v))))
		l->v = v;
	if (v && (v = reallocarray(l->docs, l->n + 1, sizeof(*l->docs))))
		l->docs = v;
	if (v && (v = reallocarray(l->texts, l->n + 1, sizeof(*l->texts))))
		l->texts = v;
	if (!v) {
		free(json);
		return err_set(e, ENOMEM, "list sessions");
	}
	l->texts[l->n] = json;
	l->docs[l->n] = NULL;
	l->v[l->n] = (struct croft_session_info){0};
	l->n++;
	if (jdoc_parse(&l->docs[l->n - 1], json, strlen(json), e) < 0)
		return -e->errnum;
	return fill(&l->v[l->n - 1], jdoc_root(l->docs[l->n - 1])) < 0
		       ? err_set(e, ENOMEM, "list sessions")
		       : 0;
}

/* 1: added; 0: it is not up. */
static int add_named(struct croft *c, struct sessions *l, const char *name)
{
	char *json = NULL;
	int r = api_ask(c, name, SESSION_LIST, 0, NULL, JOIN_ANSWER_MS, &json);

	if (r < 0)
		return r;
	if (!json)
		return err_set(&c->err, EPROTO, "understand the session");
	return add(l, json, &c->err);
}

static int up_names(struct croft *c, struct strlist *ret)
{
	cleanup_strlist struct strlist names = STRLIST_INIT(SESSIONS_MAX);

	c->err = ERR_INIT;
	if (env_names(&names, &c->err) < 0)
		return -c->err.errnum;
	for (size_t i = 0; i < names.n; i++) {
		cleanup_env struct env v;
		struct err ignored = ERR_INIT;

		env_init(&v);
		if (env_open_record(&v, names.v[i], &ignored) == 0 && join_up(v.dir_fd))
			strlist_add(ret, names.v[i]);
	}
	return 0;
}

int croft_sessions(struct croft *c, const char *name, struct croft_sessions **ret)
{
	cleanup_strlist struct strlist names = STRLIST_INIT(SESSIONS_MAX);
	struct sessions *l = calloc(1, sizeof(*l));
	int r = 0;

	if (!l)
		return err_set(&c->err, ENOMEM, "list sessions");
	if (name)
		r = add_named(c, l, name);
	else if ((r = up_names(c, &names)) == 0)
		for (size_t i = 0; i < names.n; i++) {
			r = add_named(c, l, names.v[i]);
			if (err_reason(&c->err) == ERR_WHY_NO_MEMORY)
				break;
			r = 0; /* it went meanwhile, or is another version's */
		}
	if (r < 0) {
		croft_sessions_free(&l->list);
		return r;
	}
	c->err = ERR_INIT;
	l->list = (struct croft_sessions){.v = l->v, .n = l->n};
	*ret = &l->list;
	return 0;
}

void croft_sessions_free(struct croft_sessions *s)
{
	struct sessions *l = (struct sessions *)s;

	if (!l)
		return;
	for (size_t i = 0; i < l->n; i++) {
		for (size_t k = 0; k < l->v[i].processes_n; k++)
			free((void *)(uintptr_t)l->v[i].processes[k].argv);
		free((void *)(uintptr_t)l->v[i].processes);
		free((void *)(uintptr_t)l->v[i].options);
		free((void *)(uintptr_t)l->v[i].notes);
		free((void *)(uintptr_t)l->v[i].ports);
		jdoc_free(l->docs[i]);
		free(l->texts[i]);
	}
	free(l->v);
	free(l->docs);
	free(l->texts);
	free(l);
}

/* ---- as reports ---- */

/* "[memory 256M, pids 20]": as the options of croft exec have them. */
static void show_limits(const struct croft_limits *l, struct buf *out)
{
	const struct {
		const char *key;
		uint64_t v;
	} all[] = {{"memory", l->memory_b}, {"cpus", l->cpu_milli}, {"pids", l->pids},
		{"open_files", l->open_files}, {"file_size", l->file_size_b}};
	unsigned n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		if (!all[i].v)
			continue;
		buf_addf(out, "%s%s ", n++ ? ", " : " [", all[i].key);
		policy_limit_show(out, all[i].key, all[i].v);
	}
	if (n)
		buf_addc(out, ']');
}

static void show_process(const struct croft_process_info *p, struct buf *out)
{
	static const char *const states[] = {"running", "ending", "left processes", "ended"};
	char state[32];

	snprintf(state, sizeof(state), "%s", states[p->state]);
	if (p->state == CROFT_PROCESS_OVER)
		snprintf(state, sizeof(state), "exit %d", p->exit);
	buf_addf(out, "  %5u  %-14s %7.1f s ", p->process, state, (double)p->wall_ms / 1000);
	if (p->label[0]) {
		buf_adds(out, " [");
		str_show(out, p->label, MIN_OF(strlen(p->label), (size_t)WORD_SHOWN_B));
		buf_addc(out, ']');
	}
	show_limits(&p->limits, out);
	for (size_t k = 0; p->argv[k] && k < WORDS_SHOWN; k++) {
		buf_addc(out, ' ');
		str_show(out, p->argv[k], MIN_OF(strlen(p->argv[k]), (size_t)WORD_SHOWN_B));
	}
	buf_addc(out, '\n');
}

static void show(const struct croft_session_info *s, struct buf *out)
{
	static const char *const now[] = {"", ", paused", ", going down"};
	time_t t = (time_t)s->up_since_s;
	char since[40];
	struct tm tm;

	gmtime_r(&t, &tm);
	strftime(since, sizeof(since), "%Y-%m-%dT%H:%M:%SZ", &tm);
	buf_addf(out, "%s  up since %s%s, %s tier, process %d\n", s->name, since, now[s->state],
		s->tier, s->pid);
	for (size_t i = 0; i < s->ports_n; i++)
		buf_addf(out, "  port    127.0.0.1:%u -> %u\n", s->ports[i].host, s->ports[i].inside);
	if (s->processes_n)
		buf_addf(out, "  %5s  %-14s %9s  %s\n", "ID", "STATE", "TIME", "COMMAND");
	for (size_t i = s->processes_n; i-- > 0;)
		show_process(&s->processes[i], out);
}

int croft_session_list(struct croft *c, const char *name, enum croft_format f, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(SESSION_BODY_MAX);
	struct croft_sessions *s = NULL;
	const struct sessions *l;
	int r = croft_sessions(c, name, &s);

	if (r < 0)
		return r;
	l = (const struct sessions *)s;
	if (f == CROFT_JSON && !name)
		buf_addc(&b, '[');
	for (size_t i = 0; i < s->n; i++) {
		if (f == CROFT_TEXT)
			show(&s->v[i], &b);
		else
			buf_addf(&b, "%s%s", i ? "," : "", l->texts[i]);
	}
	if (f == CROFT_JSON && !name)
		buf_adds(&b, "]\n");
	else if (!s->n)
		buf_adds(&b, "nothing is up; croft up NAME starts a session\n");
	croft_sessions_free(s);
	return api_give(c, 0, &b, ret);
}
