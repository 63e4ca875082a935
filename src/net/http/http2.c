/* SPDX-License-Identifier: Apache-2.0 */
/* What both sides of HTTP/2 share: see http2.h. */
#include "net/http/http2.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

void h2_list_add(
	struct h2_list *l, const char *name, const char *value, size_t value_len, bool secret)
{
	if (l->n >= ARRAY_SIZE(l->v))
		return;
	l->v[l->n++] = (nghttp2_nv){
		.name = (uint8_t *)(uintptr_t)name,
		.namelen = strlen(name),
		.value = (uint8_t *)(uintptr_t)value,
		.valuelen = value_len,
		.flags = secret ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE,
	};
}

void h2_list_fields(struct h2_list *l, const struct http_fields *f)
{
	for (size_t i = 0; i < f->n; i++)
		h2_list_add(l, f->v[i].name, f->v[i].value, f->v[i].value_len, f->v[i].sensitive);
}

void h2_list_length(struct h2_list *l, uint64_t n)
{
	int len = snprintf(l->number, sizeof(l->number), "%llu", (unsigned long long)n);

	h2_list_add(l, "content-length", l->number, (size_t)len, false);
}

nghttp2_option *h2_options(void)
{
	nghttp2_option *o = NULL;

	if (nghttp2_option_new(&o) != 0)
		return NULL;
	nghttp2_option_set_no_auto_window_update(o, 1);
	nghttp2_option_set_no_closed_streams(o, 1);
	nghttp2_option_set_max_deflate_dynamic_table_size(o, H2_TABLE_B);
	nghttp2_option_set_max_settings(o, 16);
	nghttp2_option_set_max_reserved_remote_streams(o, 0); /* pushes: not one, not even early */
	return o;
}

int h2_fill(nghttp2_session *h2, struct stream *s)
{
	const uint8_t *p;
	ssize_t n;

	while (s->out.len < STREAM_OUT_HIGH_B) {
		n = nghttp2_session_mem_send(h2, &p);
		if (n == 0)
			return 0;
		if (n < 0 || !fifo_add(&s->out, p, (size_t)n))
			return -1;
	}
	return 1;
}
