/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for the start of one run: see heap.h. */
#include "os/heap.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/forced.h"

#define ALIGN_B 16u
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* Linux 6.3 */
#endif

/* By the linker's --wrap malloc() is __wrap_malloc(), and the C library's own is __real_malloc(). */
void *__real_malloc(size_t n) __attribute__((weak));
void *__real_calloc(size_t n, size_t size_b) __attribute__((weak));
void *__real_realloc(void *p, size_t n) __attribute__((weak));
void __real_free(void *p) __attribute__((weak));

void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size_b);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);

/* In front of each piece. */
struct piece {
	_Alignas(ALIGN_B) size_t size_b;
};

static struct {
	char *begin, *end;  /* NULL: there is none */
	char *at;           /* from here on nothing was taken, and all bytes are zero */
	const void *thread; /* that takes from it; NULL: none any more */
	int fd;             /* that it is a mapping of; -1: of nothing */
	bool shared;        /* heap_share() */
	bool spilled;       /* since then something was not taken from here */
} heap = {.fd = -1};

/* At its begin. */
struct root {
	_Alignas(ALIGN_B) const void *p;
};

static _Thread_local char whose; /* its address tells threads apart */

/* A limit on the size of files is one for this, too, and growing beyond it would end us. */
static int new_file(void)
{
	struct rlimit l;
	int fd;

	if (forced_fail("early") || getrlimit(RLIMIT_FSIZE, &l) < 0 || l.rlim_cur < HEAP_B)
		return -1;
	fd = memfd_create("croft", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("croft", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, HEAP_B) == 0)
		return fd;
	close(fd);
	return -1;
}

void heap_quick(bool handed)
{
	char *p;
	int fd;

	if (heap.begin || !__real_malloc)
		return;
	fd = handed ? new_file() : -1;
	p = mmap(NULL, HEAP_B, PROT_READ | PROT_WRITE,
		fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		if (fd >= 0)
			close(fd);
		return;
	}
	heap.fd = fd;
	heap.begin = p;
	heap.at = p + sizeof(struct root);
	heap.end = p + HEAP_B;
	heap.thread = &whose;
}

bool heap_share(void)
{
	heap.shared = heap.fd >= 0 && heap.thread == &whose;
	heap.spilled = false;
	return heap.shared;
}

int heap_fd(void)
{
	return heap.fd;
}

int heap_hand_over(const void *root)
{
	if (!heap.shared || heap.spilled || !heap_has(root))
		return -ENOTSUP;
	((struct root *)heap.begin)->p = root;
	return 0;
}

static int map_private(void)
{
	void *p = mmap(
		heap.begin, HEAP_B, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, heap.fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	close(heap.fd);
	heap.fd = -1;
	heap.shared = false;
	return 0;
}

/* What is taken from now on is of no file: the first write to a page of one costs two pages. */
int heap_part(void)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	char *rest = (char *)(((uintptr_t)heap.at + page - 1) & ~(page - 1));
	int r = map_private();

	if (r < 0)
		return r;
	heap.at = MIN_OF(rest, heap.end);
	if (heap.at < heap.end && mmap(heap.at, (size_t)(heap.end - heap.at),
					  PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
					  0) == MAP_FAILED)
		return -errno;
	return 0;
}

const void *heap_adopt(void)
{
	int r = map_private();

	if (r < 0) {
		errno = -r;
		return NULL;
	}
	return ((const struct root *)heap.begin)->p;
}

void heap_rest(void)
{
	heap.thread = NULL;
}

void heap_resume(void)
{
	if (heap.begin)
		heap.thread = &whose;
}

bool heap_has(const void *p)
{
	return heap.begin && (const char *)p >= heap.begin && (const char *)p < heap.end;
}

static struct piece *piece_of(void *p)
{
	return (struct piece *)p - 1;
}

static size_t room(void)
{
	return heap.thread == &whose ? (size_t)(heap.end - heap.at) : 0;
}

static size_t rounded(size_t n)
{
	return (n + ALIGN_B - 1) & ~(size_t)(ALIGN_B - 1);
}

/* Zeroed; NULL: the C library shall give it. */
static void *take(size_t n)
{
	struct piece *piece = (struct piece *)heap.at;

	if (n > HEAP_ONE_MAX_B || sizeof(*piece) + rounded(n) > room()) {
		heap.spilled = true;
		return NULL;
	}
	piece->size_b = rounded(n);
	heap.at += sizeof(*piece) + piece->size_b;
	return piece + 1;
}

void *__wrap_malloc(size_t n)
{
	void *p = take(n);

	return p ? p : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size_b)
{
	size_t all;
	void *p = __builtin_mul_overflow(n, size_b, &all) ? NULL : take(all);

	return p ? p : __real_calloc(n, size_b);
}

/* The piece that was taken last can grow where it is. */
static bool grow(struct piece *piece, size_t n)
{
	size_t more = rounded(n) - piece->size_b;

	if ((char *)(piece + 1) + piece->size_b != heap.at || n > HEAP_ONE_MAX_B || more > room())
		return false;
	piece->size_b += more;
	heap.at += more;
	return true;
}

void *__wrap_realloc(void *p, size_t n)
{
	struct piece *piece;
	void *q;

	if (!p)
		return __wrap_malloc(n);
	if (!heap_has(p)) {
		heap.spilled = true;
		return __real_realloc(p, n);
	}
	piece = piece_of(p);
	if (n <= piece->size_b || grow(piece, n))
		return p;
	q = __wrap_malloc(n);
	return q ? memcpy(q, p, piece->size_b) : NULL;
}

void __wrap_free(void *p)
{
	if (!heap_has(p))
		__real_free(p);
}
