/* SPDX-License-Identifier: Apache-2.0 */
/* croft_doctor: what this machine can enforce, as text or JSON. */
#include <errno.h>
#include <stdlib.h>

#include "api/api_impl.h"
#include "base/cleanup.h"
#include "doctor/doctor.h"
#include "engine/engine.h"

#define DOCTOR_REPORT_MAX (1u << 20)

int croft_doctor(struct croft *c, enum croft_format f, char **ret)
{
	cleanup_free struct doctor *d = calloc(1, sizeof(*d)); /* too large for a stack */
	cleanup_buf struct buf b = BUF_INIT(DOCTOR_REPORT_MAX);
	const struct engine *engine;
	char *text;
	int r;

	c->err = ERR_INIT;
	if (!d)
		return err_set(&c->err, ENOMEM, "examine this machine");
	r = doctor_examine(d, &c->err);
	if (r < 0)
		return r;
	if (f == CROFT_JSON)
		doctor_json(d, &b);
	else
		doctor_text(d, &b);
	text = buf_take(&b);
	if (!text)
		return err_set(&c->err, ENOMEM, "report on this machine");
	*ret = text;
	/* Runs are staged unless somebody says otherwise, so that is what must hold. */
	engine = engine_of(d->chosen);
	return engine && engine->can & ENGINE_STAGE ? 0 : 1;
}
