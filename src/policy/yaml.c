/* SPDX-License-Identifier: Apache-2.0 */
/* The strict reader, over libyaml's events: see yaml.h. */
#include "policy/yaml.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "policy/policy_impl.h"

#define SHOWN_MAX 64

/* ---- events ---- */

int reader_fail_at(struct yaml_reader *r, size_t line, size_t column)
{
	return err_wrap(r->e, "%s:%zu:%zu", r->name, line + 1, column + 1);
}

int reader_fail(struct yaml_reader *r)
{
	return reader_fail_at(r, r->ev.start_mark.line, r->ev.start_mark.column);
}

int reader_bad(struct yaml_reader *r, const char *why)
{
	value_bad(r->e, reader_text(r), why);
	return reader_fail(r);
}

static int yaml_problem(struct yaml_reader *r)
{
	const yaml_mark_t *m = &r->yaml.problem_mark;

	if (r->yaml.error == YAML_MEMORY_ERROR)
		return err_set(r->e, ENOMEM, "parse %s", r->name);
	if (!m->line && !m->column && r->yaml.context_mark.line)
		m = &r->yaml.context_mark;
	err_invalid(r->e, "%s", r->yaml.problem ? r->yaml.problem : "not YAML");
	return reader_fail_at(r, m->line, m->column);
}

static int next_event(struct yaml_reader *r)
{
	if (r->have)
		yaml_event_delete(&r->ev);
	r->have = false;
	if (!yaml_parser_parse(&r->yaml, &r->ev))
		return yaml_problem(r);
	r->have = true;
	return 0;
}

/* Whatever makes a value more than its text is refused. */
static int no_extras(struct yaml_reader *r)
{
	const yaml_char_t *anchor = NULL, *tag = NULL;

	switch (r->ev.type) {
	case YAML_ALIAS_EVENT:
		err_invalid(r->e, "aliases (*name) are not allowed in a %s; write the value again",
			r->noun);
		return reader_fail(r);
	case YAML_SCALAR_EVENT:
		anchor = r->ev.data.scalar.anchor;
		tag = r->ev.data.scalar.tag;
		break;
	case YAML_SEQUENCE_START_EVENT:
		anchor = r->ev.data.sequence_start.anchor;
		tag = r->ev.data.sequence_start.tag;
		break;
	case YAML_MAPPING_START_EVENT:
		anchor = r->ev.data.mapping_start.anchor;
		tag = r->ev.data.mapping_start.tag;
		break;
	default:
		break;
	}
	if (!anchor && !tag)
		return 0;
	err_invalid(r->e, "%s are not allowed in a %s", anchor ? "anchors (&name)" : "tags (!name)",
		r->noun);
	return reader_fail(r);
}

int reader_next(struct yaml_reader *r)
{
	int x = next_event(r);

	return x < 0 ? x : no_extras(r);
}

const char *reader_text(const struct yaml_reader *r)
{
	return (const char *)r->ev.data.scalar.value;
}

int reader_want(struct yaml_reader *r, yaml_event_type_t type, const char *what, const char *kind)
{
	if (r->ev.type == type)
		return 0;
	err_invalid(r->e, "%s must be %s", what, kind);
	return reader_fail(r);
}

/* A NUL inside a scalar ("\0" in double quotes) would end the text early. */
int reader_want_scalar(struct yaml_reader *r, const char *what)
{
	int x = reader_want(r, YAML_SCALAR_EVENT, what, "a single value");

	if (x < 0)
		return x;
	if (strlen(reader_text(r)) != r->ev.data.scalar.length) {
		err_invalid(r->e, "%s holds a NUL character", what);
		return reader_fail(r);
	}
	return 0;
}

/* ---- mappings and lists ---- */

static int unknown_key(
	struct yaml_reader *r, const char *section, const struct reader_key *keys, size_t n)
{
	cleanup_buf struct buf shown = BUF_INIT(SHOWN_MAX * 8);
	const char *names[READER_KEYS_MAX];
	const char *near, *home = r->elsewhere ? r->elsewhere(reader_text(r)) : NULL;

