/* SPDX-License-Identifier: Apache-2.0 */
/* Predicates: see predicate.h. The trace of a command is in predicate_trace.c. */
#include "ledger/chain/predicate.h"

#include <assert.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "ledger/chain/predicate_impl.h"

static const char *const decision_names[DECISION_NUM] = {[DECISION_ACCEPTED] = "accepted",
	[DECISION_REJECTED] = "rejected",
	[DECISION_EDITED] = "edited"};
static_assert(DECISION_NUM == 3, "a decision without a name");

void predicate_opt(struct json *j, const char *key, const char *v)
{
	if (v)
		json_str(j, key, v);
}

void predicate_digest(struct json *j, const char *algorithm, const char *hex)
{
	json_object(j, "digest");
	json_str(j, algorithm, hex);
	json_end(j);
}

void predicate_policy(struct json *j, const char *key, const char *digest)
{
	if (!digest)
		return;
	json_object(j, key);
	json_str(j, "uri", "urn:croft:policy");
	predicate_digest(j, "sha256", digest);
	json_end(j);
}

void predicate_created(const struct predicate_created *c, struct buf *out)
{
	struct json j;

	json_init(&j, out, false);
	json_object(&j, "base");
	predicate_opt(&j, "gitCommit", c->base_commit);
	predicate_opt(&j, "gitTree", c->tree);
	json_end(&j);
	predicate_opt(&j, "workspace", c->workspace);
	predicate_policy(&j, "policy", c->policy_digest);
	predicate_opt(&j, "tierAsked", c->tier_asked);
	if (c->agent || c->model) {
		json_object(&j, "agent");
		predicate_opt(&j, "name", c->agent);
		predicate_opt(&j, "model", c->model);
		json_end(&j);
	}
	predicate_opt(&j, "task", c->task);
	if (c->parent_env) {
		json_object(&j, "parent");
		json_str(&j, "env", c->parent_env);
		if (c->parent_event)
			predicate_digest(&j, "sha256", c->parent_event);
		json_end(&j);
	}
	json_object(&j, "machine");
	predicate_opt(&j, "croft", c->croft_version);
	predicate_opt(&j, "kernel", c->kernel);
	json_end(&j);
}

/* ------------------------------------------------------------------ review */

static void decisions(const struct predicate_review *v, struct json *j)
{
	json_array(j, "decisions");
	for (size_t i = 0; i < v->paths_n && i < PREDICATE_LIST_MAX; i++) {
		const struct predicate_path *p = &v->paths[i];

		json_object(j, NULL);
		json_str(j, "path", p->path);
		json_str(j, "decision", decision_names[p->decision]);
		predicate_opt(j, "comment", p->comment);
		json_end(j);
	}
	json_end(j);
	if (v->paths_n > PREDICATE_LIST_MAX)
		json_uint(j, "decisionsBeyondLimit", v->paths_n - PREDICATE_LIST_MAX);
}

static void inputs(const struct predicate_review *v, struct json *j)
{
	json_array(j, "inputAttestations");
	for (size_t i = 0; i < v->inputs_n && i < PREDICATE_LIST_MAX; i++) {
		json_object(j, NULL);
		json_str(j, "uri", "urn:croft:event");
		predicate_digest(j, "sha256", v->inputs[i]);
		json_end(j);
	}
	json_end(j);
}

/* Who looked, at what, and what came of it: a verification summary. */
void predicate_review(const struct predicate_review *v, struct buf *out)
{
	struct json j;

	json_init(&j, out, false);
	json_object(&j, "verifier");
	json_str(&j, "id", v->verifier);
	json_end(&j);
	predicate_opt(&j, "timeVerified", v->time);
	predicate_opt(&j, "resourceUri", v->resource_uri);
	predicate_policy(&j, "policy", v->policy_digest);
	inputs(v, &j);
	json_str(&j, "verificationResult", v->passed ? "PASSED" : "FAILED");
	/* croft claims no level of SLSA's for a person's look at a change. */
	json_array(&j, "verifiedLevels");
	json_str(&j, NULL, v->passed ? "CROFT_REVIEWED" : "FAILED");
	json_end(&j);
	predicate_opt(&j, "treeShown", v->tree_shown);
	predicate_opt(&j, "treeAccepted", v->tree_accepted);
	decisions(v, &j);
	predicate_opt(&j, "comment", v->comment);
}

/* ------------------------------------------------------------------ landing */

static void dependency(struct json *j, const char *uri, const char *commit, const char *name)
{
	if (!commit)
		return;
	json_object(j, NULL);
	json_str(j, "name", name);
	json_str(j, "uri", uri ? uri : "git+file:.");
	predicate_digest(j, "gitCommit", commit);
	json_end(j);
}

static void definition(const struct predicate_applied *a, struct json *j)
{
	json_object(j, "buildDefinition");
	json_str(j, "buildType", "urn:croft:landing:v1");
	json_object(j, "externalParameters");
	json_str(j, "env", a->env_id);
	json_str(j, "mode", a->mode);
	json_array(j, "paths");
	for (size_t i = 0; i < a->paths_n && i < PREDICATE_LIST_MAX; i++)
		json_str(j, NULL, a->paths[i]);
	json_end(j);
	json_end(j);
	json_object(j, "internalParameters");
	predicate_opt(j, "policyDigest", a->policy_digest);
	if (a->paths_n > PREDICATE_LIST_MAX)
		json_uint(j, "pathsBeyondLimit", a->paths_n - PREDICATE_LIST_MAX);
	json_end(j);
	json_array(j, "resolvedDependencies");
	dependency(j, a->repository_uri, a->base_commit, "base");
	dependency(j, a->repository_uri, a->target_commit, "target");
	json_end(j);
	json_end(j);
}

static void byproduct(struct json *j, const char *name, const char *algorithm, const char *value)
{
	if (!value)
		return;
	json_object(j, NULL);
	json_str(j, "name", name);
	predicate_digest(j, algorithm, value);
	json_end(j);
}

/* One builder for each tier: evidence from a weak boundary must not look like that of a strong one. */
static void details(const struct predicate_applied *a, struct json *j)
{
	json_object(j, "runDetails");
	json_object(j, "builder");
	json_strf(j, "id", "urn:croft:tier:%s:v1", a->tier ? a->tier : "none");
	if (a->croft_version) {
		json_object(j, "version");
		json_str(j, "croft", a->croft_version);
		json_end(j);
	}
	json_end(j);
	json_object(j, "metadata");
	predicate_opt(j, "invocationId", a->invocation_id);
	predicate_opt(j, "startedOn", a->started);
	predicate_opt(j, "finishedOn", a->finished);
	json_end(j);
	json_array(j, "byproducts");
	byproduct(j, "tree", "gitTree", a->tree);
	byproduct(j, "commit", "gitCommit", a->commit);
	byproduct(j, "evidence", "sha256", a->evidence);
	json_end(j);
	json_end(j);
}

void predicate_applied(const struct predicate_applied *a, struct buf *out)
{
	struct json j;

	json_init(&j, out, false);
	definition(a, &j);
	details(a, &j);
	predicate_opt(&j, "branch", a->branch);
}

/* ------------------------------------------------------------------ others */

void predicate_plain(const struct predicate_member *v, size_t n, struct buf *out)
{
	struct json j;

	json_init(&j, out, false);
	for (size_t i = 0; i < n; i++)
		predicate_opt(&j, v[i].name, v[i].value);
}
