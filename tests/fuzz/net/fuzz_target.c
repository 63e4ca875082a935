/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a request target and as an authority. What is accepted is canonical: accepted again
 * it does not change, and no reader that undoes escapes once or twice finds a dot segment or
 * another separator in it.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "must.h"
#include "net/http/git.h"
#include "net/http/request.h"

static int hex(char c)
{
	const char *digits = "0123456789ABCDEF", *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* A careless server: undo every escape, in place. */
static void undo(char *s)
{
	char *out = s;

	for (; *s; s++) {
		if (s[0] == '%' && hex(s[1]) >= 0 && hex(s[2]) >= 0) {
			*out = (char)(hex(s[1]) * 16 + hex(s[2]));
			MUST(*out++);
			s += 2;
		} else {
			*out++ = *s;
		}
	}
	*out = '\0';
}

static void check_plain(const char *path, size_t slashes)
{
	size_t now = 0;

	for (const char *c = path; *c; c++) {
		now += *c == '/';
		MUST(*c != '\\' && (unsigned char)*c >= 0x20 && *c != 0x7f);
	}
	MUST(now == slashes);
	MUST(!strstr(path, "//") && !strstr(path, "/./") && !strstr(path, "/../"));
	MUST(!strstr(path, "/..;") && !strstr(path, "/.;"));
	MUST(!str_ends(path, "/.") && !str_ends(path, "/.."));
}

static void check_path(const char *path)
{
	cleanup_free char *copy = strdup(path);
	size_t slashes = 0;

	MUST(copy);
	for (const char *c = path; *c; c++)
		slashes += *c == '/';
	for (const char *c = path; *c; c++)
		MUST((unsigned char)*c > 0x20 && (unsigned char)*c < 0x7f && *c != '?' &&
			*c != '#');
	check_plain(copy, slashes);
	undo(copy);
	check_plain(copy, slashes);
	undo(copy);
	check_plain(copy, slashes);
}

static void check_target(const char *method, const char *p, size_t n)
{
	struct http_request r, s;
	char repo[GIT_REPO_MAX + 1];

	request_init(&r);
	request_init(&s);
	MUST(!request_method(&r, method, strlen(method)) &&
		!request_method(&s, method, strlen(method)));
	if (!request_target(&r, p, n)) {
		cleanup_buf struct buf again = BUF_INIT(1u << 20);

		if (!str_eq(r.path, "*"))
			check_path(r.path);
		buf_addf(&again, "%s%s%s", r.path, r.query[0] ? "?" : "", r.query);
		MUST(!request_target(&s, again.data, again.len));
		MUST(str_eq(r.path, s.path) && str_eq(r.query, s.query));
		git_classify(method, r.path, r.query, repo, sizeof(repo));
	}
	request_done(&r);
	request_done(&s);
}

static void check_authority(const char *p, size_t n)
{
	struct http_request r, s;

	request_init(&r);
	request_init(&s);
	if (!request_authority(&r, p, n)) {
		cleanup_buf struct buf again = BUF_INIT(1024);
		bool v6 = strchr(r.host, ':');

		buf_addf(&again, "%s%s%s", v6 ? "[" : "", r.host, v6 ? "]" : "");
		if (r.port)
			buf_addf(&again, ":%u", r.port);
		MUST(!request_authority(&s, again.data, again.len));
		MUST(str_eq(r.host, s.host) && r.port == s.port);
		MUST(!strpbrk(r.host, "@/\\%# ?"));
	}
	request_done(&r);
	request_done(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data;

	check_target("GET", p, size);
	check_target("OPTIONS", p, size);
	check_authority(p, size);
	return 0;
}
