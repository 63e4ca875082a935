/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the policy says about a spot.
 *
 * The name itself is the rules'. What is decided here is what one call does to other names: a
 * directory that moves takes everything below it along. If a rule narrows something below the old
 * or the new name, the move would take a protected file out from under its rule, or put a prepared
 * one under it; so would a symlink or file in the place of a directory that a rule names on the way
 * to what it protects. Where patterns protect differently below the two names but neither is one
 * that a rule spells out, the move is answered like one between two file systems: callers then
 * copy, and each file is judged by its own name.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "engine/broker/broker_impl.h"
#include "engine/plan/decoys.h"
#include "os/mount.h"
#include "policy/runs.h"

/* ---- names ---- */

/* The sandbox's own, unless a rule says otherwise further down (a workspace below /tmp or HOME). */
bool judge_scratch(const struct work *w, const char *name)
{
	const struct policy_rule *rule = NULL;

	/* A private copy, where there is a root in which it stands in the place of the host's. */
	if (w->b->private_root && policy_access(w->b->policy, name, &rule) == ACCESS_READ && rule &&
		rule->view)
		return true;
	for (const char *const *s = w->b->scratch; s && *s; s++) {
		size_t n = strlen(*s);

		if (strncmp(name, *s, n) != 0 || (name[n] != '/' && name[n] != '\0'))
			continue;
		policy_access(w->b->policy, name, &rule);
		if (!rule || (!policy_rule_holds(rule, name) && strlen(rule->path) < n))
			return true;
		/* A grant of this very directory put the host's in its place. */
		return rule->access == ACCESS_DENY && strlen(rule->path) == n;
	}
	return false;
}

bool judge_own(const char *name)
{
	return str_starts(name, TRAP_DIR "/") || str_starts(name, TRAP_EMPTY_DIR "/");
}

bool judge_write_name(const struct work *w, const char *name)
{
	const struct policy_rule *rule;

	if (name[0] != '/')
		return false;
	return judge_scratch(w, name) || rules_access(w, name, &rule) == ACCESS_WRITE;
}

/* In a Git directory that is granted for committing? */
enum gitname judge_git(const struct work *w, const char *name)
{
	enum gitname g = policy_git_name(w->b->policy, name);

	return g ? g : policy_git_name(&w->alias, name);
}

bool judge_git_odd(const struct work *w, const char *name, mode_t mode)
{
	return judge_git(w, name) && !S_ISREG(mode) && !S_ISDIR(mode);
}

/* ---- spots ---- */

/* What the caller holds and no name leads to: a pipe, a memfd, a file removed or never linked. */
static bool nameless(const struct spot *p)
{
	if (p->fd_no < 0)
		return false;
	return p->name[0] != '/' || (p->st.st_nlink == 0 && str_ends(p->name, " (deleted)"));
}

static bool ordinary_device(const struct work *w, const struct spot *p)
{
	static const char *const names[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random",
		"/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts/ptmx"};

	if (!S_ISCHR(p->st.st_mode))
		return false;
	if (p->fd_no >= 0 || str_starts(p->name, "/dev/pts/"))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_eq(p->name, names[i]))
			return true;
	return strlist_has(&w->b->policy->devices, p->name);
}

/* The process that a name in /proc is about; 0 when it is about none. */
static pid_t proc_subject(const char *name)
{
	pid_t pid = 0;

	if (!str_starts(name, "/proc/"))
		return 0;
	for (const char *s = name + 6; *s >= '0' && *s <= '9' && pid < 100000000; s++)
		pid = pid * 10 + (*s - '0');
	return pid;
}

static bool judge_change(const struct work *w, const struct spot *p)
{
	pid_t subject = proc_subject(p->name);

	if (nameless(p) || ordinary_device(w, p))
		return true;
	/* We may look into more processes than the caller may: lend it only itself. */
	if (subject && subject != w->tid && subject != w->tgid)
		return false;
	return judge_write_name(w, p->name);
}

