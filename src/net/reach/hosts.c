/* SPDX-License-Identifier: Apache-2.0 */
/* The host's table of names: see hosts.h. Lines that are not an address and names are skipped. */
#include "net/reach/hosts.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

struct entry {
	char *name;
	struct net_addr addr;
};

struct hosts {
	struct entry *v;
	size_t n, cap;
};

static bool add(struct hosts *h, const char *name, const struct net_addr *a)
{
	if (h->n == HOSTS_MAX)
		return true;
	if (h->n == h->cap) {
		size_t cap = h->cap ? h->cap * 2 : 16;
		struct entry *v = realloc(h->v, cap * sizeof(*v));

		if (!v)
			return false;
		h->v = v;
		h->cap = cap;
	}
	h->v[h->n] = (struct entry){.name = strdup(name), .addr = *a};
	return h->v[h->n++].name != NULL;
}

/* One line without its comment. */
static bool parse_line(struct hosts *h, const char *p, size_t n)
{
	struct net_addr a;
	bool have = false;
	size_t i = 0;

	while (i < n) {
		char name[NET_NAME_MAX + 1];
		size_t start;

		while (i < n && (p[i] == ' ' || p[i] == '\t' || p[i] == '\r'))
			i++;
		start = i;
		while (i < n && p[i] != ' ' && p[i] != '\t' && p[i] != '\r')
			i++;
		if (i == start)
			break;
		if (!have) {
			if (!net_addr_parse(&a, p + start, i - start))
				return true;
			have = true;
		} else if (net_name(name, p + start, i - start) && !add(h, name, &a)) {
			return false;
		}
	}
	return true;
}

struct hosts *hosts_parse(const char *text, size_t n)
{
	struct hosts *h = calloc(1, sizeof(*h));
	size_t i = 0;

	while (h && i < n) {
		const char *nl = memchr(text + i, '\n', n - i);
		size_t len = nl ? (size_t)(nl - (text + i)) : n - i;
		const char *comment = memchr(text + i, '#', len);

		if (!parse_line(h, text + i, comment ? (size_t)(comment - (text + i)) : len)) {
			hosts_free(h);
			return NULL;
		}
		i += len + 1;
	}
	return h;
}

struct hosts *hosts_load(const char *path)
{
	cleanup_buf struct buf b = BUF_INIT(HOSTS_MAX_B);
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	char chunk[4096];
	ssize_t n;

	while (fd >= 0 && (n = read(fd, chunk, sizeof(chunk))) > 0)
		buf_add(&b, chunk, (size_t)n);
	return hosts_parse(buf_str(&b), b.failed ? 0 : b.len);
}

void hosts_free(struct hosts *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < h->n; i++)
		free(h->v[i].name);
	free(h->v);
	free(h);
}

size_t hosts_find(const struct hosts *h, const char *host, struct net_addr *ret, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n && n < max; i++)
		if (str_eq(h->v[i].name, host))
			ret[n++] = h->v[i].addr;
	return n;
}
