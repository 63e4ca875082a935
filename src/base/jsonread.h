/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A JSON reader for small documents from anywhere: croft's own files, and evidence that others made.
 *
 * Strict (RFC 8259): UTF-8 only, no duplicate keys, no NUL in strings, nothing after the value;
 * depth, nodes and bytes have maxima. Getters take NULL and give NULL, so a path through a document
 * is one expression and is checked once at its end.
 */
#ifndef CROFT_BASE_JSONREAD_H
#define CROFT_BASE_JSONREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define JSONREAD_DEPTH_MAX 64
#define JSONREAD_NODES_MAX 4000000u
#define JSONREAD_BYTES_MAX (64u << 20)

enum jtype { JNULL, JBOOL, JNUMBER, JSTRING, JARRAY, JOBJECT };

struct jnode;
struct jdoc;

int jdoc_parse(struct jdoc **ret, const void *p, size_t n, struct err *e);
void jdoc_free(struct jdoc *d);
void jdoc_freep(struct jdoc **d);
#define cleanup_jdoc __attribute__((cleanup(jdoc_freep)))
const struct jnode *jdoc_root(const struct jdoc *d);

enum jtype jtype(const struct jnode *n);                          /* JNULL for NULL */
const struct jnode *jget(const struct jnode *n, const char *key); /* NULL: not there */
size_t jlen(const struct jnode *n);                               /* array, object; else 0 */
const struct jnode *jat(const struct jnode *n, size_t i);         /* array item, object value */
const char *jkey(const struct jnode *n, size_t i);                /* object key */
const char *jstr(const struct jnode *n);                          /* NULL: not a string */
bool jint(const struct jnode *n, int64_t *ret);                   /* false: not an integer */
/* Thousandths of a number without exponent, further digits cut; false: not one, or too large. */
bool jmilli(const struct jnode *n, int64_t *ret);
bool jtrue(const struct jnode *n); /* is it the word true? */

#endif
