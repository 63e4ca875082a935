/* SPDX-License-Identifier: Apache-2.0 */
/* libcroft: why. */
#include <errno.h>
#include <stdlib.h>

#include "api/api_impl.h"
#include "session/config/layers.h"
#include "show/why.h"

int croft_why(struct croft *c, const char *id, enum croft_format f, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(RECEIPT_JSON_MAX);
	char *home = NULL;
	int r;

	c->err = ERR_INIT;
	r = layers_home(&home, &c->err);
	if (r == 0)
		r = f == CROFT_JSON ? why_json(home, id, &b, &c->err)
				    : why_text(home, id, &b, &c->err);
	free(home);
	if (r < 0)
		return r;
	*ret = buf_take(&b);
	return *ret ? 0 : err_set(&c->err, ENOMEM, "answer");
}
