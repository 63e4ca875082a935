/* SPDX-License-Identifier: Apache-2.0 */
/* Execs of croft's own: see starts.h. A slot: a process in the upper half, below how often it was used. */
#include "engine/broker/starts.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#define COUNT_MASK 0xffffffffu

struct starts {
	_Atomic uint64_t used; /* slots that were ever written to */
	_Atomic uint64_t slot[STARTS_MAX];
};

struct starts *starts_new(void)
{
	void *p = mmap(NULL, sizeof(struct starts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		0);

	return p == MAP_FAILED ? NULL : p;
}

/* Between vfork and exec: nothing but our own memory. */
void starts_announce(struct starts *s, size_t slot)
{
	uint64_t used, count;

	if (!s || slot >= STARTS_MAX)
		return;
	count = (atomic_load(&s->slot[slot]) + 1) & COUNT_MASK;
	atomic_store(&s->slot[slot], (uint64_t)(uint32_t)getpid() << 32 | count);
	used = atomic_load(&s->used);
	while (used <= slot && !atomic_compare_exchange_weak(&s->used, &used, slot + 1))
		;
}

void starts_forget(struct starts *s, size_t slot)
{
	if (s && slot < STARTS_MAX)
		atomic_fetch_and(&s->slot[slot], (uint64_t)COUNT_MASK);
}

bool starts_find(struct starts *s, pid_t pid, struct start_seen *ret)
{
	uint64_t used = s ? atomic_load(&s->used) : 0;

	if (pid <= 0)
		return false;
	for (size_t i = 0; i < used && i < STARTS_MAX; i++) {
		*ret = (struct start_seen){i, atomic_load(&s->slot[i])};
		if (ret->value >> 32 == (uint32_t)pid)
			return true;
	}
	return false;
}

/* Not when it has announced another attempt meanwhile. */
void starts_use(struct starts *s, const struct start_seen *seen)
{
	uint64_t value = seen->value;

	atomic_compare_exchange_strong(&s->slot[seen->slot], &value, value & COUNT_MASK);
}
