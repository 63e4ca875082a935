/* SPDX-License-Identifier: Apache-2.0 */
/* libcroft: policies. Loading, and the reports about them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api_impl.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "session/config/layers.h"
#include "session/config/objects.h"

#define REPORT_MAX (256u << 20) /* POLICY_RULES_MAX rules of the longest paths, quoted */

int croft_policy_load(
	struct croft *c, const struct croft_policy_options *o, struct croft_policy **ret)
{
	cleanup_layers_info struct layers_info info = {0};
	struct layers_options lo = {0};
	struct croft_policy *p;
	int r;

	c->err = ERR_INIT;
	if (o)
		lo = (struct layers_options){.directory = o->directory,
			.policy_file = o->policy_file,
			.profile = o->profile,
			.tier = o->tier,
			.read = o->read,
			.write = o->write,
			.deny = o->deny,
			.hosts = o->hosts,
			.use = o->use,
			.secrets = o->secrets,
			.publish = o->publish,
			.host_ports = o->host_ports,
			.env = o->env,
			.set = o->set,
			.view = o->view,
			.write_runs = o->write_runs,
			.git = o->git,
			.added = o->added,
			.added_name = o->added_name};
	p = calloc(1, sizeof(*p));
	if (!p)
		return err_set(&c->err, ENOMEM, "load the policy");
	r = layers_load(&p->policy, &info, &lo, &c->err);
	if (r < 0) {
		free(p);
		return r;
	}
	p->home = take_ptr(info.home);
	p->workspace = take_ptr(info.workspace);
	p->cwd = take_ptr(info.cwd);
	p->workspace_dev = info.workspace_dev;
	p->workspace_ino = info.workspace_ino;
	p->project_trusted = info.project_trusted;
	*ret = p;
	return 0;
}

void croft_policy_free(struct croft_policy *p)
{
	if (!p)
		return;
	policy_done(&p->policy);
	free(p->home);
	free(p->workspace);
	free(p->cwd);
	free(p);
}

const char *croft_policy_digest(const struct croft_policy *p)
{
	return p->policy.digest.hex;
}

/* Give a finished report to the caller. */
static int report(struct croft *c, struct buf *b, char **ret)
{
	*ret = buf_take(b);
	return *ret ? 0 : err_set(&c->err, ENOMEM, "write the report");
}

int croft_policy_show(
	struct croft *c, const struct croft_policy *p, enum croft_format f, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX);

	c->err = ERR_INIT;
	if (f == CROFT_JSON) {
		policy_json(&p->policy, &b);
		buf_addc(&b, '\n');
	} else {
		policy_show(&p->policy, &b);
	}
	return report(c, &b, ret);
}

static void explain_json(const struct policy *p, const char *path, struct buf *out)
{
	const struct policy_rule *rule = NULL;
	enum access a = policy_access(p, path, &rule);
	struct json j;

	json_init(&j, out, true);
	json_object(&j, NULL);
	json_str(&j, "path", path);
	json_str(&j, "access", policy_access_names[a]);
	if (rule) {
		json_object(&j, "rule");
		json_str(&j, "access", policy_access_names[rule->access]);
		json_str(&j, "path", rule->path);
		json_bool(&j, "glob", rule->glob);
		json_bool(&j, "fixed", rule->capped);
		json_str(&j, "layer", policy_layer_names[rule->origin.layer]);
		json_str(&j, "file", rule->origin.file);
		if (rule->origin.line)
			json_uint(&j, "line", rule->origin.line);
		json_end(&j);
	} else {
		json_null(&j, "rule");
	}
	json_end(&j);
	buf_addc(out, '\n');
}

/* "host:port": what the network rules say of it. A path with a colon is written with its "./". */
static bool is_host(const char *text)
{
	const char *colon = strrchr(text, ':');

	return colon && colon != text && colon[1] &&
	       strspn(colon + 1, "0123456789") == strlen(colon + 1) && !strchr(text, '/') &&
	       text[0] != '.' && text[0] != '~';
}

int croft_policy_keys(struct croft *c, enum croft_format f, char **ret)
{
	cleanup_strlist struct strlist keys = STRLIST_INIT(POLICY_LIST_MAX);
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX);
	struct json j;

	c->err = ERR_INIT;
	if (!policy_keys(&keys))
		return err_set(&c->err, ENOMEM, "list the keys of a policy");
	if (f == CROFT_JSON) {
		json_init(&j, &b, true);
		json_array(&j, NULL);
		for (size_t i = 0; i < keys.n; i++)
			json_str(&j, NULL, keys.v[i]);
		json_end(&j);
		buf_addc(&b, '\n');
	}
	for (size_t i = 0; f != CROFT_JSON && i < keys.n; i++)
		buf_addf(&b, "%s\n", keys.v[i]);
	*ret = buf_take(&b);
	return *ret ? 0 : err_set(&c->err, ENOMEM, "list the keys of a policy");
}

