/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rule cannot name: the host itself, metadata services, and wildcards over domains that
 * belong to everybody.
 *
 * The dialler refuses forbidden addresses whatever the rules say (net/reach/addr.h), so the tables here
 * add no protection to that floor; they make a policy that asks for such a thing an error before
 * anything runs. For names they are a second floor: a wildcard that happens to cover one does not
 * grant it.
 */
#include <string.h>

#include "base/cleanup.h"
#include "policy/net/net_impl.h"

/* ---- names ---- */

static const struct {
	const char *pattern, *why;
} forbidden_names[] = {
	{"localhost", "is the sandbox itself"},
	{"**.localhost", "is the sandbox itself"},
	{"localhost.localdomain", "is the sandbox itself"},
	{"ip6-localhost", "is the sandbox itself"},
	{"ip6-loopback", "is the sandbox itself"},
	{"metadata", "is a cloud's metadata service"},
	{"metadata.google.internal", "is the cloud's metadata service"},
	{"metadata.goog", "is the cloud's metadata service"},
	{"instance-data", "is the cloud's metadata service"},
	{"instance-data.ec2.internal", "is the cloud's metadata service"},
	{"metadata.azure.internal", "is the cloud's metadata service"},
	{"metadata.tencentyun.com", "is the cloud's metadata service"},
	{"metadata.platformequinix.com", "is the cloud's metadata service"},
	{"host.docker.internal", "is this machine; see host-ports"},
	{"gateway.docker.internal", "is this machine; see host-ports"},
	{"host.containers.internal", "is this machine; see host-ports"},
	{"host.lima.internal", "is this machine; see host-ports"},
};

const char *net_name_forbidden(const char *host)
{
	for (size_t i = 0; i < ARRAY_SIZE(forbidden_names); i++)
		if (net_host_matches(forbidden_names[i].pattern, host))
			return forbidden_names[i].why;
	return NULL;
}

/* ---- addresses ---- */

#define V4(a, b, c, d, n)                                                                          \
	{                                                                                          \
		{false, {a, b, c, d}}, n                                                           \
	}
#define V6(n, ...)                                                                                 \
	{                                                                                          \
		{true, {__VA_ARGS__}}, n                                                           \
	}

static const struct {
	struct net_cidr range;
	const char *why;
} forbidden_ranges[] = {
	{V4(0, 0, 0, 0, 8), "is this machine"},
	{V4(127, 0, 0, 0, 8), "is loopback"},
	{V4(169, 254, 0, 0, 16), "is link-local, where metadata services are"},
	{V4(168, 63, 129, 16, 32), "is a cloud's platform service"},
	{V4(100, 100, 100, 200, 32), "is a cloud's metadata service"},
	{V4(192, 0, 0, 192, 32), "is a cloud's metadata service"},
	{V4(198, 18, 0, 0, 15), "is the range of croft's own synthetic addresses"},
	{V4(224, 0, 0, 0, 4), "is multicast"},
	{V4(240, 0, 0, 0, 4), "is reserved"},
	{V6(96, 0), "is loopback, unspecified, or IPv4 in disguise; write the IPv4 address"},
	{V6(96, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff),
		"is IPv4 in disguise; write the IPv4 address"},
	{V6(96, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0),
		"is IPv4 in disguise; write the IPv4 address"},
	{V6(96, 0, 0x64, 0xff, 0x9b), "is IPv4 in disguise; write the IPv4 address"},
	{V6(48, 0, 0x64, 0xff, 0x9b, 0, 1), "is IPv4 in disguise; write the IPv4 address"},
	{V6(16, 0x20, 0x02), "is IPv4 in disguise; write the IPv4 address"},
	{V6(32, 0x20, 0x01, 0, 0), "is IPv4 in disguise; write the IPv4 address"},
	{V6(10, 0xfe, 0x80), "is link-local"},
	{V6(8, 0xff), "is multicast"},
	{V6(128, 0xfd, 0, 0x0e, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54),
		"is the cloud's metadata service"},
	{V6(48, 0xfd, 0x63, 0x72, 0x6f, 0x66, 0x74),
		"is the range of croft's own synthetic addresses"},
};

static const struct net_cidr private_ranges[] = {
	V4(10, 0, 0, 0, 8),
	V4(172, 16, 0, 0, 12),
	V4(192, 168, 0, 0, 16),
	V4(100, 64, 0, 0, 10),
	V4(192, 0, 0, 0, 24),
	V6(7, 0xfc),
	V6(10, 0xfe, 0xc0),
};

const char *net_cidr_forbidden(const struct net_cidr *c)
{
	if (c->bits == 0)
		return "is every address; name the ranges";
	for (size_t i = 0; i < ARRAY_SIZE(forbidden_ranges); i++)
		if (net_cidr_within(c, &forbidden_ranges[i].range))
			return forbidden_ranges[i].why;
	return NULL;
}

bool net_cidr_private(const struct net_cidr *c)
{
	for (size_t i = 0; i < ARRAY_SIZE(private_ranges); i++)
		if (net_cidr_overlap(c, &private_ranges[i]))
			return true;
	return false;
}

/* ---- suffixes under which anyone may have a name ---- */

/*
 * Registries' second level, then hosting platforms. Single labels need no table: all are refused.
 */
