/* SPDX-License-Identifier: Apache-2.0 */
/*
 * G17: names that some tool on the host executes by itself (shells, editors, agents, Git), written in
 * a tree that is granted as a whole. Those that are there are held everywhere; those that are not, and
 * those deeper down, where there is a broker.
 */
#include "prove/prove.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

static int try_write(const char *path, int flags)
{
	cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0644);

	return fd < 0 || write(fd, "escaped\n", 8) != 8 ? -1 : 0;
}

/* Without a sandbox each of these succeeds, in this order. */
static void attack_file(struct probe_tally *t, const char *name)
{
	tally_try(t, try_write(name, O_APPEND), "append to %s", name);
	tally_try(t, try_write(name, O_TRUNC), "overwrite %s", name);
	tally_try(t, chmod(name, 0755), "chmod %s", name);
	try_write("other", O_CREAT);
	tally_try(t, rename("other", name), "rename a file to %s", name);
	unlink("other");
	tally_try(t, rename(name, "away"), "rename %s", name);
	rename("away", name);
	tally_try(t, unlink(name), "remove %s", name);
	tally_try(t, try_write(name, O_CREAT | O_EXCL), "make %s anew", name);
}

static enum probe_result g17_present(const struct probe_args *a, struct buf *detail)
{
	static const char *const files[] = {".bashrc", ".envrc", ".gitconfig", ".mcp.json",
		".claude/settings.json", ".vscode/tasks.json"};
	static const char *const dirs[] = {".claude", ".vscode"};
	struct probe_tally t = tally_start(a, detail);
	char path[64];

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		attack_file(&t, files[i]);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		snprintf(path, sizeof(path), "%s/new", dirs[i]);
		tally_try(&t, try_write(path, O_CREAT), "add to %s", dirs[i]);
		snprintf(path, sizeof(path), "away%zu", i);
		tally_try(&t, rename(dirs[i], path), "move %s away", dirs[i]);
		tally_try(&t, mkdir(dirs[i], 0755), "make %s anew", dirs[i]);
	}
	return tally_end(&t);
}

static enum probe_result g17_absent(const struct probe_args *a, struct buf *detail)
{
	static const char *const names[] = {".profile", ".zshrc", ".bash_profile", ".vimrc",
		".gdbinit", ".gitmodules", ".pre-commit-config.yaml", "sub/.envrc", "sub/.bashrc",
		"sub/.mcp.json", "sub/.gitconfig"};
	struct probe_tally t = tally_start(a, detail);

	mkdir("sub", 0755);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *p = names[i];

		tally_try(&t, try_write(p, O_CREAT | O_EXCL), "create %s", p);
		unlink(p);
		try_write("plain", O_CREAT);
		tally_try(&t, symlink("plain", p), "symlink %s", p);
		unlink(p);
		tally_try(&t, link("plain", p), "link %s", p);
		unlink(p);
		tally_try(&t, rename("plain", p), "rename to %s", p);
	}
	/* A tree with such a name in it, made under another name and moved. */
	mkdir("prepared", 0755);
	try_write("prepared/tasks.json", O_CREAT);
	tally_try(&t, rename("prepared", "sub/.vscode"), "move a directory to sub/.vscode");
	return tally_end(&t);
}

static enum probe_result g17_home(const struct probe_args *a, struct buf *detail)
{
	static const char *const names[] = {".bashrc", ".profile", ".bash_profile", ".zshrc",
		".gitconfig", ".npmrc", ".vimrc", ".pam_environment"};
	struct probe_tally t = tally_start(a, detail);

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[64];

		snprintf(path, sizeof(path), "home/%s", names[i]);
		tally_try(&t, try_write(probe_path(a, path), O_CREAT), "~/%s", names[i]);
	}
	return tally_end(&t);
}

static const struct probe probes[] = {
	{"G17", "G17-present", "change files that tools on the host execute", PROBE_BOTH,
		g17_present, .rules = RULES_EITHER},
	{"G17", "G17-absent", "make such files where a broker judges names", PROBE_BOTH, g17_absent,
		.rules = RULES_INNER},
	{"G17", "G17-absent-plain", "make such files with no rules of the user's", PROBE_PROCESS,
		g17_absent},
	{"G17", "G17-home", "write them in a home directory that is granted", PROBE_BOTH, g17_home,
		.write = "home"},
};
const struct probe_family probes_names = {probes, ARRAY_SIZE(probes)};
