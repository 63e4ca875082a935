/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk through a review: see review_walk.h.
 *
 * Nothing is saved here: leaving at any point, by q, a signal or a closed terminal, leaves the
 * environment as it was. Texts of items are printable already; the escape sequences here are our own.
 */
#include "cli/review_walk.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define LINE_MAX_B 8192
#define KEY_NONE (-1)

struct walk {
	struct croft *croft;
	struct croft_review *review;
	size_t at, n;
	size_t top, shown; /* first line of the text on the screen, and how many are */
	bool color, left, save;
	char search[256];
};

/* ---- the terminal ---- */

static struct termios before, keys;
static volatile sig_atomic_t raw;

static void leave_raw(void)
{
	if (raw)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
	raw = 0;
}

static void enter_raw(void)
{
	raw = 1;
	tcsetattr(STDIN_FILENO, TCSADRAIN, &keys);
}

/* Whatever ends us must not leave the user's terminal mute. */
static void give_up(int sig)
{
	leave_raw();
	signal(sig, SIG_DFL);
	raise(sig);
}

/* ctrl-Z: a sane terminal for the shell meanwhile. */
static void stop(int sig)
{
	int saved = errno, was_raw = raw;

	leave_raw();
	signal(sig, SIG_DFL);
	raise(sig);
	signal(sig, stop);
	if (was_raw)
		enter_raw();
	errno = saved;
}

static int take_terminal(void)
{
	static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct sigaction end = {.sa_handler = give_up, .sa_flags = SA_NODEFER};
	struct sigaction halt = {.sa_handler = stop, .sa_flags = SA_NODEFER | SA_RESTART};

	if (tcgetattr(STDIN_FILENO, &before) < 0)
		return -1;
	keys = before;
	keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	keys.c_lflag |= ISIG;
	keys.c_cc[VMIN] = 1;
	keys.c_cc[VTIME] = 0;
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
		sigaction(ending[i], &end, NULL);
	sigaction(SIGTSTP, &halt, NULL);
	enter_raw();
	return 0;
}

static void screen(size_t *ret_rows, size_t *ret_cols)
{
	struct winsize w = {0};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0 || w.ws_row == 0 || w.ws_col == 0) {
		w.ws_row = 24;
		w.ws_col = 80;
	}
	*ret_rows = w.ws_row;
	*ret_cols = w.ws_col;
}

static int read_key(void)
{
	unsigned char key;
	ssize_t n;

	fflush(stdout);
	do
		n = read(STDIN_FILENO, &key, 1);
	while (n < 0 && errno == EINTR);
	return n == 1 ? key : KEY_NONE;
}

/* A line, with the terminal's own editing. false: nothing was given. */
static bool read_line(const char *prompt, char ret[LINE_MAX_B])
{
	ssize_t n;

	printf("%s", prompt);
	fflush(stdout);
	leave_raw();
	do
		n = read(STDIN_FILENO, ret, LINE_MAX_B - 1);
	while (n < 0 && errno == EINTR);
	enter_raw();
	if (n <= 0)
		return false;
	ret[n] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
	return true;
}

/* ---- showing ---- */

static void paint(const struct walk *w, const char *sequence)
{
	if (w->color)
		fputs(sequence, stdout);
}

/* How many rows of the screen a line takes at most: tabs are eight wide, what may be wide is two. */
static size_t rows_of(const char *line, size_t n, size_t cols)
{
	size_t width = 0;

	for (size_t i = 0; i < n; i++)
		width += line[i] == '\t'                  ? 8
			 : (unsigned char)line[i] >= 0xe0 ? 2
							  : ((unsigned char)line[i] & 0xc0) != 0x80;
	return width == 0 ? 1 : (width + cols - 1) / cols;
}

static void show_line(const struct walk *w, const char *line, size_t n)
{
	const char *color = line[0] == '+'   ? "\033[32m"
			    : line[0] == '-' ? "\033[31m"
			    : line[0] == '@' ? "\033[36m"
					     : NULL;

	if (color)
		paint(w, color);
	fwrite(line, 1, n, stdout);
	if (color)
		paint(w, "\033[0m");
	putchar('\n');
}

