/* SPDX-License-Identifier: Apache-2.0 */
/* Our own code's pages: see text_pages.h. */
#include "os/text_pages.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Of the linker: headers and code, which nothing relocates. */
extern const char __executable_start[], etext[];

void text_pages_give_back(void)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t begin = ((uintptr_t)__executable_start + page - 1) & ~(page - 1);
	uintptr_t end = (uintptr_t)etext & ~(page - 1);

	if (end > begin)
		madvise((void *)begin, end - begin, MADV_DONTNEED);
}
