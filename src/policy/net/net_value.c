/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small languages of network rules: hosts, ranges, ports, methods, patterns, rates, times. Each
 * accepts one spelling per meaning, or says what it wants to see. Places are added by the caller.
 */
#include <string.h>

#include "base/cleanup.h"
#include "policy/net/net_impl.h"

#define METHOD_MAX 24u

/* ---- hosts ---- */

static bool ascii(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s >= 0x80)
			return false;
	return true;
}

static int bad_name(struct err *e, const char *text)
{
	struct net_addr a;

	if (!ascii(text))
		return value_bad(e, text, "is not ASCII; write the name in its xn-- form");
	if (strstr(text, "://"))
		return value_bad(
			e, text, "is a URL; write the host alone, and paths under \"paths\"");
	if (strchr(text, '@'))
		return value_bad(e, text, "holds user information; write the host alone");
	if (strchr(text, '%'))
		return value_bad(e, text, "holds a '%'; names and addresses have none");
	if (net_addr_text(&a, text))
		return value_bad(e, text, "is an address; write it as cidr");
	if (*text && strspn(text, "0123456789abcdefxABCDEFX.") == strlen(text))
		return value_bad(e, text, "is not an address; write the four decimal numbers");
	if (str_ends(text, "."))
		return value_bad(e, text, "ends in a dot; write the name without it");
	return value_bad(e, text,
		"is not a host name; write letters, digits, - and ., with * or ** only as the "
		"first label");
}

int net_value_host(struct arena *a, const char **ret, const char *text, bool deny, struct err *e)
{
	size_t skip = str_starts(text, "**.") ? 3 : str_starts(text, "*.") ? 2 : 0;
	char name[NET_NAME_MAX + 1];
	const char *why;

	if (str_eq(text, "*") || str_eq(text, "**"))
		return value_bad(e, text,
			deny ? "is every host, which needs no deny: what no rule covers is denied"
			     : "is every host; name the hosts, or write default: ask");
	if (!net_name(name, text + skip, strlen(text + skip)) || str_ends(text, "."))
		return bad_name(e, text);
	if (strlen(name) + skip > NET_NAME_MAX)
		return value_bad(e, text, "is longer than 253 characters");
	why = skip || deny ? NULL : net_name_forbidden(name);
	if (why)
		return err_invalid(e, "%s cannot be granted: it %s%s", name, why,
			strstr(why, "the sandbox itself") ? NET_HOST_PORTS_HINT : "");
	if (skip && !deny && !strchr(name, '.'))
		return value_bad(e, text,
			"would allow a whole top-level domain; name at least two labels after the "
			"*");
	if (skip && !deny && net_suffix_public(name, skip == 3))
		return value_bad(
			e, text, "would allow names that anybody can register; name the hosts");
	*ret = arena_join(a, text, skip, name, strlen(name));
	return *ret ? 0 : err_set(e, ENOMEM, "keep a host name");
}

int net_value_cidr(struct net_cidr *ret, const char *text, struct err *e)
{
	const char *slash = strchr(text, '/');
	char addr[64];
	struct net_cidr c = {0};
	struct net_addr masked;
	uint64_t bits;
	size_t n = slash ? (size_t)(slash - text) : strlen(text);

	if (n >= sizeof(addr))
		return value_bad(e, text, "is not a range; write 203.0.113.0/24");
	memcpy(addr, text, n);
	addr[n] = '\0';
	if (strchr(addr, '%'))
		return value_bad(e, text, "has a zone id, which a range cannot have");
	if (!net_addr_parse(&c.addr, addr, n))
		return value_bad(e, text,
			"is not a range of addresses; write 203.0.113.0/24 or 2001:db8::/32");
	bits = c.addr.v6 ? 128 : 32;
	if (slash && (!str_u64(slash + 1, bits, &bits) || (slash[1] == '0' && slash[2])))
		return value_bad(e, text, "has a prefix length that is too large or no number");
	c.bits = (uint8_t)bits;
	masked = c.addr;
	for (size_t i = 0; i < 16; i++) {
		size_t keep = c.bits > 8 * i ? MIN_OF(c.bits - 8 * i, 8u) : 0;

		masked.b[i] &= (uint8_t)(0xff00u >> keep);
	}
	if (memcmp(masked.b, c.addr.b, sizeof(masked.b)) != 0) {
		cleanup_buf struct buf b = BUF_INIT(64);

		net_cidr_show(&b, &(struct net_cidr){.addr = masked, .bits = c.bits});
		return err_invalid(
			e, "\"%s\" has bits beyond its prefix; write %s", text, buf_str(&b));
	}
	*ret = c;
	return 0;
}

/* ---- ports ---- */

int net_value_port(uint16_t *ret, const char *text, struct err *e)
{
	uint64_t v;

	if (!str_u64(text, 65535, &v) || v == 0 || text[0] == '0')
		return value_bad(e, text, "is not a port between 1 and 65535");
	*ret = (uint16_t)v;
	return 0;
}

