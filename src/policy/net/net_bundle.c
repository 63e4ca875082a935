/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bundles: what a kind of work needs of the network, as capabilities and not as hosts.
 *
 * Every rule is read-only by its mode (`registry` carries GET and HEAD without a body, `git`
 * without push carries fetches) or names the few methods and paths it needs, so that an allowed
 * registry is no place to publish to, and an allowed API no place to store files. Hosts that only
 * take uploads are not here at all (upload.pypi.org, uploads.github.com).
 */
#include <string.h>

#include "base/cleanup.h"
#include "policy/net/net_impl.h"

#define BUNDLE_PATHS_MAX 14

struct bundle_rule {
	const char *name; /* behind "bundle/" */
	const char *host;
	enum net_mode mode;
	bool plain; /* port 80 as well */
	const char *method;
	const char *paths[BUNDLE_PATHS_MAX]; /* none: any */
};

static const struct bundle_rule npm[] = {
	{"registry.npmjs.org", "registry.npmjs.org", NET_REGISTRY, false, NULL,
		{"/*", "/*/*", "/*/*/*", "/*/-/*", "/@*/*/-/*", "/-/v1/search",
			"/-/package/*/dist-tags"}},
	{"registry.yarnpkg.com", "registry.yarnpkg.com", NET_REGISTRY, false, NULL,
		{"/*", "/*/*", "/*/*/*", "/*/-/*", "/@*/*/-/*"}},
	{"nodejs.org", "nodejs.org", NET_REGISTRY, false, NULL, {"/dist/**", "/download/**"}},
};

static const struct bundle_rule pypi[] = {
	{"pypi.org", "pypi.org", NET_REGISTRY, false, NULL,
		{"/simple/**", "/pypi/*/json", "/pypi/*/*/json", "/integrity/**"}},
	{"files.pythonhosted.org", "files.pythonhosted.org", NET_REGISTRY, false, NULL,
		{"/packages/**"}},
};

static const struct bundle_rule crates[] = {
	{"index.crates.io", "index.crates.io", NET_REGISTRY, false, NULL, {"/**"}},
	{"static.crates.io", "static.crates.io", NET_REGISTRY, false, NULL, {"/crates/**"}},
	{"crates.io", "crates.io", NET_REGISTRY, false, NULL,
		{"/api/v1/crates", "/api/v1/crates/*", "/api/v1/crates/*/*",
			"/api/v1/crates/*/*/download"}},
	{"static.rust-lang.org", "static.rust-lang.org", NET_REGISTRY, false, NULL,
		{"/dist/**", "/rustup/**"}},
};

static const struct bundle_rule go[] = {
	{"proxy.golang.org", "proxy.golang.org", NET_REGISTRY, false, NULL, {"/**"}},
	{"sum.golang.org", "sum.golang.org", NET_REGISTRY, false, NULL,
		{"/lookup/**", "/tile/**", "/latest", "/supported"}},
	{"storage.googleapis.com", "storage.googleapis.com", NET_REGISTRY, false, NULL,
		{"/proxy-golang-org-prod/**"}},
};

/* Packages are signed, and these mirrors are used without TLS. */
static const struct bundle_rule debian[] = {
	{"deb.debian.org", "deb.debian.org", NET_REGISTRY, true, NULL,
		{"/debian/**", "/debian-security/**", "/debian-debug/**"}},
	{"security.debian.org", "security.debian.org", NET_REGISTRY, true, NULL,
		{"/debian-security/**", "/dists/**", "/pool/**"}},
	{"ftp.debian.org", "ftp.debian.org", NET_REGISTRY, true, NULL, {"/debian/**"}},
	{"snapshot.debian.org", "snapshot.debian.org", NET_REGISTRY, true, NULL, {"/archive/**"}},
};

static const struct bundle_rule ubuntu[] = {
	{"archive.ubuntu.com", "archive.ubuntu.com", NET_REGISTRY, true, NULL, {"/ubuntu/**"}},
	{"mirrors", "*.archive.ubuntu.com", NET_REGISTRY, true, NULL, {"/ubuntu/**"}},
	{"security.ubuntu.com", "security.ubuntu.com", NET_REGISTRY, true, NULL, {"/ubuntu/**"}},
	{"ports.ubuntu.com", "ports.ubuntu.com", NET_REGISTRY, true, NULL, {"/**"}},
};

static const struct bundle_rule alpine[] = {
	{"dl-cdn.alpinelinux.org", "dl-cdn.alpinelinux.org", NET_REGISTRY, true, NULL,
		{"/alpine/**"}},
};

static const struct bundle_rule maven[] = {
	{"repo.maven.apache.org", "repo.maven.apache.org", NET_REGISTRY, false, NULL,
		{"/maven2/**"}},
	{"repo1.maven.org", "repo1.maven.org", NET_REGISTRY, false, NULL, {"/maven2/**"}},
	{"plugins.gradle.org", "plugins.gradle.org", NET_REGISTRY, false, NULL, {"/m2/**"}},
	{"services.gradle.org", "services.gradle.org", NET_REGISTRY, false, NULL,
		{"/distributions/**", "/versions/**"}},
};

