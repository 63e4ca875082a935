/* SPDX-License-Identifier: Apache-2.0 */
/* How a word may be written: as it is, in base64 at three alignments and two alphabets, in
 * hexadecimal. Always the whole word. Pure. */
#ifndef CROFT_SECRET_FORMS_H
#define CROFT_SECRET_FORMS_H

#include <stddef.h>
#include <stdint.h>

#define FORMS_NUM 9u   /* plain, 2 x 3 base64, 2 hexadecimal */
#define FORM_WIDEST 2u /* bytes for one: hexadecimal */

/* Writes w in this form; out has room for FORM_WIDEST * n. Returns its length, at least n. */
size_t form_write(uint8_t *out, const uint8_t *w, size_t n, unsigned form);

#endif