int net_value_ports(struct net_ports *ret, const char *text, struct err *e)
{
	const char *dash = strchr(text, '-');
	struct net_ports p = {0};
	char first[8];
	int r;

	if (!dash) {
		r = net_value_port(&p.first, text, e);
		p.last = p.first;
	} else {
		size_t n = (size_t)(dash - text);

		if (n >= sizeof(first))
			return value_bad(e, text, "is not a port between 1 and 65535");
		memcpy(first, text, n);
		first[n] = '\0';
		r = net_value_port(&p.first, first, e);
		if (r == 0)
			r = net_value_port(&p.last, dash + 1, e);
		if (r == 0 && p.last < p.first)
			return value_bad(e, text, "ends before it begins");
	}
	if (r == 0)
		*ret = p;
	return r;
}

/* ---- requests ---- */

int net_value_method(struct arena *a, const char **ret, const char *text, struct err *e)
{
	size_t n = strlen(text);

	for (size_t i = 0; i < n; i++)
		if (!((text[i] >= 'A' && text[i] <= 'Z') || text[i] == '-'))
			return value_bad(e, text, "is not a method; write GET, POST …, upper case");
	if (n == 0 || n > METHOD_MAX)
		return value_bad(e, text, "is not a method; write GET, POST …, upper case");
	if (str_eq(text, "CONNECT") || str_eq(text, "TRACE") || str_eq(text, "TRACK"))
		return value_bad(e, text, "is never carried; take it out");
	*ret = arena_dup(a, text);
	return *ret ? 0 : err_set(e, ENOMEM, "keep a method");
}

static bool unreserved(unsigned c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '.' || c == '_' || c == '~';
}

static int upper_hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* NULL, or what is wrong with the characters of a pattern that is compared with canonical paths. */
static const char *path_chars(const char *s)
{
	for (; *s; s++) {
		int hi, lo;

		if (unreserved((unsigned char)*s) || strchr("!$&'()*+,;=:@/", *s))
			continue;
		if (*s == '?')
			return "holds a '?'; what follows it in a URL goes under \"query\"";
		if (*s != '%')
			return "holds a character that a path cannot hold; write it as %XX";
		hi = upper_hex(s[1]);
		lo = hi < 0 ? -1 : upper_hex(s[2]);
		if (lo < 0)
			return "has a '%' without two upper-case hexadecimal digits";
		if (unreserved((unsigned)(hi * 16 + lo)))
			return "encodes a character that needs no %XX; write it as it is";
		s += 2;
	}
	return NULL;
}

/* "a/./b", "a//b", "..": not in canonical text, so such a pattern would never match. */
static const char *segments_check(const char *s, bool last_empty_ok)
{
	for (;;) {
		size_t n = strcspn(s, "/");

		if (n == 0 && !(last_empty_ok && !s[n]))
			return "has an empty segment (\"//\"), which no path has";
		if ((n == 1 && s[0] == '.') || (n == 2 && s[0] == '.' && s[1] == '.'))
			return "has a segment \".\" or \"..\", which no path has";
		if (n > 2 && memmem(s, n, "**", 2))
			return "has \"**\" inside a segment; it stands alone between slashes";
		if (!s[n])
			return NULL;
		s += n + 1;
	}
}

int net_value_path(const char *text, struct err *e)
{
	const char *why;

	if (text[0] != '/')
		return value_bad(e, text, "does not begin with /");
	if (strlen(text) > NET_PATTERN_MAX)
		return value_bad(e, text, "is too long");
	why = path_chars(text);
	if (!why)
		why = segments_check(text + 1, true);
	return why ? value_bad(e, text, why) : 0;
}

int net_value_repo(const char *text, struct err *e)
{
	size_t n = strlen(text);

	if (n == 0 || n > NET_PATTERN_MAX || text[0] == '/' || text[n - 1] == '/' ||
		path_chars(text) || segments_check(text, false))
		return value_bad(e, text, "is not a repository; write owner/name or owner/*");
	if (!strchr(text, '/') && !str_eq(text, "**"))
		return value_bad(e, text, "names no owner; write owner/name or owner/*");
	if (str_ends(text, ".git"))
		return value_bad(e, text, "ends in .git; write owner/name");
	return 0;
}

int net_value_ref(const char *text, struct err *e)
{
	if (!str_starts(text, "refs/") || strlen(text) > NET_PATTERN_MAX ||
		segments_check(text, false))
		return value_bad(
			e, text, "is not a ref; write refs/heads/name or refs/heads/agent/*");
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 0x7f || strchr("~^:?[\\", *p))
			return value_bad(e, text, "holds a character that a ref cannot hold");
	return 0;
}

/* ---- the rest ---- */

