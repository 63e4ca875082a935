# SPDX-License-Identifier: Apache-2.0
"""An SVG picture of the results, written by hand: one panel a measure, labels on the marks."""

import math
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, ROW, HEAD = 920, 270, 110, 26, 58
INK, FAINT, OURS, THEIRS = "#1b1f24", "#d0d7de", "#1f7a4d", "#8c959f"


class Canvas:
	def __init__(self):
		self.parts, self.y = [], 16

	def text(self, x, y, s, size=12, anchor="start", fill=INK, weight="normal"):
		self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
						  f'fill="{fill}" font-weight="{weight}">{escape(s)}</text>')

	def line(self, x1, y1, x2, y2, stroke=FAINT, width=1.0, dash=""):
		extra = f' stroke-dasharray="{dash}"' if dash else ""
		self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
						  f'stroke="{stroke}" stroke-width="{width}"{extra}/>')

	def rect(self, x, y, w, h, fill):
		self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(w, 0):.1f}" height="{h:.1f}" '
						  f'rx="2" fill="{fill}"/>')

	def dot(self, x, y, fill):
		self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{fill}"/>')

	def svg(self):
		height = self.y + 16
		return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
				f'width="{WIDTH}" height="{height:.0f}" font-family="system-ui, sans-serif">\n'
				f'<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(self.parts) + "\n</svg>\n")


def colour(name):
	return OURS if name.startswith("croft") else THEIRS


def log_ticks(lo, hi):
	first, last = math.floor(math.log10(lo)), math.ceil(math.log10(hi))
	return [10.0 ** e for e in range(first, last + 1)]


def number(v):
	return f"{v:.0f}" if v >= 100 else f"{v:.1f}" if v >= 10 else f"{v:.2f}"


def panel_intervals(c, title, note, rows, unit):
	"""Dot at the median, line from p10 to p90, logarithmic axis. rows: (name, p10, p50, p90)."""
	ticks = log_ticks(min(r[1] for r in rows), max(r[3] for r in rows))
	span = math.log10(ticks[-1]) - math.log10(ticks[0]) or 1

	def x(v):
		return LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(v) - math.log10(ticks[0])) / span

	c.text(16, c.y + 14, title, 15, weight="600")
	c.text(16, c.y + 32, note, 11, fill="#57606a")
	top = c.y + HEAD
	bottom = top + ROW * len(rows)
	for t in ticks:
		c.line(x(t), top - 6, x(t), bottom)
		c.text(x(t), top - 10, f"{t:g} {unit}", 10, "middle", "#57606a")
	for i, (name, low, mid, high) in enumerate(rows):
		y = top + ROW * i + ROW / 2
		c.text(LEFT - 12, y + 4, name, 12, "end", weight="600" if name.startswith("croft") else "normal")
		c.line(x(low), y, x(high), y, colour(name), 3)
		c.dot(x(mid), y, colour(name))
		c.text(max(x(high), x(mid)) + 10, y + 4, f"{number(mid)} {unit}", 11)
	c.y = bottom + 22


def panel_bars(c, title, note, rows, unit):
	"""rows: (name, value)."""
	top_value = max(v for _, v in rows) * 1.02
	c.text(16, c.y + 14, title, 15, weight="600")
	c.text(16, c.y + 32, note, 11, fill="#57606a")
	top = c.y + HEAD - 14
	for i, (name, value) in enumerate(rows):
		y = top + ROW * i
		width = (WIDTH - LEFT - RIGHT) * value / top_value
		c.text(LEFT - 12, y + ROW / 2 + 4, name, 12, "end", weight="600" if name.startswith("croft") else "normal")
		c.rect(LEFT, y + 4, width, ROW - 8, colour(name))
		c.text(LEFT + width + 8, y + ROW / 2 + 4, f"{number(value)} {unit}", 11)
	c.y = top + ROW * len(rows) + 22


def panel_overhead(c, title, note, rows, bar):
	"""Overhead in percent with its interval, on a linear axis around 0. rows: (name, low, mid, high)."""
	limit = max([abs(v) for r in rows for v in r[1:]] + [bar]) * 1.1
	limit = math.ceil(limit)

	def x(v):
		return LEFT + (WIDTH - LEFT - RIGHT) * (v + limit) / (2 * limit)

	c.text(16, c.y + 14, title, 15, weight="600")
	c.text(16, c.y + 32, note, 11, fill="#57606a")
	top = c.y + HEAD
	bottom = top + ROW * len(rows)
	step = max(bar, math.ceil(limit / 4 / bar) * bar)
	ticks = [t for t in range(-limit // step * step, limit + 1, step) if -limit <= t <= limit]
	for t in sorted({*ticks, bar}):
		c.line(x(t), top - 6, x(t), bottom, "#cf222e" if t == bar else FAINT, 1, "4 3" if t == bar else "")
		if t in ticks:
			c.text(x(t), top - 10, f"{t:+g} %" if t else "0", 10, "middle", "#57606a")
	for i, (name, low, mid, high) in enumerate(rows):
		y = top + ROW * i + ROW / 2
		c.text(LEFT - 12, y + 4, name, 12, "end")
		c.line(x(low), y, x(high), y, OURS, 3)
		c.dot(x(mid), y, OURS)
		c.text(x(max(high, mid)) + 10, y + 4, f"{mid:+.1f} %", 11)
	c.y = bottom + 22


def draw(results):
	"""The whole picture from the results document; panels without data are left out."""
	c = Canvas()
	startup = results.get("startup", {})
	rows = [(n, s["p10"] / 1e6, s["p50"] / 1e6, s["p90"] / 1e6) for n, s in startup.get("runs", {}).items()]
	if rows:
		rows.sort(key=lambda r: r[2])
		panel_intervals(c, "Time to run a program that exits at once",
						"p50 with p10–p90, logarithmic; less is better", rows, "ms")
	for load in results.get("rate", []):
		rows = sorted(((n, s["p50"]) for n, s in load["per_second"].items()), key=lambda r: -r[1])
		panel_bars(c, f"Sandboxes per second, {load['workers']} workers", "more is better", rows, "/s")
	rows = []
	for job in results.get("work", []):
		for tier, r in job["ratio"].items():
			rows.append((f"{job['name']}, {tier.removeprefix('croft ')}",
						 *(100 * (r[k] - 1) for k in ("low", "p50", "high"))))
	if rows:
		panel_overhead(c, "Work inside, compared with native",
			"median of interleaved pairs, 95 % interval; dashed: the promise, 3 %; less is better",
					   rows, 3)
	memory = {n: m for n, m in results.get("memory", {}).items() if m and "pss_b" in m}
	if memory:
		panel_bars(c, "Memory of the tool's own processes while a sandbox rests",
			"proportional set size; less is better",
				   sorted(((n, m["pss_b"] / 2**20) for n, m in memory.items()), key=lambda r: r[1]), "MiB")
	return c.svg()
