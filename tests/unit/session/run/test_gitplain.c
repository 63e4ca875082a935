/* SPDX-License-Identifier: Apache-2.0 */
/* core/gitplain: what a repository's configuration has beyond that of a new one. */
#include "test.h"

#include <string.h>

#include "base/cleanup.h"
#include "session/run/gitplain.h"

static const char *beyond(const char *text)
{
	return gitplain_config(text, strlen(text));
}

TEST(what_git_init_and_clone_write_is_plain)
{
	CHECK(!beyond(""));
	CHECK(!beyond("[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
		      "\tlogallrefupdates = true\n"));
	CHECK(!beyond("[core]\n\tbare = true\n[extensions]\n\tobjectformat = sha256\n"));
	CHECK(!beyond("# c\n; d\n[remote \"origin\"]\n\turl = https://example.org/x.git\n"
		      "\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n"
		      "\tremote = origin\n\tmerge = refs/heads/main\n[user]\n\tname = x\n"));
	CHECK(!beyond("[CORE]\n\tFileMode = true"));
}

TEST(what_runs_or_leads_elsewhere_is_not)
{
	static const char *const bad[] = {"[core]\n\tfsmonitor = evil\n",
		"[core] fsmonitor = evil\n", "[core]\n\tbare = false\n\thooksPath = h\n",
		"[include]\n\tpath = x\n", "[includeIf \"gitdir:/\"]\n\tpath = x\n",
		"[core]\n\tworktree = /\n", "[filter \"x\"]\n\tclean = evil\n",
		"[alias]\n\tst = !evil\n", "[remote \"o\"]\n\turl = ext::sh -c evil\n",
		"[remote \"o\"]\n\turl = ext:\":\"sh -c evil\n",
		"[remote \"o\"]\n\turl = \"ext:\"\"\":\"sh -c evil\n",
		"[remote \"o\"]\n\turl = -x\n", "[remote \"o\"]\n\tuploadpack = evil\n",
		"[diff \"x\"]\n\ttextconv = evil\n", "[core]\n\tbare = fal\\\nse\n", "[core\n",
		"[]\n", "fsmonitor = x\n", "[core]\n\tsshCommand = x\n",
		"[credential]\n\thelper = x\n", "[gpg]\n\tprogram = x\n",
		"[core \"fsmonitor\"]\n\tbare = x\n", "[remote \"a\\\"]\n\turl = x\n",
		"[core.fsmonitor]\n\tx = y\n", "[extensions]\n\tworktreeConfig = true\n",
		"\xef\xbb\xbf[core]\n\tfsmonitor = x\n"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (!beyond(bad[i]))
			test_fail(__FILE__, __LINE__, "taken for plain: %s", bad[i]);
	CHECK(gitplain_config("[core]\0", 7));
}
