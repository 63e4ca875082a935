/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the screen model ask of each other: see model.h. */
#ifndef CROFT_SESSION_SCREEN_MODEL_IMPL_H
#define CROFT_SESSION_SCREEN_MODEL_IMPL_H

#include "session/screen/model.h"

#define CSI_PARAMS_MAX 32

/* A control sequence taken apart. An absent parameter is 0; sub[i]: a colon stood before it. */
struct csi {
	unsigned char prefix, inter, final;
	unsigned param[CSI_PARAMS_MAX];
	bool sub[CSI_PARAMS_MAX];
	size_t n;
};

/* ---- model.c ---- */
void model_reset(struct model *m);      /* RIS */
void model_soft_reset(struct model *m); /* DECSTR */
void model_set_mode(struct model *m, enum model_mode mode, bool on);
void model_save(struct model *m);
void model_restore(struct model *m);
void model_alternate(struct model *m, bool on);
int model_utf8(unsigned char out[4], uint32_t ch); /* bytes written */

/* ---- model_edit.c ---- */
static inline struct cell *model_line(const struct model *m, unsigned row)
{
	return m->page[m->active].row[row];
}
static inline bool model_in_columns(const struct model *m)
{
	return m->cur.col >= m->left && m->cur.col <= m->right;
}
void model_touch(struct model *m); /* something moves or changes: forget `last` and `pending` */
void model_blank(struct cell *c, unsigned n, uint32_t bg);
void model_mend(struct cell *line, unsigned cols); /* halves of wide characters become blanks */
void model_goto(struct model *m, unsigned row, unsigned col);        /* of the screen, clamped */
void model_goto_origin(struct model *m, unsigned row, unsigned col); /* of the margins, if so set */
void model_scroll_up(struct model *m, unsigned top, unsigned n);     /* from top to the margin */
void model_scroll_down(struct model *m, unsigned top, unsigned n);
void model_index(struct model *m); /* down, scrolling at the margin */
void model_reverse_index(struct model *m);
void model_insert(struct model *m, unsigned n);
void model_delete(struct model *m, unsigned n);
void model_erase(struct model *m, unsigned row, unsigned from, unsigned to); /* to: exclusive */
void model_margins_off(struct model *m);

/* ---- model_print.c, model_csi.c, model_sgr.c ---- */
int model_width(uint32_t ch); /* 0, 1 or 2 columns */
void model_print(struct model *m, uint32_t ch);
void model_repeat(struct model *m, unsigned n);
void model_csi(struct model *m, const struct csi *c);
void model_sgr(struct pen *pen, const struct csi *c);

#endif
