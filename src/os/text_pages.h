/* SPDX-License-Identifier: Apache-2.0 */
/* The pages of our own code, which a process that waits for long need not hold. */
#ifndef CROFT_OS_TEXT_PAGES_H
#define CROFT_OS_TEXT_PAGES_H

/* They are the file's and nobody has written to them: what is needed again comes back from the page cache. */
void text_pages_give_back(void);

#endif
