/* SPDX-License-Identifier: Apache-2.0 */
/* libcroft: coding agents. What is known of one becomes options of a policy, and a command. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "api/api_impl.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "session/config/layers.h"
#include "session/config/state.h"
#include "session/run/views.h"

#define REPORT_MAX (1u << 20)

struct croft_agent {
	struct agent agent;
	struct agent_use use;
	struct croft_policy_options options;
	const char *const *argv;
	char *home, *workspace;
	bool in_place; /* nothing can be staged here */
	char *told;
};

void croft_agent_free(struct croft_agent *a)
{
	if (!a)
		return;
	agent_done(&a->agent);
	agent_use_done(&a->use);
	free((void *)(uintptr_t)a->argv);
	free(a->home);
	free(a->workspace);
	free(a->told);
	free(a);
}

static int fill(struct croft_agent *a, const struct croft_policy_options *given, struct err *e)
{
	struct croft_policy_options *o = &a->options;
	const char **argv = calloc(a->use.argv.n + 1, sizeof(*argv));

	if (!argv)
		return err_set(e, ENOMEM, "prepare the agent");
	for (size_t i = 0; i < a->use.argv.n; i++)
		argv[i] = a->use.argv.v[i];
	a->argv = argv;
	*o = *given;
	o->added = buf_str(&a->use.policy);
	o->added_name = a->use.name;
	return 0;
}

int croft_agent_prepare(struct croft *c, const char *name, const struct croft_policy_options *given,
	struct croft_agent **ret)
{
	cleanup_layers_info struct layers_info info = {0};
	struct croft_policy_options plain = *given;
	struct croft_policy *p = NULL;
	struct croft_agent *a = calloc(1, sizeof(*a));
	int r;

	c->err = ERR_INIT;
	if (!a)
		return err_set(&c->err, ENOMEM, "prepare the agent");
	agent_init(&a->agent);
	agent_use_init(&a->use);
	plain.secrets = NULL; /* their hosts may be the agent's */
	r = layers_locate(&info, given->directory, &c->err);
	if (r == 0)
		r = agent_find(&a->agent, info.config, name, &c->err);
	if (r == 0)
		r = croft_policy_load(c, &plain, &p);
	if (r == 0)
		r = agent_use(&a->use, &a->agent, &p->policy, p->home, p->workspace,
			given->secrets, &c->err);
	if (r == 0) {
		a->home = strdup(p->home);
		a->workspace = strdup(p->workspace);
		a->in_place = api_cannot_stage(p);
		r = a->home && a->workspace
			    ? fill(a, given, &c->err)
			    : err_set(&c->err, ENOMEM, "prepare the agent");
	}
	croft_policy_free(p);
	if (r < 0) {
		croft_agent_free(a);
		return r;
	}
	*ret = a;
	return 0;
}

const struct croft_policy_options *croft_agent_options(const struct croft_agent *a)
{
	return &a->options;
}

const char *const *croft_agent_argv(const struct croft_agent *a)
{
	return a->argv;
}

const char *croft_agent_name(const struct croft_agent *a)
{
	return a->agent.name;
}

static void words(struct buf *out, const struct strlist *l)
{
	for (size_t i = 0; i < l->n; i++)
		buf_addf(out, "%s%s", i ? ", " : "", l->v[i]);
}

/* Is this the first time for this agent in this project? A mark in croft's state says so from then on. */
static bool first_time(const struct croft_agent *a)
{
	struct err ignored = ERR_INIT;
	cleanup_fd int dir = state_project(a->home, a->workspace, &ignored);
	cleanup_fd int mark = -1;
	char name[AGENT_NAME_MAX + 8];

	snprintf(name, sizeof(name), "%s.told", a->agent.name);
	mark = dir < 0 ? -1
		       : openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return mark >= 0;
}