	for (size_t i = 0; i < n && i < ARRAY_SIZE(names); i++)
		names[i] = keys[i].name;
	near = str_nearest(reader_text(r), names, MIN_OF(n, ARRAY_SIZE(names)));
	str_show(&shown, reader_text(r), MIN_OF(strlen(reader_text(r)), SHOWN_MAX));
	if (home && !str_eq(home, section))
		err_invalid(r->e, "unknown key \"%s\"%s%s; it belongs under \"%s\"",
			buf_str(&shown), *section ? " in " : "", section, home);
	else if (near)
		err_invalid(r->e, "unknown key \"%s\"%s%s; did you mean \"%s\"?", buf_str(&shown),
			*section ? " in " : "", section, near);
	else
		err_invalid(r->e, "unknown key \"%s\"%s%s", buf_str(&shown), *section ? " in " : "",
			section);
	return reader_fail(r);
}

int reader_mapping(
	struct yaml_reader *r, const char *section, const struct reader_key *keys, size_t n)
{
	size_t first[READER_KEYS_MAX] = {0};
	char whole[32];
	int x;

	snprintf(whole, sizeof(whole), "a %s", r->noun);
	x = reader_want(
		r, YAML_MAPPING_START_EVENT, *section ? section : whole, "a mapping (key: value)");

	while (x == 0 && (x = reader_next(r)) == 0 && r->ev.type != YAML_MAPPING_END_EVENT) {
		size_t i = 0;

		x = reader_want_scalar(r, "a key");
		if (x < 0)
			break;
		while (i < n && !str_eq(reader_text(r), keys[i].name))
			i++;
		if (i == n)
			return unknown_key(r, section, keys, n);
		if (first[i]) {
			err_invalid(r->e, "\"%s\" is given twice (first on line %zu)", keys[i].name,
				first[i]);
			return reader_fail(r);
		}
		first[i] = r->ev.start_mark.line + 1;
		x = reader_next(r);
		if (x == 0)
			x = keys[i].read(r, keys[i].name);
	}
	return x;
}

static int each(
	struct yaml_reader *r, const char *what, bool scalars, reader_fn *add, const char *key)
{
	int x = reader_want(r, YAML_SEQUENCE_START_EVENT, what,
		"a list ([a, b] or lines that begin with \"-\")");

	while (x == 0 && (x = reader_next(r)) == 0 && r->ev.type != YAML_SEQUENCE_END_EVENT) {
		if (scalars)
			x = reader_want_scalar(r, "an entry");
		if (x == 0)
			x = add(r, key);
	}
	return x;
}

int reader_entries(struct yaml_reader *r, const char *what, reader_fn *add, const char *key)
{
	return each(r, what, false, add, key);
}

int reader_list(struct yaml_reader *r, const char *what, reader_fn *add, const char *key)
{
	return each(r, what, true, add, key);
}

/* ---- the document ---- */

static int read_document(struct yaml_reader *r, const struct reader_key *keys, size_t n)
{
	int x = next_event(r); /* stream start */

	if (x == 0)
		x = next_event(r);
	if (x < 0)
		return x;
	if (r->ev.type == YAML_STREAM_END_EVENT) {
		err_invalid(r->e, "the %s is empty; it begins with \"version: 1\"", r->noun);
		return reader_fail(r);
	}
	if (r->ev.data.document_start.version_directive ||
		r->ev.data.document_start.tag_directives.start !=
			r->ev.data.document_start.tag_directives.end) {
		err_invalid(r->e, "directives (lines that begin with %%) are not allowed in a %s",
			r->noun);
		return reader_fail(r);
	}
	x = reader_next(r);
	if (x == 0)
		x = reader_mapping(r, "", keys, n);
	if (x == 0)
		x = next_event(r); /* document end */
	if (x == 0)
		x = next_event(r);
	if (x == 0 && r->ev.type != YAML_STREAM_END_EVENT) {
		err_invalid(r->e, "a second document begins here; a %s is one document", r->noun);
		return reader_fail(r);
	}
	return x;
}

int reader_run(struct yaml_reader *r, const char *text, size_t len, const struct reader_key *keys,
	size_t n)
{
	int x;

	if (!yaml_parser_initialize(&r->yaml))
		return err_set(r->e, ENOMEM, "parse %s", r->name);
	yaml_parser_set_encoding(&r->yaml, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r->yaml, (const unsigned char *)text, len);
	x = read_document(r, keys, n);
	if (r->have)
		yaml_event_delete(&r->ev);
	r->have = false;
	yaml_parser_delete(&r->yaml);
	if (x == 0 && !r->version) {
		err_invalid(r->e, "\"version: 1\" is missing");
		x = reader_fail_at(r, 0, 0);
	}
	return x;
}