static const struct bundle_rule rubygems[] = {
	{"rubygems.org", "rubygems.org", NET_REGISTRY, false, NULL,
		{"/gems/**", "/downloads/**", "/info/*", "/versions", "/names", "/quick/**",
			"/specs.4.8.gz", "/latest_specs.4.8.gz", "/prerelease_specs.4.8.gz",
			"/api/v1/dependencies", "/api/v1/gems/*", "/api/v1/versions/*"}},
	{"index.rubygems.org", "index.rubygems.org", NET_REGISTRY, false, NULL,
		{"/info/*", "/versions", "/names"}},
};

static const struct bundle_rule github_read[] = {
	{"github.com", "github.com", NET_GIT, false, NULL, {NULL}},
	{"downloads", "github.com", NET_REGISTRY, false, NULL,
		{"/*/*/archive/**", "/*/*/releases/download/**", "/*/*/releases/latest/download/**",
			"/*/*/raw/**", "/*/*/tarball/**", "/*/*/zipball/**"}},
	{"api.github.com", "api.github.com", NET_REGISTRY, false, NULL,
		{"/repos/**", "/orgs/*", "/orgs/*/repos", "/users/*", "/users/*/repos",
			"/search/**", "/rate_limit", "/licenses/**", "/"}},
	{"codeload.github.com", "codeload.github.com", NET_REGISTRY, false, NULL, {"/**"}},
	{"raw.githubusercontent.com", "raw.githubusercontent.com", NET_REGISTRY, false, NULL,
		{"/**"}},
	{"objects.githubusercontent.com", "objects.githubusercontent.com", NET_REGISTRY, false,
		NULL, {"/**"}},
	{"release-assets.githubusercontent.com", "release-assets.githubusercontent.com",
		NET_REGISTRY, false, NULL, {"/**"}},
};

static const struct bundle_rule gitlab_read[] = {
	{"gitlab.com", "gitlab.com", NET_GIT, false, NULL, {NULL}},
	{"downloads", "gitlab.com", NET_REGISTRY, false, NULL,
		{"/**/-/archive/**", "/**/-/raw/**", "/**/-/releases/**", "/api/v4/projects/**",
			"/api/v4/groups/*", "/api/v4/groups/*/projects"}},
};

static const struct bundle_rule docker[] = {
	{"registry-1.docker.io", "registry-1.docker.io", NET_REGISTRY, false, NULL,
		{"/v2/", "/v2/*/*/manifests/*", "/v2/*/*/blobs/*", "/v2/*/*/tags/list",
			"/v2/*/*/referrers/*"}},
	{"auth.docker.io", "auth.docker.io", NET_REGISTRY, false, NULL, {"/token"}},
	{"production.cloudflare.docker.com", "production.cloudflare.docker.com", NET_REGISTRY,
		false, NULL, {"/registry-v2/**"}},
	{"r2.cloudflarestorage.com",
		"docker-images-prod.6aa30f8b08e16409b46e0173d6de2f56.r2.cloudflarestorage.com",
		NET_REGISTRY, false, NULL, {"/registry-v2/**"}},
};

static const struct bundle_rule huggingface_read[] = {
	{"huggingface.co", "huggingface.co", NET_REGISTRY, false, NULL,
		{"/api/models/**", "/api/datasets/**", "/api/spaces/**", "/api/resolve-cache/**",
			"/*/resolve/**", "/*/*/resolve/**", "/*/*/raw/**", "/*/raw/**",
			"/datasets/*/resolve/**", "/datasets/*/*/resolve/**",
			"/datasets/*/*/raw/**", "/spaces/*/*/resolve/**"}},
	{"cdn-lfs.huggingface.co", "cdn-lfs.huggingface.co", NET_REGISTRY, false, NULL, {"/**"}},
	{"cdn-lfs.hf.co", "cdn-lfs.hf.co", NET_REGISTRY, false, NULL, {"/**"}},
	{"cdn-lfs-us-1.hf.co", "cdn-lfs-us-1.hf.co", NET_REGISTRY, false, NULL, {"/**"}},
	{"cdn-lfs-eu-1.hf.co", "cdn-lfs-eu-1.hf.co", NET_REGISTRY, false, NULL, {"/**"}},
	{"cas-bridge.xethub.hf.co", "cas-bridge.xethub.hf.co", NET_REGISTRY, false, NULL, {"/**"}},
	{"cas-server.xethub.hf.co", "cas-server.xethub.hf.co", NET_REGISTRY, false, NULL, {"/**"}},
	{"transfer.xethub.hf.co", "transfer.xethub.hf.co", NET_REGISTRY, false, NULL, {"/**"}},
};