/* As many lines as fit below the header, from w->top on. */
static void show_text(struct walk *w, const char *text)
{
	size_t rows, cols, used = 0, line = 0, more = 0;

	screen(&rows, &cols);
	rows = rows > 12 ? rows - 8 : 4;
	w->shown = 0;
	for (const char *p = text; *p; line++) {
		size_t n = strcspn(p, "\n"), need = rows_of(p, n, cols);

		if (line >= w->top && !more && (used == 0 || used + need <= rows)) {
			show_line(w, p, n);
			w->shown++;
			used += need;
		} else if (line >= w->top) {
			more++;
		}
		p += n + (p[n] == '\n');
	}
	if (more)
		printf("… %zu more lines (m shows them)\n", more);
}

static const char *decision_word(enum croft_decision d)
{
	return d == CROFT_ACCEPTED   ? "accepted"
	       : d == CROFT_REJECTED ? "rejected"
	       : d == CROFT_EDITED   ? "accepted as edited"
				     : "undecided";
}

static void show_item(struct walk *w, const struct croft_review_item *x)
{
	putchar('\n');
	paint(w, "\033[1m");
	printf("%s", x->path);
	paint(w, "\033[0m");
	printf("   %s\n", x->title);
	printf("file %zu/%zu", x->file + 1, x->files);
	if (x->hunks)
		printf(", hunk %zu/%zu", x->hunk + 1, x->hunks);
	printf(" · %s%s\n", x->refused ? "refused" : decision_word(x->decision),
		*x->comment ? " · commented" : "");
	if (*x->warnings) {
		paint(w, "\033[1;31m");
		printf("! %s\n", x->warnings);
		paint(w, "\033[0m");
	}
	show_text(w, x->text);
}

static void show_help(void)
{
	fputs("y  accept            n  reject           s  leave undecided\n"
	      "a  accept the rest of this file         d  reject the rest of this file\n"
	      "e  edit, then accept                    c  comment\n"
	      "b  back              /  search           m  more lines\n"
	      "q  leave (asks whether to save)         ?  this\n"
	      "Files that run on your machine need a y of their own for each item. What is "
	      "undecided when you\n"
	      "save counts as rejected.\n",
		stdout);
}

/* ---- keys ---- */

static void go(struct walk *w, size_t at)
{
	w->at = at;
	w->top = 0;
}

static void complain(const struct walk *w)
{
	printf("croft: %s\n", croft_error(w->croft));
}

static void decide(struct walk *w, enum croft_decision d)
{
	if (croft_review_decide(w->review, w->at, d) < 0)
		complain(w);
	else
		go(w, w->at + 1);
}

/* From here to the end of the file. What runs on this machine is not accepted wholesale. */
static void decide_rest(struct walk *w, const struct croft_review_item *x, enum croft_decision d)
{
	size_t file = x->file, i = w->at;

	if (d == CROFT_ACCEPTED && (x->runs || x->refused)) {
		printf(x->refused ? "This cannot land and so cannot be accepted.\n"
				  : "This file runs on your machine: say y to each part of it.\n");
		return;
	}
	for (; i < w->n; i++) {
		const struct croft_review_item *k = croft_review_at(w->review, i);

		if (!k || k->file != file)
			break;
		if (croft_review_decide(w->review, i, d) < 0) {
			complain(w);
			return;
		}
	}
	go(w, i);
}

static void edit(struct walk *w, const struct croft_review_item *x)
{
	static const char note[] =
		"# Lines with ' ' and '-' must stay ('-' may become ' ' to keep a line); '+' lines "
		"are yours.\n"
		"# Lines with '#' are dropped. An unchanged text changes nothing.\n";
	const char *text;
	char *given, *changed;

	if (!x->editable) {
		puts("This cannot be edited here: it is not a plain text hunk.");
		return;
	}
	text = croft_review_text(w->review, w->at);
	if (!text || !(given = malloc(strlen(text) + sizeof(note)))) {
		puts("croft: out of memory");
		return;
	}
	snprintf(given, strlen(text) + sizeof(note), "%s%s", text, note);
	leave_raw();
	fflush(stdout);
	changed = review_editor(given);
	enter_raw();
	if (changed && strcmp(changed, given) == 0)
		puts("Nothing was changed.");
	else if (changed && croft_review_edit(w->review, w->at, changed) < 0)
		complain(w);
	else if (changed)
		go(w, w->at + 1);
	free(changed);
	free(given);
}

