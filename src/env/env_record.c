/* SPDX-License-Identifier: Apache-2.0 */
/* env.json, the record of one environment: written whole, read strictly. See env.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/jsonread.h"
#include "base/str.h"
#include "env/env_impl.h"
#include "ledger/chain/statement.h"
#include "os/path.h"

#define RECORD_MAX_B (4u << 20)

const char *const env_kind_names[ENV_KIND_NUM] = {
	[ENV_PINNED] = "pinned", [ENV_LIVE] = "live", [ENV_COPY] = "copy"};
const char *const env_state_names[ENV_STATE_NUM] = {
	[ENV_OPEN] = "open", [ENV_LANDED] = "landed", [ENV_DISCARDED] = "discarded"};

/* ---- writing ---- */

static void put_oid(struct json *j, const char *key, const struct oid *o)
{
	if (oid_is_none(o))
		json_null(j, key);
	else
		json_str(j, key, oid_hex(o).s);
}

static void put_snapshots(struct json *j, const struct env *v)
{
	json_array(j, "snapshots");
	for (size_t i = 0; i < v->snapshots_n; i++) {
		json_object(j, NULL);
		json_str(j, "label", v->snapshots[i].label);
		json_str(j, "time", v->snapshots[i].time);
		json_list(j, "layers", &v->snapshots[i].layers);
		json_end(j);
	}
	json_end(j);
}

static void put_record(struct json *j, const struct env *v)
{
	json_object(j, NULL);
	json_int(j, "schema", ENV_SCHEMA);
	json_str(j, "name", v->name);
	json_str(j, "id", v->id);
	json_str(j, "kind", env_kind_names[v->kind]);
	json_str(j, "state", env_state_names[v->state]);
	json_bool(j, "run", v->run);
	json_str(j, "workspace", v->workspace);
	json_str(j, "base", v->base_key);
	json_str(j, "store", v->store_key);
	put_oid(j, "base_commit", &v->base_commit);
	put_oid(j, "start_tree", &v->start_tree);
	json_uint(j, "start_layers", v->start_layers);
	json_list(j, "layers", &v->layers);
	json_list(j, "undo", &v->undo);
	json_str(j, "undo_time", v->undo_time);
	json_str(j, "copy", v->copy);
	json_bool(j, "ignored_known", v->ignored_known);
	json_list(j, "ignored", &v->ignored);
	json_list(j, "args", &v->args);
	json_str(j, "agent", v->agent);
	json_str(j, "model", v->model);
	json_str(j, "task", v->task);
	json_str(j, "parent", v->parent);
	json_str(j, "created", v->created);
	json_object(j, "review");
	put_oid(j, "tree", &v->review.tree);
	put_oid(j, "accepted", &v->review.accepted);
	json_str(j, "time", v->review.time);
	json_end(j);
	put_snapshots(j, v);
	json_object(j, "landed");
	put_oid(j, "commit", &v->landed_commit);
	put_oid(j, "tree", &v->landed_tree);
	json_str(j, "how", v->landed_how);
	json_end(j);
	json_end(j);
}

int env_save(struct env *v, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(RECORD_MAX_B);
	struct json j;
	int r;

	json_init(&j, &b, true);
	put_record(&j, v);
	buf_addc(&b, '\n');
	if (b.failed)
		return err_set(e, E2BIG, "the record of environment %s", v->name);
	/* Before it has its name it can be made again; afterwards it must survive a power cut. */
	r = (v->named ? file_replace_synced_at : file_replace_at)(
		v->dir_fd, "env.json", buf_str(&b), b.len, 0600);
	return r < 0 ? err_set(e, -r, "write the record of environment %s", v->name) : 0;
}

/* ---- reading ---- */

/* One record being read: the first thing that is wrong is remembered. */
struct reader {
	const struct jnode *root;
	const char *bad;
};

static char *get_str(struct reader *r, const struct jnode *n, const char *key)
{
	const struct jnode *m = jget(n, key);
	char *s = NULL;

	if (jtype(m) == JNULL)
		return NULL;
	if (!jstr(m) || !(s = strdup(jstr(m))))
		r->bad = key;
	return s;
}

static void get_text(
	struct reader *r, const struct jnode *n, const char *key, char *ret, size_t size)
{
	const char *s = jstr(jget(n, key));

	if (!s || strlen(s) >= size) {
		if (jtype(jget(n, key)) != JNULL)
			r->bad = key;
		ret[0] = '\0';
		return;
	}
	memcpy(ret, s, strlen(s) + 1);
}

static void get_oid(struct reader *r, const struct jnode *n, const char *key, struct oid *ret)
{
	const struct jnode *m = jget(n, key);
	const char *s = jstr(m);

	*ret = (struct oid){0};
	if (jtype(m) != JNULL && (!s || !oid_parse(ret, s, strlen(s))))
		r->bad = key;
}

static size_t get_size(struct reader *r, const char *key, int64_t max)
{
	int64_t v = 0;

	if (!jint(jget(r->root, key), &v) || v < 0 || v > max) {
		r->bad = key;
		return 0;
	}
	return (size_t)v;
}

static int get_enum(struct reader *r, const char *key, const char *const *names, int n)
{
	const char *s = jstr(jget(r->root, key));

	for (int i = 0; s && i < n; i++)
		if (str_eq(s, names[i]))
			return i;
	r->bad = key;
	return 0;
}