static const struct bundle_rule anthropic_api[] = {
	{"messages", "api.anthropic.com", NET_HTTP, false, "POST",
		{"/v1/messages", "/v1/messages/count_tokens", "/v1/complete"}},
	{"models", "api.anthropic.com", NET_REGISTRY, false, NULL, {"/v1/models", "/v1/models/*"}},
};

static const struct bundle_rule openai_api[] = {
	{"generate", "api.openai.com", NET_HTTP, false, "POST",
		{"/v1/chat/completions", "/v1/responses", "/v1/completions", "/v1/embeddings",
			"/v1/moderations"}},
	{"models", "api.openai.com", NET_REGISTRY, false, NULL, {"/v1/models", "/v1/models/*"}},
};

#define BUNDLE(id)                                                                                 \
	{                                                                                          \
		id, ARRAY_SIZE(id)                                                                 \
	}
static const struct {
	const struct bundle_rule *rules;
	size_t n;
} bundles[] = {BUNDLE(npm), BUNDLE(pypi), BUNDLE(crates), BUNDLE(go), BUNDLE(debian),
	BUNDLE(ubuntu), BUNDLE(alpine), BUNDLE(maven), BUNDLE(rubygems), BUNDLE(github_read),
	BUNDLE(gitlab_read), BUNDLE(docker), BUNDLE(huggingface_read), BUNDLE(anthropic_api),
	BUNDLE(openai_api)};

const char *const net_bundle_names[] = {"npm", "pypi", "crates", "go", "debian", "ubuntu", "alpine",
	"maven", "rubygems", "github-read", "gitlab-read", "docker", "huggingface-read",
	"anthropic-api", "openai-api"};
const size_t net_bundle_names_n = ARRAY_SIZE(net_bundle_names);
_Static_assert(ARRAY_SIZE(net_bundle_names) == ARRAY_SIZE(bundles), "one name per bundle");

const char *net_bundle_host(size_t bundle, size_t n)
{
	return n < bundles[bundle].n ? bundles[bundle].rules[n].host : NULL;
}

const char *net_bundle_of(const char *host, uint16_t port)
{
	for (size_t i = 0; i < ARRAY_SIZE(bundles); i++)
		for (size_t k = 0; k < bundles[i].n; k++) {
			const struct bundle_rule *r = &bundles[i].rules[k];

			if (str_eq(r->host, host) &&
				(port == 0 || port == 443 || (port == 80 && r->plain)))
				return net_bundle_names[i];
		}
	return NULL;
}

/* By the same way as a rule that somebody wrote, so that the tables are checked as well. */
static int add_rule(struct policy_layer *l, const char *bundle, const struct bundle_rule *b,
	struct layer_pos at, struct err *e)
{
	struct net_draft d = {.rule.effect = NET_ALLOW, .at = at};
	size_t n = strlen(bundle);
	char *name = arena_text(&l->arena, n + strlen(b->name) + 2);
	int r;

	if (!name)
		return err_set(e, ENOMEM, "expand %s", bundle);
	memcpy(name, bundle, n);
	name[n] = '/';
	memcpy(name + n + 1, b->name, strlen(b->name) + 1);
	d.rule.name = name;
	r = net_draft_value(l, &d, NK_HOST, b->host, at, e);
	if (r == 0)
		r = net_draft_value(l, &d, NK_MODE, net_mode_names[b->mode], at, e);
	if (r == 0)
		r = net_draft_value(l, &d, NK_PORTS, "443", at, e);
	if (r == 0 && b->plain)
		r = net_draft_value(l, &d, NK_PORTS, "80", at, e);
	if (r == 0 && b->method)
		r = net_draft_value(l, &d, NK_METHODS, b->method, at, e);
	for (size_t i = 0; r == 0 && i < BUNDLE_PATHS_MAX && b->paths[i]; i++)
		r = net_draft_value(l, &d, NK_PATHS, b->paths[i], at, e);
	return r < 0 ? r : net_draft_finish(l, &d, e);
}

int net_bundle_add(struct policy_layer *l, const char *name, struct layer_pos at, struct err *e)
{
	size_t i = 0, had = l->net.use.n;
	int r = 0;

	while (i < net_bundle_names_n && !str_eq(name, net_bundle_names[i]))
		i++;
	if (i == net_bundle_names_n)
		r = layer_unknown_word(e, "bundle", name, net_bundle_names, net_bundle_names_n);
	else
		r = layer_list_add(l, &l->net.use, name, at, e);
	if (r < 0)
		return layer_err(l, at, e);
	l->net.reach = true;
	if (l->net.use.n == had) /* said twice on a command line */
		return 0;
	for (size_t k = 0; r == 0 && k < bundles[i].n; k++)
		r = add_rule(l, name, &bundles[i].rules[k], at, e);
	return r;
}
