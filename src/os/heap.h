/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for the start of one run, and for its end.
 *
 * Purpose: a run takes some hundred pieces of memory within two milliseconds and soon ends. An allocator
 *          that gives each back to the kernel spends more on mappings and page faults than on all the
 *          rest of planning. Here pieces lie one behind the other, and none is given back.
 * Trust:   no byte is given out twice, so what is used after it was freed is still what it was, and
 *          freeing twice does nothing. What does not fit, and all that is taken between heap_rest() and
 *          heap_resume(), comes from the C library.
 * Child:   a process that was forked before all was known can be given the rest at once (heap_hand_over,
 *          heap_adopt): the memory is a file that both map at one place, so every pointer into it holds
 *          there. Afterwards each has a private view, and neither sees what the other writes.
 * Limits:  HEAP_B. Only the thread that began it takes from it.
 * Use:     the static launcher alone is linked so that malloc() and its like come here (src/meson.build);
 *          in every other program heap_quick() does nothing.
 */
#ifndef CROFT_OS_HEAP_H
#define CROFT_OS_HEAP_H

#include <stdbool.h>
#include <stddef.h>

#define HEAP_B (1u << 20)
#define HEAP_ONE_MAX_B (256u << 10) /* a larger piece is the C library's */

/* From now on memory is taken from here. handed: so that it can be handed over. */
void heap_quick(bool handed);
/* No longer. What was taken stays valid. */
void heap_rest(void);
/* Where it was begun: again. */
void heap_resume(void);
/*
 * From now on what is taken can be handed over, until something did not fit. False: it cannot, here.
 */
bool heap_share(void);
/* What the child needs until heap_adopt(), or -1. Until then it neither takes nor writes anything here. */
int heap_fd(void);
/*
 * The parent: `root`, and what it leads to, is complete; all of it was in memory at heap_share(), or was
 * taken from here since. 0, or -errno: it cannot be handed over. Nothing may be written here before
 * heap_part().
 */
int heap_hand_over(const void *root);
/* The child was told. From now on what either writes is its own. */
int heap_part(void);
/* The child: what it was given; NULL with errno. */
const void *heap_adopt(void);
/* Was it taken from here? */
bool heap_has(const void *p);

#endif
