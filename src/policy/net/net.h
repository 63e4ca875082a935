/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sandbox may reach: the network part of a policy, and its questions.
 *
 * Purpose: rules over names, ports and requests; decided the same way by the launcher (check,
 *          explain, diff) and by the gateway (every connection, every request).
 * Trust:   pure. Names and paths that come here are canonical already (net_name(), net/http/request.h);
 *          what is not canonical never matches.
 * Order:   floor -> ceiling -> denies of any layer -> allows -> ask -> deny. The floor about
 *          addresses (metadata, loopback, the host) is the dialler's, net/reach/addr.h: no rule can grant
 *          it.
 */
#ifndef CROFT_POLICY_NET_NET_H
#define CROFT_POLICY_NET_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "policy/policy.h"

#define NET_FIX_MAX 320u                       /* of what is suggested */
#define NET_NAME_MAX 253u                      /* characters of a host name */
#define NET_THIS_MACHINE "host.croft.internal" /* for `host-ports` */
#define NET_LOCALHOST "localhost"              /* the same for a port that is one of them */
#define NET_RULES_MAX 4096u
#define NET_PORTS_MAX 32u
#define NET_METHODS_MAX 32u
#define NET_PATHS_MAX 256u
#define NET_SECRETS_MAX 64u

enum net_effect { NET_DENY, NET_ASK, NET_ALLOW, NET_EFFECT_NUM };
enum net_mode {
	NET_TCP,      /* opaque bytes, by name */
	NET_TLS,      /* opaque TLS whose SNI is the bound name */
	NET_HTTP,     /* inspected HTTP/1.1 and HTTP/2, plain or intercepted TLS */
	NET_GIT,      /* HTTP, restricted to the Git smart protocol: repos, fetch, push, refs */
	NET_REGISTRY, /* HTTP, restricted to fetching packages: GET and HEAD without a body */
	NET_WS,       /* HTTP that may become a WebSocket */
	NET_MODE_NUM
};
extern const char *const net_effect_names[NET_EFFECT_NUM]; /* "deny" "ask" "allow" */
extern const char *const net_mode_names[NET_MODE_NUM];     /* "tcp" "tls" … */

struct net_addr { /* IPv4 in b[0..3] */
	bool v6;
	uint8_t b[16];
};

struct net_cidr {
	struct net_addr addr;
	uint8_t bits;
};

struct net_ports {
	uint16_t first, last;
};

struct net_query { /* a parameter that must be there, every value matching (str_wild) */
	const char *name, *pattern;
};

struct net_limits {            /* 0: none */
	uint32_t rate_milli;   /* requests (connections for tcp, tls) per 1000 seconds */
	uint64_t up_b, down_b; /* per sandbox and rule, in all */
	uint64_t body_b;       /* one request body */
	uint64_t uses;         /* requests (connections) in all */
	int64_t expires;       /* Unix seconds */
};

struct net_rule {
	enum net_effect effect;
	enum net_mode mode;
	const char
		*name; /* "github-read/api.github.com" or "network.allow[3]": what receipts say */
	const char
		*host; /* canonical name, "*.b" one label, "**.b" one or more; NULL: cidr counts */
	struct net_cidr cidr;
	struct net_ports ports[NET_PORTS_MAX];
	size_t ports_n;             /* never 0 after parsing */
	const char *const *methods; /* upper case; 0: any */
	size_t methods_n;
	const char *const *paths; /* segment patterns, '*' one, '**' any; 0: any */
	size_t paths_n;
	const struct net_query *query;
	size_t query_n;
	const char *const *repos; /* git: "owner/repo", '*' within one of both; 0: any */
	size_t repos_n;
	bool push;               /* git: receive-pack as well */
	const char *const *refs; /* git push: ref patterns; 0: any */
	size_t refs_n;
	struct net_limits limits;
	bool private_ok;    /* addresses of private ranges may be dialled */
	bool plaintext;     /* inspected without TLS may be; implied by port 80 */
	bool ech_refused;   /* mode tls: no ClientHello with an encrypted one inside */
	bool ech_allowed;   /* said so: also for hostile commands */
	bool keep_slash;    /* "%2F" in a path is a character of its segment; with paths only */
	const char *reason; /* text for whoever is refused, or NULL */
	struct policy_origin origin;
};

