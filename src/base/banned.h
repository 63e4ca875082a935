/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that cannot be used safely do not compile. Each has a bounded sibling in base/. */
#ifndef CROFT_BASE_BANNED_H
#define CROFT_BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CROFT_BANNED(fn) croft_banned_function_##fn

#undef strcpy
#define strcpy CROFT_BANNED(strcpy)
#undef strcat
#define strcat CROFT_BANNED(strcat)
#undef strncpy
#define strncpy CROFT_BANNED(strncpy)
#undef strncat
#define strncat CROFT_BANNED(strncat)
#undef sprintf
#define sprintf CROFT_BANNED(sprintf)
#undef vsprintf
#define vsprintf CROFT_BANNED(vsprintf)
#undef strtok
#define strtok CROFT_BANNED(strtok)
#undef gets
#define gets CROFT_BANNED(gets)
#undef atoi
#define atoi CROFT_BANNED(atoi)
#undef atol
#define atol CROFT_BANNED(atol)
#undef mktemp
#define mktemp CROFT_BANNED(mktemp)
#undef system
#define system CROFT_BANNED(system)
#undef popen
#define popen CROFT_BANNED(popen)

#endif