static void comment(struct walk *w)
{
	char line[LINE_MAX_B];

	if (read_line("comment (empty: none): ", line) &&
		croft_review_comment(w->review, w->at, line) < 0)
		complain(w);
}

/* The next item whose name or text has it, from here on and round. */
static void search(struct walk *w)
{
	char line[LINE_MAX_B];

	if (!read_line("search: ", line))
		return;
	if (*line)
		snprintf(w->search, sizeof(w->search), "%.255s", line);
	for (size_t k = 1; *w->search && k <= w->n; k++) {
		size_t i = (w->at + k) % w->n;
		const struct croft_review_item *x = croft_review_at(w->review, i);

		if (x && (strstr(x->path, w->search) || strstr(x->text, w->search))) {
			go(w, i);
			return;
		}
	}
	puts("Not found.");
}

/* On from the last line that was shown, whatever the screen is now: no line is passed over. */
static void show_more(struct walk *w, const struct croft_review_item *x)
{
	size_t lines = 0;

	for (const char *p = x->text; *p; p++)
		lines += *p == '\n';
	w->top += w->shown > 1 ? w->shown - 1 : 1;
	if (w->top >= lines)
		w->top = 0;
}

/* ---- the end ---- */

static size_t decided(const struct walk *w, size_t *ret_open)
{
	size_t n = 0;

	*ret_open = 0;
	for (size_t i = 0; i < w->n; i++) {
		const struct croft_review_item *x = croft_review_at(w->review, i);

		if (!x || x->refused)
			continue;
		n += x->decision != CROFT_UNDECIDED;
		*ret_open += x->decision == CROFT_UNDECIDED;
	}
	return n;
}

/* Ask until it is clear; b goes back to the last item. */
static void ask_to_save(struct walk *w)
{
	size_t open, n = decided(w, &open);
	int key;

	if (n == 0) {
		w->left = true;
		return;
	}
	for (;;) {
		printf("\nSave this review? %zu decided", n);
		if (open)
			printf(", %zu undecided (these count as rejected)", open);
		printf(" [y save, n throw the decisions away, b back] ");
		key = read_key();
		putchar('\n');
		if (key == 'y' || key == 'Y' || key == 'n' || key == KEY_NONE) {
			w->left = true;
			w->save = key == 'y' || key == 'Y';
			return;
		}
		if (key == 'b') {
			go(w, w->at && w->at >= w->n ? w->n - 1 : w->at);
			return;
		}
	}
}

static void obey(struct walk *w, const struct croft_review_item *x, int key)
{
	switch (key) {
	case 'y':
		decide(w, CROFT_ACCEPTED);
		break;
	case 'n':
		decide(w, CROFT_REJECTED);
		break;
	case 'a':
		decide_rest(w, x, CROFT_ACCEPTED);
		break;
	case 'd':
		decide_rest(w, x, CROFT_REJECTED);
		break;
	case 's':
		go(w, w->at + 1);
		break;
	case 'b':
		go(w, w->at ? w->at - 1 : 0);
		break;
	case 'e':
		edit(w, x);
		break;
	case 'c':
		comment(w);
		break;
	case '/':
		search(w);
		break;
	case 'm':
		show_more(w, x);
		break;
	case 'q':
		ask_to_save(w);
		break;
	default:
		show_help();
	}
}

static bool wants_color(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return !(no && *no) && term && strcmp(term, "dumb") != 0;
}

int review_walk(struct croft *c, struct croft_review *r)
{
	struct walk w = {
		.croft = c, .review = r, .n = croft_review_count(r), .color = wants_color()};
	int key = 0;

	if (take_terminal() < 0)
		return -1;
	fputs(croft_review_context(r), stdout);
	while (!w.left && key != KEY_NONE) {
		const struct croft_review_item *x;

		if (w.at >= w.n) {
			ask_to_save(&w);
			continue;
		}
		x = croft_review_at(r, w.at);
		if (!x) {
			complain(&w);
			break;
		}
		show_item(&w, x);
		printf("Accept this? [y,n,a,d,e,c,s,b,/,m,q,?] ");
		key = read_key();
		if (key == KEY_NONE)
			break;
		printf("%c\n", key >= 0x20 && key < 0x7f ? key : '?');
		obey(&w, x, key);
	}
	leave_raw();
	fflush(stdout);
	return w.save;
}
