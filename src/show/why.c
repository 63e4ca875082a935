/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why: a stored receipt read back. Receipts are our own JSON, which is YAML, so the parser we
 *      already
 * have reads them; still nothing about their shape is assumed, since the file may have been edited.
 */
#include "show/why.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "session/run/receipt.h"
#include "session/run/record.h"
#include "session/config/state.h"

static const yaml_node_t *member(yaml_document_t *d, const yaml_node_t *map, const char *key)
{
	if (!map || map->type != YAML_MAPPING_NODE)
		return NULL;
	for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top;
		p++) {
		yaml_node_t *k = yaml_document_get_node(d, p->key);

		if (k && k->type == YAML_SCALAR_NODE && str_eq((char *)k->data.scalar.value, key))
			return yaml_document_get_node(d, p->value);
	}
	return NULL;
}

static const char *text_of(yaml_document_t *d, const yaml_node_t *map, const char *key)
{
	const yaml_node_t *v = member(d, map, key);

	return v && v->type == YAML_SCALAR_NODE ? (const char *)v->data.scalar.value : "";
}

static void show(struct buf *out, const char *label, const char *v)
{
	buf_addf(out, "  %-9s ", label);
	str_show(out, v, strlen(v));
	buf_addc(out, '\n');
}

static void show_denial(yaml_document_t *d, const yaml_node_t *n, struct buf *out)
{
	const char *id = text_of(d, n, "id"), *path = text_of(d, n, "path");

	str_show(out, id, strlen(id));
	buf_addc(out, '\n');
	show(out, "denied", text_of(d, n, "operation"));
	if (text_of(d, n, "host")[0]) {
		show(out, "host", text_of(d, n, "host"));
		show(out, "port", text_of(d, n, "port"));
		show(out, "method", text_of(d, n, "method"));
	}
	if (path[0])
		show(out, "path", path);
	show(out, "because", text_of(d, n, "rule"));
	if (text_of(d, n, "reason")[0])
		show(out, "reason", text_of(d, n, "reason"));
	show(out, "allow", text_of(d, n, "allow_with"));
	if (denial_fix_waits(path, text_of(d, n, "allow_with")))
		buf_adds(out, "            (once it exists: a rule for what is not there is refused)\n");
	show(out, "times", text_of(d, n, "count"));
	show(out, "seen by", text_of(d, n, "seen_by"));
}

static void json_denial(yaml_document_t *d, const yaml_node_t *n, struct json *j)
{
	static const char *const keys[] = {
		"id", "path", "operation", "rule", "allow_with", "seen_by"};
	uint64_t count = 0;

	json_object(j, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		json_str(j, keys[i], text_of(d, n, keys[i]));
	if (text_of(d, n, "host")[0]) {
		json_str(j, "host", text_of(d, n, "host"));
		str_u64(text_of(d, n, "port"), UINT16_MAX, &count);
		json_uint(j, "port", count);
		json_str(j, "method", text_of(d, n, "method"));
		json_str(j, "reason", text_of(d, n, "reason"));
		count = 0;
	}
	str_u64(text_of(d, n, "count"), UINT64_MAX, &count);
	json_uint(j, "count", count);
	json_end(j);
}

/* Split "RUN.N"; run_id gets RUN. */
static int split_id(const char *id, char *run_id, size_t size, const char **ret_full)
{
	size_t n = id ? strcspn(id, ".") : 0;

	*ret_full = id && id[n] == '.' ? id : NULL;
	if (n >= size)
		return -ENAMETOOLONG;
	if (id)
		memcpy(run_id, id, n);
	run_id[n] = '\0';
	return 0;
}

static int why(const char *home, const char *id, struct buf *out, bool as_json, struct err *e)
{
	cleanup_buf struct buf text = BUF_INIT(RECEIPT_JSON_MAX);
	const yaml_node_t *root, *list;
	const char *full = NULL;
	char run_id[64] = "";
	yaml_document_t doc;
	yaml_parser_t parser;
	struct json j;
	size_t shown = 0;

	if (split_id(id, run_id, sizeof(run_id), &full) < 0)
		return err_invalid(e, "%.40s… is not a run id", id);
	if (state_load_run(home, id ? run_id : NULL, &text, e) < 0)
		return -e->errnum;
	if (!yaml_parser_initialize(&parser))
		return err_set(e, ENOMEM, "read the record");
	yaml_parser_set_input_string(&parser, (const unsigned char *)buf_str(&text), text.len);
	if (!yaml_parser_load(&parser, &doc)) {
		yaml_parser_delete(&parser);
		return err_invalid(e, "the record of run %s is damaged", run_id);
	}
	root = yaml_document_get_root_node(&doc);
	list = member(&doc, root, "denials");
	json_init(&j, out, true);
	if (as_json)
		json_array(&j, NULL);
	for (yaml_node_item_t *i = list && list->type == YAML_SEQUENCE_NODE
					   ? list->data.sequence.items.start
					   : NULL;
		i && i < list->data.sequence.items.top; i++) {
		const yaml_node_t *n = yaml_document_get_node(&doc, *i);

		if (full && !str_eq(text_of(&doc, n, "id"), full))
			continue;
		shown++;
		if (as_json)
			json_denial(&doc, n, &j);
		else
			show_denial(&doc, n, out);
	}
	if (as_json) {
		json_end(&j);
		buf_addc(out, '\n');
	}
	yaml_document_delete(&doc);
	yaml_parser_delete(&parser);
	if (!shown && full)
		return err_invalid(e, "run %s has no denial %s", run_id, full);
	if (!shown && !as_json)
		buf_adds(
			out, "nothing was denied in that run; a limit was hit (see its receipt)\n");
	return 0;
}

int why_text(const char *home, const char *id, struct buf *out, struct err *e)
{
	return why(home, id, out, false, e);
}

int why_json(const char *home, const char *id, struct buf *out, struct err *e)
{
	return why(home, id, out, true, e);
}
