/* SPDX-License-Identifier: Apache-2.0 */
/* Agent files: the schema over the strict reader of policy/yaml.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "base/cleanup.h"
#include "policy/policy.h"
#include "policy/yaml.h"

#define TEXT_MAX_B 1024u /* of one value */

void agent_init(struct agent *a)
{
	struct strlist *const lists[] = {&a->programs, &a->look, &a->read, &a->hosts, &a->websockets,
		&a->telemetry, &a->view, &a->pass, &a->set, &a->arguments, &a->root_set, &a->root_arguments};

	*a = (struct agent){0};
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		*lists[i] = STRLIST_INIT(AGENT_LIST_MAX);
}

void agent_done(struct agent *a)
{
	struct strlist *const lists[] = {&a->programs, &a->look, &a->read, &a->hosts, &a->websockets,
		&a->telemetry, &a->view, &a->pass, &a->set, &a->arguments, &a->root_set, &a->root_arguments};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		strlist_done(lists[i]);
	for (size_t i = 0; i < a->keys_n; i++) {
		free(a->keys[i].name);
		free(a->keys[i].host);
		free(a->keys[i].place);
		free(a->keys[i].field);
	}
	free(a->name);
	free(a->title);
	free(a->note);
	free(a->file);
	agent_init(a);
}