/* An object of Git's that exists is read-only, as Git itself makes it. */
bool judge_write(const struct work *w, const struct spot *p)
{
	return judge_change(w, p) && judge_git(w, p->name) != GITNAME_NEW;
}

/* Is it one of the objects that the command was given by descriptor? */
static bool from_outside(const struct work *w, const struct spot *p)
{
	uint64_t mount = 0;

	if (!w->b->outside_n)
		return false;
	/* A private root has mounts of its own: whatever is reached through one of the host's is. */
	if (w->b->private_root) {
		if (mount_id(p->fd, &mount) < 0)
			return true;
		for (size_t i = 0; i < w->b->outside_n; i++)
			if (w->b->outside[i].mount == mount)
				return true;
		return false;
	}
	/* Elsewhere names decide, and what has none any more is known by its number. */
	for (size_t i = 0; nameless(p) && i < w->b->outside_n; i++)
		if (w->b->outside[i].dev == p->st.st_dev && w->b->outside[i].ino == p->st.st_ino)
			return true;
	return false;
}

bool judge_meta(const struct work *w, const struct spot *p)
{
	if (from_outside(w, p))
		return false;
	if (w->b->metadata_only)
		return true;
	/* Those of a private /dev are the sandbox's own, or on a read-only mount. */
	if (S_ISCHR(p->st.st_mode) || S_ISBLK(p->st.st_mode))
		return judge_scratch(w, p->name);
	return judge_change(w, p);
}

bool judge_read(const struct work *w, const struct spot *p)
{
	const struct policy_rule *rule = NULL;
	pid_t subject = proc_subject(p->name);

	if (nameless(p) || ordinary_device(w, p))
		return true;
	if (p->name[0] != '/')
		return false;
	if (subject && subject != w->tid && subject != w->tgid && str_ends(p->name, "/mem"))
		return false;
	if (judge_scratch(w, p->name))
		return true;
	return rules_access(w, p->name, &rule) != ACCESS_DENY || !rule;
}

/*
 * Does a rule name this very directory on the way to something it protects (".git" in
 * ".git/hooks")? Then nothing but a directory may stand here, and it stays.
 */
static bool leads_to_rule(const struct work *w, const char *name)
{
	return !judge_scratch(w, name) && rules_lead_through(w, name);
}

/* The same for names that run on the host: ".config" in ".config/autostart". */
bool judge_leads_to_held(const struct work *w, const char *name)
{
	const struct policy *p = w->b->policy;

	return p->hold && !judge_scratch(w, name) && runs_held_below(name, p->hold_home);
}

bool judge_make(const struct work *w, const struct spot *slot, bool dir)
{
	return judge_write_name(w, slot->name) &&
	       (dir || (!leads_to_rule(w, slot->name) && !judge_leads_to_held(w, slot->name)));
}

/* The directory that holds the name changes with it. */
static bool judge_parent(const struct work *w, const char *name)
{
	const char *slash = strrchr(name, '/');
	char parent[PATH_MAX];

	if (!slash)
		return false;
	memcpy(parent, name, (size_t)(slash - name));
	parent[slash - name] = '\0';
	return judge_write_name(w, slash == name ? "/" : parent);
}

bool judge_remove(const struct work *w, const struct spot *slot)
{
	return judge_write_name(w, slot->name) && judge_parent(w, slot->name) &&
	       judge_git(w, slot->name) != GITNAME_NEW && !leads_to_rule(w, slot->name);
}

bool judge_move_below(const struct work *w, const struct spot *from, const struct spot *to)
{
	const struct policy *p = w->b->policy;
	bool a = judge_scratch(w, from->name), b = judge_scratch(w, to->name);

	if (a && b)
		return true;
	if (judge_git(w, from->name) || judge_git(w, to->name))
		return false; /* what is below was not looked at */
	/* What may be made in scratch may not be made everywhere. */
	if (p->hold && (a != b || !runs_held_alike(from->name, to->name, p->hold_home)))
		return false;
	return rules_same_below(w, from->name, to->name);
}
