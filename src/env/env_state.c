/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots, forks, discarding: an environment is a list of layers, so each of these is a new list and
 * a fresh layer on top, whatever was changed. Nothing is copied and nothing is lost: layers go only
 * when no record names them any more (env_gc.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "env/env_impl.h"
#include "session/run/hidden.h"
#include "croft.h"
#include "ledger/chain/predicate.h"
#include "os/path.h"
#include "os/tree.h"
#include "snap/scan.h"

/* ---- events ---- */

static int append(struct env *v, struct ledger_event *full, struct err *e)
{
	struct ledger_key k;
	int r = ledger_key_load(&k, v->state_dir, e);

	if (r < 0)
		return r;
	full->version = CROFT_VERSION;
	full->session = v->session[0] && full->kind != EVENT_SESSION ? v->session : NULL;
	for (int tries = 0; tries < 16; tries++) {
		if (!v->tip_known && (r = ledger_tip(&v->tip, &v->repo, v->id, e)) < 0)
			break;
		v->tip_known = true;
		r = ledger_append(&v->repo, &k, full, &v->tip, e);
		if (r != -EAGAIN)
			break;
		v->tip_known = false;
		*e = ERR_INIT;
	}
	ledger_key_wipe(&k);
	return r < 0 ? err_wrap(e, "record in the ledger of %s", v->name) : 0;
}

int env_event(struct env *v, const struct ledger_event *ev, struct err *e)
{
	struct ledger_event sealed = *ev;
	struct hidden_event own;
	struct redact hidden;
	int r;

	/* Commands were sealed by those who knew what theirs had, and must stay as they were sealed. */
	if (ev->kind == EVENT_EXEC || ev->kind == EVENT_INTERRUPTED || ev->kind == EVENT_SESSION)
		return append(v, &sealed, e);
	redact_init(&hidden);
	r = hidden_know_all(&hidden, &v->args, e);
	if (r == 0) {
		r = hidden_event(&own, ev, &hidden, e);
		if (r == 0)
			r = append(v, &own.event, e);
		hidden_event_done(&own);
	}
	redact_done(&hidden);
	return r;
}

int env_need_ledger(struct env *v, struct err *e)
{
	int r = ledger_tip(&v->tip, &v->repo, v->id, e);

	if (r < 0)
		return err_wrap(e, "the evidence of %s cannot be continued", v->name);
	v->tip_known = true;
	if (v->tip.seq == 0)
		return err_refuse(e,
			"the evidence of %s (" LEDGER_REF_PREFIX
			"%s) is not in %s any more; fetch it with croft evidence fetch, or make a "
			"new environment",
			v->name, v->id, v->workspace);
	return 0;
}

static int label_event(
	struct env *v, enum event_kind kind, const char *label, const char *title, struct err *e)
{
	cleanup_buf struct buf members = BUF_INIT(1024);
	const struct predicate_member m[] = {{"label", label}};
	struct ledger_event ev = {.kind = kind,
		.env_id = v->id,
		.env_name = v->name,
		.predicate_type = PREDICATE_EVENT,
		.title = title};

	env_now(&ev.time);
	predicate_plain(m, ARRAY_SIZE(m), &members);
	ev.predicate = buf_str(&members);
	return members.failed ? err_set(e, ENOMEM, "record %s", title) : env_event(v, &ev, e);
}

/* ---- snapshots ---- */

static const struct env_snapshot *find_snapshot(const struct env *v, const char *label)
{
	for (size_t i = 0; i < v->snapshots_n; i++)
		if (str_eq(v->snapshots[i].label, label))
			return &v->snapshots[i];
	return NULL;
}

/* The upper layer cannot be frozen while it is mounted: the snapshot names a copy. */
static int freeze_copy(struct env *v, struct env_snapshot *s, struct err *e)
{
	char name[ENV_LAYER_NAME_LEN + 1];
	char *own;

	if (env_copy_upper(v, name, e) < 0)
		return -e->errnum;
	own = strdup(name);
	if (!own)
		return err_set(e, ENOMEM, "snapshot");
	free(s->layers.v[s->layers.n - 1]);
	s->layers.v[s->layers.n - 1] = own;
	return 0;
}

/* What is frozen under this name is the list as it stands; a fresh upper layer comes after. */
static int add_snapshot(struct env *v, const char *label, struct err *e)
{
	struct env_snapshot *more, *s;
	struct timespec now;

	if (v->kind == ENV_COPY)
		return err_refuse(
			e, "environment %s is a plain copy and has no layers to freeze", v->name);
	if (v->snapshots_n >= ENV_SNAPSHOTS_MAX)
		return err_refuse(e,
			"environment %s has %d snapshots and can have no more; croft fork makes "
			"one "
			"that begins here without them",
			v->name, ENV_SNAPSHOTS_MAX);
	more = realloc(v->snapshots, (v->snapshots_n + 1) * sizeof(*more));
	if (!more)
		return err_set(e, ENOMEM, "snapshot");
	v->snapshots = more;
	s = &more[v->snapshots_n];
	*s = (struct env_snapshot){.layers = STRLIST_INIT(ENV_LAYERS_MAX + 1)};
	if (!strlist_copy(&s->layers, &v->layers))
		return err_set(e, ENOMEM, "snapshot");
	snprintf(s->label, sizeof(s->label), "%s", label);
	env_now(&now);
	env_time_text(&now, s->time);
	v->snapshots_n++;
	return v->beside_fd >= 0 ? freeze_copy(v, s, e) : env_push_layer(v, e);
}

int env_snapshot(struct env *v, const char *label, struct err *e)
{
	/* Until the record names them, new layers are nobody's. */
	cleanup_fd __attribute__((unused)) int gc = env_hold_gc(v->state_dir, false);
	char made[32], title[128];

	if (!label) {
		snprintf(made, sizeof(made), "s%zu", v->snapshots_n + 1);
		label = made;
	}
	if (!env_name_good(label))
		return err_invalid(e, "a label is made of letters, digits, '.', '_' and '-'");
	if (env_need_ledger(v, e) < 0)
		return -e->errnum;
	if (find_snapshot(v, label))
		return err_invalid(
			e, "environment %s already has a snapshot called %s", v->name, label);
	if (add_snapshot(v, label, e) < 0 || env_save(v, e) < 0)
		return -e->errnum;
	snprintf(title, sizeof(title), "snapshot %s", label);
	return label_event(v, EVENT_SNAPSHOT, label, title, e);
}

static bool upper_is_empty(const struct env *v)
{
	struct err ignored = ERR_INIT;
	cleanup_fd int fd = env_layer_fd(v, v->layers.n - 1, &ignored);

	return fd >= 0 && layer_is_empty(fd);
}

int env_restore(struct env *v, const char *label, struct err *e)
{
	cleanup_fd __attribute__((unused)) int gc = env_hold_gc(v->state_dir, false);
	const struct env_snapshot *s = env_name_good(label) ? find_snapshot(v, label) : NULL;
	char title[128], saved[ENV_NAME_MAX + 1] = "";

	if (!s)
		return err_invalid(e,
			"environment %s has no such snapshot; croft status %s shows them", v->name,
			v->name);
	if (env_need_ledger(v, e) < 0)
		return -e->errnum;
	if (!upper_is_empty(v)) {
		for (int i = 1; i < 1000 && (!saved[0] || find_snapshot(v, saved)); i++)
			snprintf(saved, sizeof(saved), "before-restore-%d", i);
		if (add_snapshot(v, saved, e) < 0)
			return -e->errnum;
		s = find_snapshot(v, label); /* the list may have moved */
	}
	if (!strlist_copy(&v->layers, &s->layers))
		return err_set(e, ENOMEM, "restore");
	v->state = ENV_OPEN; /* whatever had become of other work */
	if (env_push_layer(v, e) < 0 || env_save(v, e) < 0)
		return -e->errnum;
	if (saved[0]) {
		cleanup_buf struct buf note = BUF_INIT(256);

		buf_addf(&note, "what was there is kept as snapshot %s", saved);
		strlist_add(&v->notes, buf_str(&note));
	}
	snprintf(title, sizeof(title), "restore %s", label);
	return label_event(v, EVENT_RESTORED, label, title, e);
}

/* ---- discarding ---- */

int env_drop_layers(struct env *v, struct err *e)
{
	cleanup_fd __attribute__((unused)) int gc = env_hold_gc(v->state_dir, false);
	struct timespec now;

	if (v->kind == ENV_COPY)
		return err_refuse(
			e, "environment %s is a plain copy; remove it with croft rm", v->name);
	if (env_need_ledger(v, e) < 0)
		return -e->errnum;
	if (!strlist_copy(&v->undo, &v->layers))
		return err_set(e, ENOMEM, "discard");
	env_now(&now);
	env_time_text(&now, v->undo_time);
	while (v->layers.n > v->start_layers)
		free(v->layers.v[--v->layers.n]);
	v->review = (struct env_review){0};
	v->state = ENV_DISCARDED;
	if (env_push_layer(v, e) < 0)
		return -e->errnum;
	return env_save(v, e);
}

int env_undo_layers(struct env *v, struct err *e)
{
	if (env_need_ledger(v, e) < 0)
		return -e->errnum;
	if (v->undo.n == 0)
		return err_invalid(
			e, "environment %s has nothing discarded to bring back", v->name);
	if (!upper_is_empty(v))
		return err_refuse(e,
			"environment %s was changed after it was discarded; keep that with croft "
			"fork, or discard it, too",
			v->name);
	if (!strlist_copy(&v->layers, &v->undo))
		return err_set(e, ENOMEM, "undo");
	strlist_done(&v->undo);
	v->undo = STRLIST_INIT(ENV_LAYERS_MAX + 1);
	v->undo_time[0] = '\0';
	v->state = ENV_OPEN;
	return env_save(v, e);
}
