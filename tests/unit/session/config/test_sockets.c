/* SPDX-License-Identifier: Apache-2.0 */
/* session/config/sockets: what the kernel's list names is found, and nothing else is taken for a name. */
#include "test.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/tree.h"
#include "session/config/sockets.h"

static char dir[] = "/tmp/croft-unit-sockets-XXXXXX";

static int bound(const char *name)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", name);
	return bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 1) < 0 ? -1 : fd;
}

/*
 * "Path" is the name of a column of the list. A socket that was moved away from where it was bound is not
 * found; one with that name was, and each command looked through its whole workspace for it.
 */
TEST(the_names_of_the_columns_are_none)
{
	char tree[64], path[100], real[PATH_MAX], back[PATH_MAX];
	struct policy_rule rule = {.access = ACCESS_WRITE, .origin = {.layer = LAYER_CLI}};
	struct policy p = {.rules = &rule, .rules_n = 1};
	struct strlist found = STRLIST_INIT(SOCKETS_MAX);
	struct err e = ERR_INIT;

	CHECK(mkdtemp(dir) && realpath(dir, real) && getcwd(back, sizeof(back)));
	snprintf(tree, sizeof(tree), "%s/tree", dir);
	rule.path = tree;
	CHECK(mkdir(tree, 0755) == 0 && chdir(tree) == 0);
	snprintf(path, sizeof(path), "%s/elsewhere", dir);
	CHECK(bound(path) >= 0 && rename(path, "Path") == 0);
	CHECK_INT(sockets_find(&found, &p, NULL, &e), 0);
	CHECK_INT(found.n, 0);

	/* One that was bound by a relative name, and one by its whole name. */
	CHECK(mkdir("deep", 0755) == 0 && chdir("deep") == 0);
	CHECK(bound("relative.sock") >= 0);
	snprintf(path, sizeof(path), "%s/absolute.sock", tree);
	CHECK(bound(path) >= 0);
	CHECK_INT(sockets_find(&found, &p, NULL, &e), 0);
	CHECK_INT(found.n, 2);
	snprintf(path, sizeof(path), "%s/deep/relative.sock", tree);
	CHECK(strlist_has(&found, path));
	strlist_done(&found);
	CHECK(chdir(back) == 0);
	tree_remove_at(AT_FDCWD, dir);
}