const char *croft_agent_told(struct croft_agent *a, bool direct)
{
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX);
	const char *title = a->agent.title ? a->agent.title : a->agent.name;

	if (!first_time(a))
		return "";
	buf_addf(&b, "%s sees ", title);
	str_show(&b, a->workspace, strlen(a->workspace));
	buf_adds(&b, " and the programs of this machine; of your home directory ");
	if (a->use.seen.n) {
		buf_adds(&b, "a private copy of ");
		words(&b, &a->use.seen);
		buf_addc(&b, '\n');
	} else {
		buf_adds(&b, "only what it consists of\n");
	}
	buf_addf(&b, "%s reaches ", title);
	words(&b, &a->agent.hosts);
	if (a->use.keyed.n) {
		buf_adds(&b, "; ");
		words(&b, &a->use.keyed);
		buf_adds(&b, " is put into its requests on the way and never shown to it");
	}
	buf_addf(&b, "\n%s changes ", title);
	buf_adds(&b, direct || a->in_place ? "the files of this project in place, and nothing else\n"
			    : "a staged copy of this project: nothing lands before you have seen it\n");
	free(a->told);
	a->told = buf_take(&b);
	return a->told ? a->told : "";
}

/* ---- reports ---- */

static void show_json(const struct agent *a, struct json *j)
{
	json_object(j, NULL);
	json_str(j, "name", a->name);
	json_str(j, "title", a->title);
	json_bool(j, "verified", !a->unverified);
	json_str(j, "file", a->file);
	json_list(j, "programs", &a->programs);
	json_list(j, "look", &a->look);
	json_list(j, "read", &a->read);
	json_list(j, "hosts", &a->hosts);
	json_list(j, "websockets", &a->websockets);
	json_list(j, "telemetry", &a->telemetry);
	json_list(j, "view", &a->view);
	json_array(j, "keys");
	for (size_t i = 0; i < a->keys_n; i++) {
		json_object(j, NULL);
		json_str(j, "name", a->keys[i].name);
		json_str(j, "host", a->keys[i].host);
		json_str(j, "place", a->keys[i].place);
		json_str(j, "field", a->keys[i].field);
		json_end(j);
	}
	json_end(j);
	json_list(j, "arguments", &a->arguments);
	json_str(j, "note", a->note);
	json_end(j);
}

static void show_line(struct buf *out, const char *what, const struct strlist *l)
{
	if (!l->n)
		return;
	buf_addf(out, "%-11s ", what);
	words(out, l);
	buf_addc(out, '\n');
}

static void show_text(const struct agent *a, struct buf *out)
{
	buf_addf(out, "%s%s%s\n", a->title ? a->title : a->name,
		a->unverified ? " (unverified: from its documentation only)" : "", "");
	show_line(out, "program", &a->programs);
	show_line(out, "looked for", &a->look);
	show_line(out, "reads", &a->read);
	show_line(out, "reaches", &a->hosts);
	show_line(out, "refused", &a->telemetry);
	for (size_t i = 0; i < a->keys_n; i++) {
		const struct agent_key *k = &a->keys[i];

		buf_addf(out, "%-11s %s, sent to %s", "key", k->name, k->host);
		if (k->place)
			buf_addf(out, " as %s%s%s", k->place, k->field ? " " : "", k->field ? k->field : "");
		buf_addc(out, '\n');
	}
	show_line(out, "sees", &a->view);
	show_line(out, "arguments", &a->arguments);
	show_line(out, "set", &a->set);
	show_line(out, "as root", &a->root_set);
	if (a->note)
		buf_addf(out, "%-11s %s\n", "note", a->note);
	buf_addf(out, "%-11s ", "file");
	str_show(out, a->file, strlen(a->file));
	buf_addc(out, '\n');
}

static int each_agent(struct croft *c, const char *config, bool json, struct buf *b)
{
	cleanup_strlist struct strlist names = {0};
	struct json j;

	if (agent_names(&names, config, &c->err) < 0)
		return -c->err.errnum;
	json_init(&j, b, true);
	if (json)
		json_array(&j, NULL);
	for (size_t i = 0; i < names.n; i++) {
		cleanup_agent struct agent a;
		struct err why = ERR_INIT;

		if (agent_find(&a, config, names.v[i], &why) < 0) {
			agent_init(&a);
			if (!json)
				buf_addf(b, "%-13s cannot be read: %s\n", names.v[i], why.msg);
			continue;
		}
		if (json)
			show_json(&a, &j);
		else
			buf_addf(b, "%-13s %s%s\n", a.name, a.title ? a.title : "",
				a.unverified ? " (unverified)" : "");
	}
	if (json) {
		json_end(&j);
		buf_addc(b, '\n');
	}
	return 0;
}

