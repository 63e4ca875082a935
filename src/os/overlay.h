/* SPDX-License-Identifier: Apache-2.0 */
/* Can these directories be the layers of an overlay, here, for this user? Tried by doing. */
#ifndef CROFT_OS_OVERLAY_H
#define CROFT_OS_OVERLAY_H

/* In namespaces of a child that ends at once; nothing stays mounted. 0 or -errno. */
int overlay_try(const char *lower, const char *upper, const char *work);

#endif