bool agent_name_valid(const char *name)
{
	size_t n = strlen(name);

	return n >= 1 && n <= AGENT_NAME_MAX && name[0] >= 'a' && name[0] <= 'z' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

static struct agent *agent_of(const struct yaml_reader *r)
{
	return r->into;
}

/* ---- values ---- */

/* A value that is there, of a sensible length, and in one line. */
static int want_text(struct yaml_reader *r, const char *what)
{
	int x = reader_want_scalar(r, what);
	const char *t;

	if (x < 0)
		return x;
	t = reader_text(r);
	if (!*t) {
		err_invalid(r->e, "%s is empty", what);
		return reader_fail(r);
	}
	if (strlen(t) > TEXT_MAX_B)
		return reader_bad(r, "is longer than 1024 bytes");
	for (; *t; t++)
		if ((unsigned char)*t < ' ' || *t == 0x7f)
			return reader_bad(r, "holds a control character");
	return 0;
}

static int keep_text(struct yaml_reader *r, const char *what, char **ret)
{
	int x = want_text(r, what);

	if (x < 0)
		return x;
	*ret = strdup(reader_text(r));
	return *ret ? 0 : err_set(r->e, ENOMEM, "read %s", r->name);
}

static int add_text(struct yaml_reader *r, struct strlist *l, const char *text)
{
	if (strlist_add(l, text))
		return 0;
	err_invalid(r->e, "a list has at most %u entries", AGENT_LIST_MAX);
	return reader_fail(r);
}

static bool is_variable(const char *s, size_t n)
{
	return n > 0 && n < 128 && !(s[0] >= '0' && s[0] <= '9') &&
	       strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") >= n;
}

/* ---- keys of the file ---- */

static int read_version(struct yaml_reader *r, const char *key)
{
	int x = reader_want_scalar(r, key);

	if (x < 0)
		return x;
	r->version =
		r->ev.data.scalar.style == YAML_PLAIN_SCALAR_STYLE && str_eq(reader_text(r), "1");
	return r->version ? 0 : reader_bad(r, "is not a version that this croft reads; it reads 1");
}

static int read_name(struct yaml_reader *r, const char *key)
{
	int x = keep_text(r, key, &agent_of(r)->name);

	if (x == 0 && !agent_name_valid(agent_of(r)->name))
		return reader_bad(r, "is not a name for an agent: small letters, digits and -, at most 32");
	return x;
}

static int read_title(struct yaml_reader *r, const char *key)
{
	return keep_text(r, key, &agent_of(r)->title);
}

static int read_note(struct yaml_reader *r, const char *key)
{
	return keep_text(r, key, &agent_of(r)->note);
}

static int read_unverified(struct yaml_reader *r, const char *key)
{
	int x = want_text(r, key);

	if (x < 0)
		return x;
	if (!str_eq(reader_text(r), "true") && !str_eq(reader_text(r), "false"))
		return reader_bad(r, "is neither true nor false");
	agent_of(r)->unverified = str_eq(reader_text(r), "true");
	return 0;
}

static int add_program(struct yaml_reader *r, const char *key)
{
	int x = want_text(r, key);

	if (x == 0 && (strchr(reader_text(r), '/') || reader_text(r)[0] == '.'))
		return reader_bad(r, "is not the name of a program; paths belong under \"look\"");
	return x < 0 ? x : add_text(r, &agent_of(r)->programs, reader_text(r));
}

/* A path as in a policy, without a pattern: it is looked for, and granted, as it is. */
static int want_path(struct yaml_reader *r, const char *key)
{
	const char *t;
	int x = want_text(r, key);

	if (x < 0)
		return x;
	t = reader_text(r);
	if (t[0] != '/' && !str_starts(t, "~/"))
		return reader_bad(r, "is neither absolute nor below ~");
	if (policy_has_glob(t))
		return reader_bad(r, "is a pattern; write the path");
	for (const char *p = t; (p = strstr(p, "..")); p += 2)
		if (p[-1] == '/' && (p[2] == '/' || !p[2]))
			return reader_bad(r, "holds \"..\"");
	return 0;
}

static int add_path(struct yaml_reader *r, const char *key)
{
	struct agent *a = agent_of(r);
	int x = want_path(r, key);

	return x < 0 ? x
		     : add_text(r,
			       str_eq(key, "look")   ? &a->look
			       : str_eq(key, "view") ? &a->view
						     : &a->read,
			       reader_text(r));
}

static int read_paths(struct yaml_reader *r, const char *key)
{
	return reader_list(r, key, add_path, key);
}

static int read_names(struct yaml_reader *r, const char *key)
{
	return reader_list(r, key, add_program, key);
}

static int add_host(struct yaml_reader *r, const char *key)
{
	struct agent *a = agent_of(r);
	int x = want_text(r, key);

	if (x == 0 && strpbrk(reader_text(r), ":=/@ "))
		return reader_bad(r, "is not a host");
	return x < 0 ? x
		     : add_text(r,
			       str_eq(key, "hosts")        ? &a->hosts
			       : str_eq(key, "websockets") ? &a->websockets
							   : &a->telemetry,
			       reader_text(r));
}

static int read_hosts(struct yaml_reader *r, const char *key)
{
	return reader_list(r, key, add_host, key);
}

static int add_variable(struct yaml_reader *r, const char *key)
{
	int x = want_text(r, key);

	if (x == 0 && !is_variable(reader_text(r), strlen(reader_text(r))))
		return reader_bad(r, "is not the name of a variable");
	return x < 0 ? x : add_text(r, &agent_of(r)->pass, reader_text(r));
}

static int read_pass(struct yaml_reader *r, const char *key)
{
	return reader_list(r, key, add_variable, key);
}

static int read_assignments(struct yaml_reader *r, const char *key, struct strlist *ret)
{
	int x = reader_want(r, YAML_MAPPING_START_EVENT, key, "a mapping (NAME: value)");

	while (x == 0 && (x = reader_next(r)) == 0 && r->ev.type != YAML_MAPPING_END_EVENT) {
		char line[TEXT_MAX_B + 160];
		size_t n;

		x = want_text(r, "a variable name");
		if (x < 0)
			break;
		if (!is_variable(reader_text(r), strlen(reader_text(r))))
			return reader_bad(r, "is not the name of a variable");
		n = (size_t)snprintf(line, sizeof(line), "%.127s=", reader_text(r));
		x = reader_next(r);
		if (x == 0)
			x = want_text(r, "the value of a variable");
		if (x < 0)
			break;
		snprintf(line + n, sizeof(line) - n, "%.1024s", reader_text(r));
		x = add_text(r, ret, line);
	}
	return x;
}

static int read_set(struct yaml_reader *r, const char *key)
{
	return read_assignments(r, key, &agent_of(r)->set);
}

static int read_root_set(struct yaml_reader *r, const char *key)
{
	return read_assignments(r, key, &agent_of(r)->root_set);
}

static int add_argument(struct yaml_reader *r, const char *key)
{
	int x = want_text(r, "an argument");

	return x < 0 ? x : add_text(r, &agent_of(r)->arguments, reader_text(r));
}

static int add_root_argument(struct yaml_reader *r, const char *key)
{
	int x = want_text(r, "an argument");

	return x < 0 ? x : add_text(r, &agent_of(r)->root_arguments, reader_text(r));
}

static int read_arguments(struct yaml_reader *r, const char *key)
{
	return reader_list(r, key, add_argument, key);
}

static int read_root_arguments(struct yaml_reader *r, const char *key)
{
	return reader_list(r, key, add_root_argument, key);
}

/* ---- sections ---- */

static int read_program(struct yaml_reader *r, const char *key)
{
	static const struct reader_key keys[] = {
		{"names", read_names}, {"look", read_paths}, {"read", read_paths}};

	return reader_mapping(r, key, keys, ARRAY_SIZE(keys));
}

static int read_environment(struct yaml_reader *r, const char *key)
{
	static const struct reader_key keys[] = {{"pass", read_pass}, {"set", read_set}};

	return reader_mapping(r, key, keys, ARRAY_SIZE(keys));
}

static int read_root(struct yaml_reader *r, const char *key)
{
	static const struct reader_key keys[] = {
		{"set", read_root_set}, {"arguments", read_root_arguments}};

	return reader_mapping(r, key, keys, ARRAY_SIZE(keys));
}

static int read_key_part(struct yaml_reader *r, const char *key)
{
	struct agent_key *k = &agent_of(r)->keys[agent_of(r)->keys_n - 1];
	char **to = str_eq(key, "name")    ? &k->name
		    : str_eq(key, "host")  ? &k->host
		    : str_eq(key, "place") ? &k->place
					   : &k->field;
	int x = keep_text(r, key, to);

	if (x < 0)
		return x;
	if (str_eq(key, "name") && !is_variable(*to, strlen(*to)))
		return reader_bad(r, "is not the name of a variable");
	/* They become one word with signs between: whether it says something is the policy's to judge. */
	if (!str_eq(key, "name") && strpbrk(*to, "@:= "))
		return reader_bad(r, "holds a sign that it cannot hold");
	return 0;
}

static int add_key(struct yaml_reader *r, const char *key)
{
	static const struct reader_key keys[] = {{"name", read_key_part}, {"host", read_key_part},
		{"place", read_key_part}, {"field", read_key_part}};
	struct agent *a = agent_of(r);
	struct agent_key *k;
	int x;

	if (a->keys_n == AGENT_KEYS_MAX) {
		err_invalid(r->e, "more than %u keys", AGENT_KEYS_MAX);
		return reader_fail(r);
	}
	k = &a->keys[a->keys_n++];
	x = reader_mapping(r, "a key", keys, ARRAY_SIZE(keys));
	if (x < 0)
		return x;
	if (!k->name || !k->host || (k->field && !k->place)) {
		err_invalid(r->e, "a key needs \"name\" and \"host\", and \"field\" needs \"place\"");
		return reader_fail(r);
	}
	return 0;
}

static int read_keys(struct yaml_reader *r, const char *key)
{
	return reader_entries(r, key, add_key, key);
}

static const struct reader_key top_keys[] = {{"version", read_version}, {"name", read_name},
	{"title", read_title}, {"note", read_note}, {"unverified", read_unverified},
	{"program", read_program}, {"hosts", read_hosts}, {"websockets", read_hosts},
	{"telemetry", read_hosts}, {"keys", read_keys}, {"view", read_paths},
	{"environment", read_environment}, {"arguments", read_arguments}, {"root", read_root}};

static int check_bytes(const char *file, const char *text, size_t len, struct err *e)
{
	if (len > AGENT_FILE_MAX_B)
		return err_invalid(e, "%s: an agent file may hold at most %u bytes", file,
			AGENT_FILE_MAX_B);
	for (size_t i = 0, n; i < len; i += n) {
		n = utf8_len(text + i, len - i);
		if (n == 0 || text[i] == '\0')
			return err_invalid(e, "%s: the text is not UTF-8", file);
	}
	return 0;
}

int agent_parse(struct agent *ret, const char *file, const char *name, const char *text, size_t len,
	struct err *e)
{
	struct yaml_reader r = {.name = file, .noun = "agent file", .into = ret, .e = e};
	int x;

	agent_init(ret);
	x = check_bytes(file, text, len, e);
	if (x == 0)
		x = reader_run(&r, text, len, top_keys, ARRAY_SIZE(top_keys));
	if (x == 0 && (!ret->name || ret->programs.n == 0))
		x = err_invalid(e, "%s: an agent needs \"name\" and \"program: {names: […]}\"", file);
	if (x == 0 && name && !str_eq(name, ret->name))
		x = err_invalid(e, "%s: the agent in it is called %s", file, ret->name);
	if (x == 0 && !(ret->file = strdup(file)))
		x = err_set(e, ENOMEM, "read %s", file);
	if (x < 0)
		agent_done(ret);
	return x;
}