int net_value_rate(uint32_t *ret_milli, const char *text, struct err *e)
{
	static const char want[] = "is not a rate; write 10/s, 100/m or 1000/h";
	const char *slash = strchr(text, '/');
	char number[16];
	uint64_t n, seconds, milli;

	if (!slash || (size_t)(slash - text) >= sizeof(number))
		return value_bad(e, text, want);
	memcpy(number, text, (size_t)(slash - text));
	number[slash - text] = '\0';
	seconds = str_eq(slash, "/s")   ? 1
		  : str_eq(slash, "/m") ? 60
		  : str_eq(slash, "/h") ? 3600
					: 0;
	if (!seconds || !str_u64(number, 1000000, &n))
		return value_bad(e, text, want);
	milli = n * 1000 / seconds;
	if (milli == 0)
		return value_bad(e, text, "is too slow to be kept; the least is 4/h");
	*ret_milli = (uint32_t)milli;
	return 0;
}

/* The smallest number in the largest unit that means the same. */
void net_rate_show(struct buf *out, uint32_t rate_milli)
{
	static const unsigned seconds[] = {1, 60, 3600};

	for (size_t i = 0; i < ARRAY_SIZE(seconds); i++) {
		uint64_t n = ((uint64_t)rate_milli * seconds[i] + 999) / 1000;

		if (n * 1000 / seconds[i] == rate_milli || i == 2) {
			buf_addf(out, "%llu/%c", (unsigned long long)n, "smh"[i]);
			return;
		}
	}
}

/* Days since 1970-01-01 of a date in the Gregorian calendar. */
static int64_t days_of(int64_t y, int m, int d)
{
	int64_t era, day;

	y -= m <= 2; /* years begin in March, so that the leap day is the last */
	era = y / 400;
	day = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
	return era * 146097 + (y - era * 400) * 365 + (y - era * 400) / 4 - (y - era * 400) / 100 +
	       day - 719468;
}

static void date_of(int64_t days, int *ret_y, int *ret_m, int *ret_d)
{
	int64_t z = days + 719468, era = z / 146097, doe = z - era * 146097;
	int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;

	*ret_d = (int)(doy - (153 * mp + 2) / 5 + 1);
	*ret_m = (int)(mp < 10 ? mp + 3 : mp - 9);
	*ret_y = (int)(yoe + era * 400 + (*ret_m <= 2));
}

static bool digits(const char *s, size_t n, int *ret)
{
	*ret = 0;
	for (size_t i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9')
			return false;
		*ret = *ret * 10 + (s[i] - '0');
	}
	return true;
}

int net_value_time(int64_t *ret, const char *text, struct err *e)
{
	static const char want[] = "is not a time; write 2027-01-31T12:00:00Z";
	int y, mo, d, h, mi, s, ry, rm, rd;
	int64_t days;

	if (strlen(text) != 20 || text[4] != '-' || text[7] != '-' || text[10] != 'T' ||
		text[13] != ':' || text[16] != ':' || text[19] != 'Z')
		return value_bad(e, text, want);
	if (!digits(text, 4, &y) || !digits(text + 5, 2, &mo) || !digits(text + 8, 2, &d) ||
		!digits(text + 11, 2, &h) || !digits(text + 14, 2, &mi) ||
		!digits(text + 17, 2, &s))
		return value_bad(e, text, want);
	if (y < 1971 || mo < 1 || mo > 12 || d < 1 || d > 31 || h > 23 || mi > 59 || s > 59)
		return value_bad(e, text, want);
	days = days_of(y, mo, d);
	date_of(days, &ry, &rm, &rd);
	if (ry != y || rm != mo || rd != d)
		return value_bad(e, text, "is a day that does not exist");
	*ret = days * 86400 + h * 3600 + mi * 60 + s;
	return 0;
}

void net_time_show(struct buf *out, int64_t t)
{
	int64_t days = t / 86400, rest = t % 86400;
	int y, m, d;

	date_of(days, &y, &m, &d);
	buf_addf(out, "%04d-%02d-%02dT%02d:%02d:%02dZ", y, m, d, (int)(rest / 3600),
		(int)(rest / 60 % 60), (int)(rest % 60));
}

/* Text that will be shown or compared: well-formed, one line. */
int net_value_text(const char *what, const char *text, size_t max, struct err *e)
{
	size_t n = strlen(text);

	if (n == 0)
		return err_invalid(e, "%s is empty", what);
	if (n > max)
		return err_invalid(e, "%s is longer than %zu characters", what, max);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return err_invalid(e, "%s holds a control character", what);
	return 0;
}

int net_value_bool(bool *ret, const char *text, struct err *e)
{
	if (!str_eq(text, "true") && !str_eq(text, "false"))
		return value_bad(e, text, "is neither true nor false");
	*ret = text[0] == 't';
	return 0;
}
