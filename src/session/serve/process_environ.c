/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The variables of one command of a session.
 *
 * Order:  as for a single run whose policy sets them: what croft itself says (HOME, CROFT_RUN, placeholders,
 *         proxies) wins over what the caller sets for this command, and that over the session's policy and
 *         over what is passed.
 * Hidden: values that a single run would keep out of its record. The session keeps them out of every record
 *         from then on, since a command can hand a value to any other one. So there is a maximum, and a
 *         command beyond it is refused.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "session/run/hidden.h"
#include "session/serve/process_impl.h"

#define LEARNT_MAX 512u         /* with those stored they stay below REDACT_VALUES_MAX */
#define LEARNT_MAX_B (1u << 20) /* a redactor takes some ten times as much */

/* NAME=VALUE; the name is allocated. */
static int set_one(struct policy *p, const char *text, struct err *e)
{
	const char *is = strchr(text, '=');
	size_t n = is ? (size_t)(is - text) : 0, i = 0;
	char *name;

	if (!n || n > POLICY_ENV_NAME_MAX)
		return err_invalid(
			e, "%.64s is not of the form NAME=VALUE", is ? "a variable" : text);
	if (strlen(is + 1) > POLICY_ENV_VALUE_MAX)
		return err_invalid(e, "the value of %.*s is longer than %u bytes", (int)n, text,
			POLICY_ENV_VALUE_MAX);
	name = strndup(text, n);
	if (!name)
		return err_set(e, ENOMEM, "environment");
	while (i < p->env_set_n && !str_eq(p->env_set[i].name, name))
		i++;
	if (i < p->env_set_n)
		free((char *)(uintptr_t)p->env_set[i].name);
	else
		p->env_set_n++;
	p->env_set[i] = (struct policy_var){name, is + 1};
	return 0;
}

static void forget_vars(struct policy *p)
{
	for (size_t i = 0; i < p->env_set_n; i++)
		free((char *)(uintptr_t)p->env_set[i].name);
	free(p->env_set);
}

/* The session's policy with this command's variables. */
static int set_variables(
	struct policy *ret, const struct policy *from, char *const *set, struct err *e)
{
	size_t n = from->env_set_n;

	*ret = *from;
	ret->env_set_n = 0;
	for (char *const *at = set; at && *at; at++)
		n++;
	ret->env_set = calloc(n + 1, sizeof(*ret->env_set));
	if (!ret->env_set)
		return err_set(e, ENOMEM, "environment");
	for (size_t i = 0; i < from->env_set_n; i++) {
		char *name = strdup(from->env_set[i].name);

		if (!name)
			return err_set(e, ENOMEM, "environment");
		ret->env_set[ret->env_set_n++] = (struct policy_var){name, from->env_set[i].value};
	}
	for (; set && *set; set++)
		if (set_one(ret, *set, e) < 0)
			return -e->errnum;
	return 0;
}

/* The session hides them from now on. */
static int learn(struct session *s, const struct redact *own, struct err *e)
{
	for (size_t i = 0; i < own->values.n; i++) {
		const char *value = own->values.v[i];
		size_t n = strlen(value);

		if (strlist_has(&s->hidden->values, value))
			continue;
		if (s->learnt_n >= LEARNT_MAX || s->learnt_b + n > LEARNT_MAX_B)
			return err_why(e, ERR_WHY_LIMIT,
				err_refuse(e,
					"%s keeps the values of %zu variables out of its record, "
					"and no "
					"more can be added (%s); end it (croft down %s) and start "
					"it again",
					s->o->name, s->learnt_n, own->names.v[i], s->o->name));
		if (redact_add(s->hidden, own->names.v[i], value, e) < 0)
			return -e->errnum;
		s->learnt_n++;
		s->learnt_b += n;
	}
	return 0;
}

int process_environ(struct process *p, const struct session_exec *x, struct strlist *ret,
	struct redact *ret_hidden, struct err *e)
{
	struct session *s = p->session;
	struct policy policy;
	int r = set_variables(&policy, s->o->q->policy, x->set, e);

	if (r == 0)
		r = hidden_know_variables(ret_hidden, &policy, x->environ, e);
	if (r == 0)
		r = hidden_know_stored(s->hidden, &s->stored, e);
	if (r == 0)
		r = learn(s, ret_hidden, e);
	if (r == 0)
		r = boundary_environ(
			&s->boundary, &policy, x->environ, p->receipt->cwd, p->receipt->id, ret, e);
	forget_vars(&policy);
	return r;
}