int croft_agent_list(struct croft *c, enum croft_format f, char **ret)
{
	cleanup_layers_info struct layers_info info = {0};
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX);

	c->err = ERR_INIT;
	if (layers_config(&info.config, &c->err) < 0 ||
		each_agent(c, info.config, f == CROFT_JSON, &b) < 0)
		return -c->err.errnum;
	return api_give(c, 0, &b, ret);
}

int croft_agent_show(struct croft *c, const char *name, enum croft_format f, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX);
	cleanup_free char *config = NULL;
	cleanup_agent struct agent a;
	struct json j;

	c->err = ERR_INIT;
	agent_init(&a);
	if (layers_config(&config, &c->err) < 0 || agent_find(&a, config, name, &c->err) < 0) {
		agent_init(&a);
		return -c->err.errnum;
	}
	if (f == CROFT_JSON) {
		json_init(&j, &b, true);
		show_json(&a, &j);
		buf_addc(&b, '\n');
	} else {
		show_text(&a, &b);
	}
	return api_give(c, 0, &b, ret);
}

int croft_agent_add(struct croft *c, const char *file, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX);
	cleanup_free char *config = NULL;
	cleanup_free char *path = NULL;

	c->err = ERR_INIT;
	if (layers_config(&config, &c->err) < 0 || agent_add(config, file, &path, &c->err) < 0)
		return -c->err.errnum;
	buf_adds(&b, "added ");
	str_show(&b, path, strlen(path));
	buf_addc(&b, '\n');
	return api_give(c, 0, &b, ret);
}

/* ---- what it changed in its configuration ---- */

struct saver {
	struct croft *c;
	const struct layers_info *info;
	const char *const *paths;
	size_t taken;
};

/* One of the agent's views: listed, or what was picked of it taken over. */
static int save_view(struct saver *s, const char *named, struct buf *out)
{
	cleanup_strlist struct strlist changes = {0};
	cleanup_buf struct buf path = BUF_INIT(POLICY_PATH_MAX);
	cleanup_free char *real = NULL;
	struct err *e = &s->c->err;

	buf_addf(&path, "%s%s", named[0] == '~' ? s->info->home : "", named + (named[0] == '~'));
	real = realpath(buf_str(&path), NULL);
	if (!real)
		return 0; /* it had none */
	if (views_list(s->info->home, s->info->workspace, real, &changes, e) < 0)
		return -e->errnum;
	for (size_t i = 0; i < changes.n; i++) {
		const char *word = changes.v[i], *name = strchr(word, ' ') + 1;
		cleanup_buf struct buf shown = BUF_INIT(2 * POLICY_PATH_MAX);
		bool own = str_eq(name, "."), pick = false;

		buf_addf(&shown, "%s%s%s", named, own ? "" : "/", own ? "" : name);
		for (const char *const *p = s->paths; p && *p && !pick; p++)
			pick = str_eq(*p, buf_str(&shown));
		if (s->paths && *s->paths && !pick)
			continue;
		if (pick && views_save(s->info->home, s->info->workspace, real, name, e) < 0)
			return -e->errnum;
		s->taken += pick;
		buf_addf(out, "%-8.*s ", pick ? 5 : (int)(name - word - 1), pick ? "saved" : word);
		str_show(out, buf_str(&shown), shown.len);
		buf_addc(out, '\n');
	}
	return 0;
}

int croft_agent_save(struct croft *c, const char *name, const char *directory, const char *const *paths,
	char **ret)
{
	cleanup_layers_info struct layers_info info = {0};
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX * 8);
	struct saver s = {.c = c, .info = &info, .paths = paths};
	cleanup_agent struct agent a;
	int r;

	c->err = ERR_INIT;
	agent_init(&a);
	if (layers_locate(&info, directory, &c->err) < 0)
		return -c->err.errnum;
	r = agent_find(&a, info.config, name, &c->err);
	if (r < 0) {
		agent_init(&a);
		return r;
	}
	for (size_t i = 0; r == 0 && i < a.view.n; i++)
		r = save_view(&s, a.view.v[i], &b);
	if (r == 0 && s.taken != api_count(paths))
		r = err_invalid(&c->err,
			"not everything that was named is changed there; croft agent save %s lists what is",
			a.name);
	return r < 0 ? r : api_give(c, 0, &b, ret);
}