enum net_placement { NET_HEADER, NET_BEARER, NET_BASIC, NET_QUERY, NET_PLACEMENT_NUM };
extern const char *const net_placement_names[NET_PLACEMENT_NUM];

/* A secret bound to where it may go. Its value is not here. */
struct net_secret {
	const char *name; /* of the stored secret */
	const char *env;  /* variable that holds the placeholder inside; default: name */
	const char *host; /* pattern as in rules */
	uint16_t port;    /* 443 */
	const char *const *paths, *const *methods; /* 0: any */
	size_t paths_n, methods_n;
	enum net_placement placement;
	const char
		*field; /* header or query parameter; basic: user name, or NULL as the caller's */
	bool strip;     /* remove credentials that the caller brought */
	bool require;   /* refuse requests without the placeholder */
	struct policy_origin origin;
};

struct net_resolve { /* a name with fixed addresses, for internal hosts */
	const char *host;
	const struct net_addr *addrs;
	size_t addrs_n;
};

struct net_forward { /* publish: host port -> port inside; host-ports: `inside` unused */
	uint16_t host, inside;
};

struct net_policy {
	struct net_rule
		*rules; /* denies first, then allows, then asks; within each the order written */
	size_t rules_n;
	bool ceiling;              /* a system layer limits what may be allowed at all */
	struct net_rule *ceilings; /* then only what one of these covers */
	size_t ceilings_n;
	struct net_secret *secrets;
	size_t secrets_n;
	struct net_resolve *resolve;
	size_t resolve_n;
	struct net_forward *publish, *host_ports;
	size_t publish_n, host_ports_n;
	const char *const *dns; /* resolvers "addr" or "addr:port"; 0: the host's */
	size_t dns_n;
	const char *proxy;        /* upstream proxy "http://[user:pass@]host:port", or NULL */
	const char *const *trust; /* files with further authorities for upstream servers */
	size_t trust_n;
	bool ask_default;        /* what no rule covers is asked, not denied */
	uint64_t ask_timeout_ms; /* 30 s */
	bool record_query;       /* query strings in the journal; secrets never */
	const uint32_t *tags;    /* one per rule, for looking up; NULL: every rule is looked at */
};

/* Is there anything that needs a gateway? */
bool net_wanted(const struct net_policy *n);
/* Does any rule inspect, so that the sandbox needs to trust its own authority? */
bool net_inspects(const struct net_policy *n);

/*
 * Canonical host name: ASCII LDH labels and '_', lower case, no trailing dot, 1..253 characters,
 * not an address in any spelling (127.1, 0x7f.1, 2130706433 and the like are refused, not
 * converted). One trailing dot is dropped. false: refused.
 */
bool net_name(char ret[NET_NAME_MAX + 1], const char *text, size_t n);
/* Exactly one IPv4 dotted quad or IPv6 text, no zone id. */
bool net_addr_parse(struct net_addr *ret, const char *text, size_t n);
void net_addr_show(struct buf *out, const struct net_addr *a);
bool net_addr_within(const struct net_addr *a, const struct net_cidr *c);
/* Label-wise; both canonical. */
bool net_host_matches(const char *pattern, const char *name);
/*
 * Segment-wise: '*' within a segment as str_wild, "**" any number of segments. Both begin with '/'.
 */
bool net_path_matches(const char *pattern, const char *path);

struct net_dest {
	const char *host;     /* canonical, or NULL when a literal address was dialled */
	struct net_addr addr; /* the literal */
	uint16_t port;
};