static void get_list(struct reader *r, const struct jnode *n, const char *key, struct strlist *ret)
{
	const struct jnode *a = jget(n, key);

	if (jtype(a) != JARRAY)
		r->bad = key;
	for (size_t i = 0; i < jlen(a); i++)
		if (!jstr(jat(a, i)) || !strlist_add(ret, jstr(jat(a, i))))
			r->bad = key;
}

/* Layer names become parts of paths. */
static void get_layers(
	struct reader *r, const struct jnode *n, const char *key, struct strlist *ret)
{
	get_list(r, n, key, ret);
	for (size_t i = 0; i < ret->n; i++)
		if (!str_hex(ret->v[i], ENV_LAYER_NAME_LEN, ENV_LAYER_NAME_LEN))
			r->bad = key;
}

static void get_snapshots(struct reader *r, struct env *v)
{
	const struct jnode *a = jget(r->root, "snapshots");

	v->snapshots = calloc(jlen(a) + 1, sizeof(*v->snapshots));
	for (size_t i = 0; v->snapshots && i < jlen(a) && i < ENV_SNAPSHOTS_MAX; i++) {
		struct env_snapshot *s = &v->snapshots[v->snapshots_n++];

		s->layers = STRLIST_INIT(ENV_LAYERS_MAX + 1);
		get_text(r, jat(a, i), "label", s->label, sizeof(s->label));
		get_text(r, jat(a, i), "time", s->time, sizeof(s->time));
		get_layers(r, jat(a, i), "layers", &s->layers);
	}
	if (!v->snapshots)
		r->bad = "snapshots";
}

static void get_record(struct reader *r, struct env *v)
{
	const struct jnode *review = jget(r->root, "review"), *landed = jget(r->root, "landed");

	get_text(r, r->root, "name", v->name, sizeof(v->name));
	get_text(r, r->root, "id", v->id, sizeof(v->id));
	v->kind = (enum env_kind)get_enum(r, "kind", env_kind_names, ENV_KIND_NUM);
	v->state = (enum env_state)get_enum(r, "state", env_state_names, ENV_STATE_NUM);
	v->run = jtrue(jget(r->root, "run"));
	v->workspace = get_str(r, r->root, "workspace");
	v->base_key = get_str(r, r->root, "base");
	v->store_key = get_str(r, r->root, "store");
	get_oid(r, r->root, "base_commit", &v->base_commit);
	get_oid(r, r->root, "start_tree", &v->start_tree);
	v->start_layers = get_size(r, "start_layers", ENV_LAYERS_MAX);
	get_layers(r, r->root, "layers", &v->layers);
	get_layers(r, r->root, "undo", &v->undo);
	get_text(r, r->root, "undo_time", v->undo_time, sizeof(v->undo_time));
	v->copy = get_str(r, r->root, "copy");
	v->ignored_known = jtrue(jget(r->root, "ignored_known"));
	get_list(r, r->root, "ignored", &v->ignored);
	get_list(r, r->root, "args", &v->args);
	v->agent = get_str(r, r->root, "agent");
	v->model = get_str(r, r->root, "model");
	v->task = get_str(r, r->root, "task");
	v->parent = get_str(r, r->root, "parent");
	get_text(r, r->root, "created", v->created, sizeof(v->created));
	get_oid(r, review, "tree", &v->review.tree);
	get_oid(r, review, "accepted", &v->review.accepted);
	get_text(r, review, "time", v->review.time, sizeof(v->review.time));
	get_snapshots(r, v);
	get_oid(r, landed, "commit", &v->landed_commit);
	get_oid(r, landed, "tree", &v->landed_tree);
	v->landed_how = get_str(r, landed, "how");
}

static const char *inconsistent(const struct env *v)
{
	if (!env_name_good(v->name))
		return "name";
	if (!ledger_id_valid(v->id))
		return "id";
	if (!v->workspace || v->workspace[0] != '/')
		return "workspace";
	if (v->kind == ENV_PINNED && (!v->base_key || oid_is_none(&v->start_tree)))
		return "base";
	if (v->kind == ENV_COPY ? !v->copy || v->copy[0] != '/' : v->layers.n == 0)
		return "layers";
	return v->kind != ENV_COPY && v->start_layers >= v->layers.n ? "start_layers" : NULL;
}

int env_record_read(struct env *v, const char *name, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(RECORD_MAX_B);
	cleanup_jdoc struct jdoc *d = NULL;
	struct reader r = {0};
	int64_t schema = 0;
	int rc = file_read_at(v->dir_fd, "env.json", &b);

	if (rc < 0)
		return err_set(e, -rc, "read the record of environment %s", name);
	rc = jdoc_parse(&d, b.data, b.len, e);
	if (rc < 0)
		return err_wrap(e, "the record of environment %s is damaged", name);
	r.root = jdoc_root(d);
	if (!jint(jget(r.root, "schema"), &schema) || schema != ENV_SCHEMA)
		return err_refuse(e,
			"environment %s was made by another version of croft (record %lld, this "
			"one knows %d); use that version, nothing was changed",
			name, (long long)schema, ENV_SCHEMA);
	get_record(&r, v);
	v->named = true;
	if (!r.bad)
		r.bad = inconsistent(v);
	if (r.bad)
		return err_set(e, EBADMSG, "the record of environment %s is damaged at \"%s\"",
			name, r.bad);
	return 0;
}
