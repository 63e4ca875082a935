/* SPDX-License-Identifier: Apache-2.0 */
/* SGR: colours and attributes. See model.h. */
#include "base/cleanup.h"
#include "session/screen/model_impl.h"

/* How many parameters with a colon follow the one at i. */
static size_t sub_params(const struct csi *c, size_t i)
{
	size_t n = 0;

	while (i + 1 + n < c->n && c->sub[i + 1 + n])
		n++;
	return n;
}

static uint32_t rgb(const unsigned *p)
{
	return COLOUR_RGB | MIN_OF(p[0], 255u) << 16 | MIN_OF(p[1], 255u) << 8 | MIN_OF(p[2], 255u);
}

/*
 * 38, 48 and 58: "5;n" or "2;r;g;b", with semicolons, or with colons and then perhaps a colour
 * space before the three. Returns how many parameters belong to it.
 */
static size_t colour(uint32_t *ret, const struct csi *c, size_t i)
{
	size_t sub = sub_params(c, i), left = sub ? sub : c->n - i - 1;
	const unsigned *p = c->param + i + 1;

	if (left >= 2 && p[0] == 5) {
		*ret = COLOUR_INDEX | MIN_OF(p[1], 255u);
		return sub ? sub : 2;
	}
	if (left >= 4 && p[0] == 2) {
		*ret = rgb(sub >= 5 ? p + 2 : p + 1);
		return sub ? sub : 4;
	}
	return left; /* not understood: what belongs to it is not known either */
}

static void underline(struct pen *pen, unsigned kind)
{
	pen->attrs &= ~(unsigned)PEN_UNDERLINE;
	pen->attrs |= MIN_OF(kind, 5u) << PEN_UNDERLINE_SHIFT;
}

static bool attribute(struct pen *pen, unsigned v)
{
	static const struct {
		unsigned char on, off;
		uint32_t attrs;
	} plain[] = {{1, 22, PEN_BOLD}, {2, 22, PEN_DIM}, {3, 23, PEN_ITALIC}, {5, 25, PEN_BLINK},
		{6, 25, PEN_BLINK}, {7, 27, PEN_REVERSE}, {8, 28, PEN_CONCEAL}, {9, 29, PEN_STRIKE},
		{53, 55, PEN_OVERLINE}};
	bool known = false;

	for (size_t i = 0; i < ARRAY_SIZE(plain); i++) {
		if (v == plain[i].on)
			pen->attrs |= plain[i].attrs;
		else if (v == plain[i].off)
			pen->attrs &= ~plain[i].attrs;
		else
			continue;
		known = true;
	}
	return known;
}

static void one(struct pen *pen, unsigned v)
{
	if (v == 0)
		*pen = (struct pen){0};
	else if (attribute(pen, v))
		return;
	else if (v == 4 || v == 24)
		underline(pen, v == 4 ? 1 : 0);
	else if (v == 21)
		underline(pen, 2);
	else if (v >= 30 && v <= 37)
		pen->fg = COLOUR_INDEX | (v - 30);
	else if (v == 39)
		pen->fg = 0;
	else if (v >= 40 && v <= 47)
		pen->bg = COLOUR_INDEX | (v - 40);
	else if (v == 49)
		pen->bg = 0;
	else if (v == 59)
		pen->line = 0;
	else if (v >= 90 && v <= 97)
		pen->fg = COLOUR_INDEX | (v - 90 + 8);
	else if (v >= 100 && v <= 107)
		pen->bg = COLOUR_INDEX | (v - 100 + 8);
}

void model_sgr(struct pen *pen, const struct csi *c)
{
	for (size_t i = 0; i < c->n; i++) {
		size_t sub = sub_params(c, i);

		if (c->param[i] == 38)
			i += colour(&pen->fg, c, i);
		else if (c->param[i] == 48)
			i += colour(&pen->bg, c, i);
		else if (c->param[i] == 58)
			i += colour(&pen->line, c, i);
		else if (c->param[i] == 4 && sub) {
			underline(pen, c->param[i + 1]);
			i += sub;
		} else {
			one(pen, c->param[i]);
			i += sub;
		}
	}
}