/* One request, canonical; strings are NUL-terminated and never NULL unless said. */
struct net_request {
	const char *host;
	uint16_t port;
	bool tls;
	const char *method;
	const char *path;  /* begins with '/', no query */
	const char *query; /* without '?', "" when none */
	bool has_body;
	bool upgrade_ws;             /* asks to become a WebSocket */
	const char *git_repo;        /* "owner/repo" when it is the Git smart protocol, else NULL */
	bool git_push;               /* receive-pack, advertised or sent */
	const char *const *git_refs; /* what a push would change; NULL when not known yet */
	size_t git_refs_n;
	/*
	 * git_repo is NULL, but a server may take it for Git all the same (another spelling,
	 * another method, the dumb protocol): no grant of mode git covers it, and a deny does.
	 */
	bool git_unclear;
};

/*
 * How the target of a request to this host is read, by what its rules need: see request_target().
 * As it was sent where nothing of it is judged.
 */
enum net_path_form {
	NET_PATH_STRICT,     /* what servers could read in two ways is refused */
	NET_PATH_KEEP_SLASH, /* the same, but "%2F" stays what it is */
	NET_PATH_AS_SENT,
};
struct net_target_form {
	enum net_path_form path;
	bool query_as_sent;
};
struct net_target_form net_target_form(const struct net_policy *n, const char *host, uint16_t port);

/* "--allow-host HOST[:PORT]" as one would type it, or "" for what is no name. port 0: none. */
void net_fix_host(char ret[NET_FIX_MAX], const char *host, uint16_t port);

struct net_verdict {
	enum net_effect effect;
	const struct net_rule *rule; /* NULL: none covers it */
	char why[256];               /* one sentence for a person */
	char fix[NET_FIX_MAX];       /* what would allow it, or "" */
};

/*
 * May this name be resolved at all: does any rule for any port cover it, and nothing deny all of
 * it?
 */
bool net_name_known(const struct net_policy *n, const char *host);
/* Why this name can never be reached, whatever a rule says, or NULL. */
const char *net_name_forbidden(const char *host);
/* Is it a port of this machine that was opened, by one of its names? */
bool net_is_host_port(const struct net_policy *n, const char *host, uint16_t port);
/*
 * A new connection. NET_ALLOW's rule says the mode; for the inspected modes each request is judged
 * again by net_decide_request(), and the connection is allowed if some rule might allow a request.
 * So an `ask` that is inspected is NET_ALLOW here and NET_ASK for its requests: nobody is asked
 * twice. NET_ALLOW and NET_ASK always come with a rule; for `default: ask` it is a built-in one
 * named "network.default".
 */
void net_decide_connect(
	const struct net_policy *n, const struct net_dest *d, struct net_verdict *ret);
void net_decide_request(
	const struct net_policy *n, const struct net_request *r, struct net_verdict *ret);
/*
 * For the dialler, about an address that an allowed name resolved to: does a deny by `cidr` cover
 * it? (net_decide_connect() judges names, and an address only when it was dialled as such.)
 */
bool net_addr_denied(const struct net_policy *n, const struct net_addr *a, uint16_t port,
	struct net_verdict *ret);
/* Is this mode one that looks at requests? */
static inline bool net_mode_inspects(enum net_mode m)
{
	return m != NET_TCP && m != NET_TLS;
}
/*
 * The secret bound to this request (host, port, TLS, path, method), at index >= from; NULL: none.
 */
const struct net_secret *net_secret_for(
	const struct net_policy *n, const struct net_request *r, size_t from);

/*
 * The network part as text of a policy file (version: 1, network: …) in which bundles are expanded,
 * and back. What the launcher writes, the gateway reads. The digest is over the same text without
 * the rules' names and with the proxy, which may hold a password, as its own digest.
 */
void policy_network_text(const struct net_policy *n, struct buf *out);
/* Memory is the returned handle's: free with policy_network_free(). */
int policy_network_parse(struct net_policy **ret, const char *text, size_t len, struct err *e);
void policy_network_free(struct net_policy *n);

/* The hosts that rule n of a bundle is about; NULL: it has not so many. A host may come more than once. */
const char *net_bundle_host(size_t bundle, size_t n);
/* The bundle that has this very host on this port (0: any); NULL: none. */
const char *net_bundle_of(const char *host, uint16_t port);
extern const char *const net_bundle_names[];
extern const size_t net_bundle_names_n;

#endif