/* The hosts of a bundle, each once. */
static void list_hosts(size_t bundle, struct strlist *ret)
{
	const char *host;

	for (size_t i = 0; (host = net_bundle_host(bundle, i)) != NULL; i++)
		if (!strlist_has(ret, host))
			strlist_add(ret, host);
}

int croft_policy_bundles(struct croft *c, enum croft_format f, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX);
	struct json j;

	c->err = ERR_INIT;
	json_init(&j, &b, true);
	if (f == CROFT_JSON)
		json_object(&j, NULL);
	for (size_t i = 0; i < net_bundle_names_n; i++) {
		cleanup_strlist struct strlist hosts = STRLIST_INIT(POLICY_LIST_MAX);

		list_hosts(i, &hosts);
		if (f == CROFT_JSON) {
			json_list(&j, net_bundle_names[i], &hosts);
			continue;
		}
		buf_addf(&b, "%-16s", net_bundle_names[i]);
		for (size_t k = 0; k < hosts.n; k++)
			buf_addf(&b, "%s %s", k ? "," : "", hosts.v[k]);
		buf_addc(&b, '\n');
	}
	if (f == CROFT_JSON) {
		json_end(&j);
		buf_addc(&b, '\n');
	}
	return api_give(c, 0, &b, ret);
}

static void explain_text(const struct croft_policy *p, const char *path, struct buf *out)
{
	struct policy asked = p->policy;

	asked.hold_home = p->home; /* where the names of a home directory are, for what to type */
	policy_explain(&asked, path, out);
}

int croft_policy_explain(struct croft *c, const struct croft_policy *p, const char *path,
	enum croft_format f, char **ret)
{
	struct policy_context ctx = {.home = p->home, .workspace = p->cwd};
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX);
	cleanup_free char *full = NULL;
	cleanup_buf struct buf relative = BUF_INIT(2 * POLICY_PATH_MAX);
	int r;

	c->err = ERR_INIT;
	if (is_host(path)) {
		policy_explain_host(&p->policy, path, &b);
		*ret = buf_take(&b);
		return *ret ? 0 : err_set(&c->err, ENOMEM, "explain %s", path);
	}
	/* A question may be put as the shell would: any relative path is below the current
	 * directory. */
	if (path[0] && path[0] != '/' && path[0] != '~') {
		buf_addf(&relative, "./%s", path);
		path = buf_str(&relative);
	}
	r = policy_path_expand(&full, path, &ctx, &c->err);
	if (r < 0)
		return r;
	if (f == CROFT_JSON)
		explain_json(&p->policy, full, &b);
	else
		explain_text(p, full, &b);
	return report(c, &b, ret);
}

int croft_policy_diff(struct croft *c, const struct croft_policy *a, const struct croft_policy *b,
	enum croft_format f, char **ret)
{
	cleanup_buf struct buf text = BUF_INIT(REPORT_MAX);
	cleanup_buf struct buf out = BUF_INIT(REPORT_MAX);
	size_t n;
	int r;

	c->err = ERR_INIT;
	n = policy_diff(&a->policy, &b->policy, &text);
	if (text.failed)
		return err_set(&c->err, ENOMEM, "compare policies");
	if (f == CROFT_JSON) {
		struct json j;

		json_init(&j, &out, true);
		json_object(&j, NULL);
		json_str(&j, "from", a->policy.digest.hex);
		json_str(&j, "to", b->policy.digest.hex);
		json_array(&j, "changes");
		for (const char *p = buf_str(&text); *p; p += strcspn(p, "\n") + 1) {
			json_object(&j, NULL);
			json_str(&j, "change", *p == '+' ? "added" : "removed");
			json_strn(&j, "what", p + 2, strcspn(p, "\n") - 2);
			json_end(&j);
		}
		json_end(&j);
		json_end(&j);
		buf_addc(&out, '\n');
	}
	r = report(c, f == CROFT_JSON ? &out : &text, ret);
	return r < 0 ? r : (int)n;
}

int croft_policy_check(struct croft *c, const char *file)
{
	c->err = ERR_INIT;
	return layers_check(file, &c->err);
}

int croft_policy_trust_objects(struct croft *c, const char *dir, bool revoke, char **ret_text)
{
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX);
	int r;

	c->err = ERR_INIT;
	r = objects_trust(dir, revoke, &b, &c->err);
	return r < 0 ? r : report(c, &b, ret_text);
}

int croft_policy_trust(struct croft *c, const char *file, bool revoke, char **ret_text)
{
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX);
	int r;

	c->err = ERR_INIT;
	r = layers_trust(file, revoke, &b, &c->err);
	return r < 0 ? r : report(c, &b, ret_text);
}