static const char *const public_suffixes[] = {
	/* registries */
	"ac.jp", "ac.nz", "ac.uk", "ac.za", "asn.au", "co.at", "co.id", "co.il", "co.in", "co.jp",
	"co.ke", "co.kr", "co.nz", "co.th", "co.tz", "co.ug", "co.uk", "co.uz", "co.za", "co.zw",
	"com.ar", "com.au", "com.bd", "com.br", "com.cn", "com.co", "com.cy", "com.ec", "com.eg",
	"com.es", "com.gh", "com.gr", "com.gt", "com.hk", "com.kw", "com.lb", "com.mt", "com.mx",
	"com.my", "com.ng", "com.np", "com.pe", "com.ph", "com.pk", "com.pl", "com.pt", "com.py",
	"com.ru", "com.sa", "com.sg", "com.tr", "com.tw", "com.ua", "com.uy", "com.ve", "com.vn",
	"edu.au", "edu.cn", "eu.org", "firm.in", "gen.in", "gob.mx", "gov.au", "gov.br", "gov.cn",
	"gov.in", "gov.uk", "go.jp", "govt.nz", "id.au", "ind.in", "ltd.uk", "me.uk", "ne.jp",
	"net.au", "net.br", "net.cn", "net.in", "net.nz", "net.uk", "nhs.uk", "nom.br", "or.at",
	"or.jp", "or.kr", "org.au", "org.br", "org.cn", "org.in", "org.il", "org.mx", "org.nz",
	"org.pl", "org.tr", "org.tw", "org.uk", "org.za", "plc.uk", "sch.uk", "uk.com", "us.com",
	"eu.com", "de.com", "cn.com", "br.com",
	/* code and pages */
	"github.io", "gitlab.io", "githubpreview.dev", "github.dev", "app.github.dev",
	"githubusercontent.com", "bitbucket.io", "codeberg.page", "pages.dev", "workers.dev",
	"r2.dev", "trycloudflare.com", "cloudflarestorage.com", "r2.cloudflarestorage.com",
	"netlify.app", "vercel.app", "vercel.dev", "now.sh", "surge.sh", "render.com",
	"onrender.com", "fly.dev", "railway.app", "up.railway.app", "deno.dev", "glitch.me",
	"repl.co", "replit.app", "replit.dev", "stackblitz.io", "webcontainer.io", "csb.app",
	"codesandbox.io", "gitpod.io", "hf.space", "streamlit.app", "readthedocs.io",
	"neocities.org", "notion.site", "webflow.io", "wixsite.com", "weebly.com", "wordpress.com",
	"blogspot.com", "blogger.com", "myshopify.com", "supabase.co", "supabase.in",
	"convex.cloud", "lovable.app", "bolt.host",
	/* clouds */
	"amazonaws.com", "amazonaws.com.cn", "s3.amazonaws.com", "s3.us-east-1.amazonaws.com",
	"s3.us-west-2.amazonaws.com", "s3.eu-west-1.amazonaws.com", "s3.eu-central-1.amazonaws.com",
	"execute-api.us-east-1.amazonaws.com", "elb.amazonaws.com", "elasticbeanstalk.com",
	"on.aws", "lambda-url.us-east-1.on.aws", "cloudfront.net", "awsapprunner.com",
	"amplifyapp.com", "blob.core.windows.net", "file.core.windows.net", "web.core.windows.net",
	"core.windows.net", "azurewebsites.net", "azurestaticapps.net", "azureedge.net",
	"azurecontainer.io", "azurecontainerapps.io", "azure-api.net", "cloudapp.net",
	"cloudapp.azure.com", "trafficmanager.net", "azurefd.net", "appspot.com", "a.run.app",
	"run.app", "web.app", "firebaseapp.com", "firebaseio.com", "cloudfunctions.net",
	"storage.googleapis.com", "googleapis.com", "withgoogle.com", "translate.goog",
	"googleusercontent.com", "herokuapp.com", "herokudns.com", "digitaloceanspaces.com",
	"ondigitalocean.app", "linodeobjects.com", "backblazeb2.com", "wasabisys.com", "scw.cloud",
	"ovh.net", "oraclecloud.com", "aliyuncs.com", "myqcloud.com", "fastly.net",
	"global.ssl.fastly.net", "akamaized.net", "edgesuite.net", "edgekey.net", "b-cdn.net",
	"bunny.run", "kxcdn.com",
	/* tunnels and dynamic names */
	"ngrok.io", "ngrok.app", "ngrok.dev", "ngrok-free.app", "ngrok-free.dev", "loca.lt",
	"localtunnel.me", "serveo.net", "lhr.life", "pagekite.me", "devtunnels.ms", "ts.net",
	"duckdns.org", "no-ip.org", "no-ip.com", "ddns.net", "hopto.org", "dyndns.org", "dynu.net",
	"nip.io", "sslip.io", "xip.io", "afraid.org", "mooo.com", "oast.fun", "oast.pro",
	"oast.live", "oast.site", "interact.sh", "burpcollaborator.net", "webhook.site",
	"pipedream.net", "requestcatcher.com", "beeceptor.com"};

bool net_suffix_public(const char *suffix, bool any_depth)
{
	size_t n = strlen(suffix);

	if (!strchr(suffix, '.'))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(public_suffixes); i++) {
		const char *s = public_suffixes[i];
		size_t m = strlen(s);

		if (str_eq(s, suffix))
			return true;
		/* "**.windows.net" holds every container of blob.core.windows.net */
		if (any_depth && m > n && s[m - n - 1] == '.' && str_ends(s, suffix))
			return true;
	}
	return false;
}
