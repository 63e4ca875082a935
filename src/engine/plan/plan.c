/* SPDX-License-Identifier: Apache-2.0 */
/* Plans as data: building, printing. See plan.h. */
#include "engine/plan/plan.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "engine/engine.h"
#include "os/path.h"

const char *const plan_op_names[] = {"scratch", "dir", "bind", "copy", "file", "symlink", "proc",
	"device", "devpts", "overlay", "mask", "decoy", "capture", "trust", "landlock"};
static_assert(ARRAY_SIZE(plan_op_names) == PLAN_OP_NUM, "one name per operation");

const char *const trust_file_names[] = {"bundle.pem", "ca.pem", "cacerts"};
static_assert(ARRAY_SIZE(trust_file_names) == TRUST_FILE_NUM, "one name per file");

struct plan_op *plan_add(struct plan *p, enum plan_op_kind kind, const char *src, const char *dst)
{
	struct plan_op *op;

	if (p->n >= PLAN_OPS_MAX)
		return NULL;
	if (p->n == p->cap) {
		size_t cap = p->cap ? p->cap * 2 : 64;
		struct plan_op *ops = realloc(p->ops, cap * sizeof(*ops));

		if (!ops)
			return NULL;
		p->ops = ops;
		p->cap = cap;
	}
	op = &p->ops[p->n];
	*op = (struct plan_op){.kind = kind, .access = ACCESS_READ};
	if (src && !(op->src = strdup(src)))
		return NULL;
	if (dst && !(op->dst = strdup(dst))) {
		free(op->src);
		return NULL;
	}
	p->n++;
	return op;
}

int plan_add_layer(struct plan_op *op, const char *path, struct err *e)
{
	cleanup_fd int fd = path_open(AT_FDCWD, path, O_PATH | O_DIRECTORY, PATH_NO_SYMLINKS);
	struct plan_layer *l;
	struct stat st;

	if (!op->layers && !(op->layers = calloc(1, sizeof(*op->layers))))
		return err_set(e, ENOMEM, "make the plan");
	if (op->layers->n == ARRAY_SIZE(op->layers->v))
		return err_refuse(
			e, "%s is staged on more than %u layers", op->dst, PLAN_LAYERS_MAX);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, fd < 0 ? -fd : errno, "open the layer %s", path);
	l = &op->layers->v[op->layers->n];
	*l = (struct plan_layer){.path = strdup(path), .dev = st.st_dev, .ino = st.st_ino};
	if (!l->path)
		return err_set(e, ENOMEM, "make the plan");
	op->layers->n++;
	return 0;
}

/* "lower", "upper" or "work". */
static const char *layer_kind(const struct plan_layers *l, size_t i)
{
	if (!l->writable || i + 2 < l->n)
		return "lower";
	return i + 2 == l->n ? "upper" : "work";
}

int plan_note(struct plan *p, const char *fmt, ...)
{
	cleanup_buf struct buf b = BUF_INIT(1024);
	va_list ap;

	p->notes.max = 64;
	va_start(ap, fmt);
	buf_addv(&b, fmt, ap);
	va_end(ap);
	return strlist_add(&p->notes, buf_str(&b)) ? 0 : -ENOMEM;
}

static bool op_has_access(const struct plan_op *op)
{
	return op->kind == PLAN_BIND || op->kind == PLAN_LANDLOCK;
}

static const char *op_access(const struct plan_op *op)
{
	return op->device ? "device" : policy_access_names[op->access];
}

void plan_print(const struct plan *p, struct buf *out)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct plan_op *op = &p->ops[i];

		buf_addf(out, "%-9s", plan_op_names[op->kind]);
		if (op_has_access(op))
			buf_addf(out, " %-6s", op_access(op));
		else
			buf_adds(out, "       ");
		buf_addc(out, ' ');
		str_show(out, op->dst, strlen(op->dst));
		if (op->src && op->kind != PLAN_FILE && strcmp(op->src, op->dst) != 0) {
			buf_adds(out, op->kind == PLAN_SYMLINK ? " -> " : " from ");
			str_show(out, op->src, strlen(op->src));
		}
		if (op->rule && op->rule->origin.file)
			buf_addf(out, "  (%s%s%.0u)", op->rule->origin.file,
				op->rule->origin.line ? ":" : "", op->rule->origin.line);
		buf_addc(out, '\n');
		for (size_t k = 0; op->layers && k < op->layers->n; k++) {
			buf_addf(out, "  %-14s ", layer_kind(op->layers, k));
			str_show(out, op->layers->v[k].path, strlen(op->layers->v[k].path));
			buf_addc(out, '\n');
		}
	}
	plan_privilege_print(p, out);
	for (size_t i = 0; i < p->notes.n; i++)
		buf_addf(out, "note             %s\n", p->notes.v[i]);
}

void plan_json(const struct plan *p, struct json *j, const char *key)
{
	json_array(j, key);
	for (size_t i = 0; i < p->n; i++) {
		const struct plan_op *op = &p->ops[i];

		json_object(j, NULL);
		json_str(j, "op", plan_op_names[op->kind]);
		if (op_has_access(op))
			json_str(j, "access", op_access(op));
		json_str(j, "path", op->dst);
		if (op->src && op->kind != PLAN_FILE)
			json_str(j, "source", op->src);
		if (op->layers) {
			json_array(j, "layers");
			for (size_t k = 0; k < op->layers->n; k++) {
				json_object(j, NULL);
				json_str(j, "kind", layer_kind(op->layers, k));
				json_str(j, "path", op->layers->v[k].path);
				json_end(j);
			}
			json_end(j);
		}
		if (op->rule && op->rule->origin.file) {
			json_str(j, "rule_file", op->rule->origin.file);
			json_uint(j, "rule_line", op->rule->origin.line);
		}
		json_end(j);
	}
	json_end(j);
	plan_privilege_json(p, j);
}

void plan_seal(struct plan *p)
{
	cleanup_buf struct buf b = BUF_INIT(64u << 20);

	for (size_t i = 0; i < p->n; i++) {
		const struct plan_op *op = &p->ops[i];
		const char *const part[] = {
			plan_op_names[op->kind], op_access(op), op->dst, op->src ? op->src : ""};

		/* Each part with its NUL: no two plans print alike. */
		for (size_t k = 0; k < ARRAY_SIZE(part); k++)
			buf_add(&b, part[k], strlen(part[k]) + 1);
		for (size_t k = 0; op->layers && k < op->layers->n; k++) {
			const char *kind = layer_kind(op->layers, k), *path = op->layers->v[k].path;

			buf_add(&b, kind, strlen(kind) + 1);
			buf_add(&b, path, strlen(path) + 1);
		}
	}
	plan_privilege_print(p, &b);
	digest_sha256(&p->digest, buf_str(&b), b.len);
}

void plan_done(struct plan *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->ops[i].src);
		free(p->ops[i].dst);
		for (size_t k = 0; p->ops[i].layers && k < p->ops[i].layers->n; k++)
			free(p->ops[i].layers->v[k].path);
		free(p->ops[i].layers);
	}
	free(p->ops);
	strlist_done(&p->notes);
	strlist_done(&p->absent);
	*p = (struct plan){0};
}
