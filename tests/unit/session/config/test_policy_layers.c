/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the workspace, reading the files, approvals: on a real disk, in a directory of its own.
 */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "session/config/layers.h"
#include "policy/net/net.h"

static char top[PATH_MAX], home[PATH_MAX + 16];
static struct layers_info info;
static struct policy pol;
static struct err err;

static void path_of(char *ret, size_t size, const char *name)
{
	snprintf(ret, size, "%s/%s", home, name);
}

static void make_dir(const char *name)
{
	char path[PATH_MAX * 2];

	path_of(path, sizeof(path), name);
	for (char *p = path + strlen(home) + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		mkdir(path, 0755);
		*p = '/';
	}
	mkdir(path, 0755);
}

static void make_file(const char *name, const char *text)
{
	char path[PATH_MAX * 2];
	int fd;

	path_of(path, sizeof(path), name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		printf("# cannot write %s\n", path);
	close(fd);
}

static void go(const char *name)
{
	char path[PATH_MAX * 2];

	path_of(path, sizeof(path), name);
	if (chdir(path) < 0)
		printf("# cannot enter %s\n", path);
}

static void remove_tree(const char *path)
{
	char cmd[PATH_MAX + 32];
	pid_t pid = fork();

	if (pid == 0) {
		snprintf(cmd, sizeof(cmd), "%s", path);
		execlp("rm", "rm", "-rf", "--", cmd, (char *)NULL);
		_exit(127);
	}
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* A fresh home with a project in it; the working directory is the project. */
static bool fresh(void)
{
	layers_info_done(&info);
	policy_done(&pol);
	err = ERR_INIT;
	if (top[0]) {
		if (chdir("/") == 0)
			remove_tree(top);
	}
	snprintf(top, sizeof(top), "/tmp/croft-unit-XXXXXX");
	if (!mkdtemp(top))
		return false;
	snprintf(home, sizeof(home), "%s/home", top);
	mkdir(home, 0755);
	setenv("HOME", home, 1);
	unsetenv("XDG_STATE_HOME");
	unsetenv("XDG_CONFIG_HOME");
	make_dir("p/sub/deep");
	make_dir("p/.git");
	go("p");
	return true;
}

static int load(struct layers_options o)
{
	layers_info_done(&info);
	policy_done(&pol);
	err = ERR_INIT;
	return layers_load(&pol, &info, &o, &err) < 0 ? err_exit_code(&err) : 0;
}
#define LOAD(...) load((struct layers_options){__VA_ARGS__})

static const char *access_of(const char *name)
{
	char path[PATH_MAX * 2];

	path_of(path, sizeof(path), name);
	return policy_access_names[policy_access(&pol, path, NULL)];
}

static bool is(const char *path, const char *name)
{
	char want[PATH_MAX * 2];

	if (!path)
		return false;
	path_of(want, sizeof(want), name);
	if (strcmp(path, want) != 0)
		printf("# %s is not %s\n", path, want);
	return strcmp(path, want) == 0;
}

TEST(workspace_is_found)
{
	CHECK(fresh());
	go("p/sub/deep");
	CHECK_INT(LOAD(0), 0);
	CHECK(is(info.workspace, "p"));
	CHECK(is(info.cwd, "p/sub/deep"));
	make_file("p/sub/croft.yaml", "version: 1\n");
	CHECK_INT(LOAD(0), 0);
	CHECK(is(info.workspace, "p/sub"));
	CHECK(is(info.project_file, "p/sub/croft.yaml"));
	make_dir("plain/x");
	go("plain/x");
	CHECK_INT(LOAD(0), 0);
	CHECK(is(info.workspace, "plain/x"));
	CHECK(!info.project_file);
	go("p");
	CHECK_INT(LOAD(.directory = "sub/deep"), 0);
	CHECK(is(info.workspace, "p/sub"));
}

TEST(workspace_is_canonical)
{
	char link[PATH_MAX * 2];

	CHECK(fresh());
	path_of(link, sizeof(link), "link");
	CHECK_INT(symlink("p", link), 0);
	go("link");
	CHECK_INT(LOAD(0), 0);
	CHECK(is(info.workspace, "p"));
	CHECK_INT(LOAD(.directory = link), 0);
	CHECK(is(info.workspace, "p"));
}

TEST(workspace_is_refused)
{
	CHECK(fresh());
	go("");
	CHECK_INT(LOAD(0), 126);
	CHECK(strstr(err.msg, "is your home directory"));
	CHECK_INT(LOAD(.directory = top), 126);
	CHECK(strstr(err.msg, "contains your home directory"));
	CHECK_INT(LOAD(.directory = "/"), 126);
	CHECK_INT(LOAD(.directory = "/tmp"), 126);
	CHECK_INT(LOAD(.directory = "/usr"), 126);
	CHECK_INT(LOAD(.directory = "/proc/self"), 126);
	make_dir(".local/state/croft/x");
	go(".local/state/croft/x");
	CHECK_INT(LOAD(0), 126);
	CHECK(strstr(err.msg, "croft's own"));
	go(".local");
	CHECK_INT(LOAD(0), 126);
	CHECK(strstr(err.msg, "contains croft's own files"));
	CHECK_INT(LOAD(.directory = "/nonexistent"), 125);
	/* A repository in the home directory does not make it the workspace. */
	make_dir(".git");
	make_dir("other");
	go("other");
	CHECK_INT(LOAD(0), 0);
	CHECK(is(info.workspace, "other"));
}

TEST(state_elsewhere_is_on_the_floor)
{
	char dir[PATH_MAX * 2], rule[PATH_MAX * 2 + 8];
	const char *list[] = {rule, NULL};

	CHECK(fresh());
	make_dir("st");
	make_dir("cf");
	path_of(dir, sizeof(dir), "st");
	setenv("XDG_STATE_HOME", dir, 1);
	path_of(dir, sizeof(dir), "cf");
	setenv("XDG_CONFIG_HOME", dir, 1);
	CHECK_INT(LOAD(0), 0);
	CHECK(is(info.state, "st/croft"));
	path_of(rule, sizeof(rule), "st/croft/trust");
	CHECK_INT(LOAD(.write = list), 126);
	path_of(rule, sizeof(rule), "cf/croft");
	CHECK_INT(LOAD(.read = list), 126);
	path_of(rule, sizeof(rule), ".");
	CHECK_INT(LOAD(.write = list), 0);
	CHECK_STR(access_of("st/croft/x"), "deny");
	CHECK_STR(access_of("cf/croft/x"), "deny");
	CHECK_STR(access_of("cf/other"), "write");
	go("st");
	CHECK_INT(LOAD(0), 126);
}

/* ~/.config kept elsewhere through a symlink: the real place is on the floor, too. */
TEST(linked_state_is_on_the_floor)
{
	char link[PATH_MAX * 2];
	const char *list[] = {"~/dots", NULL};

	CHECK(fresh());
	make_dir("dots/croft");
	make_file("dots/croft/policy.yaml", "version: 1\nfilesystem: {read: [~/data]}\n");
	path_of(link, sizeof(link), ".config");
	CHECK_INT(symlink("dots", link), 0);
	CHECK_INT(LOAD(.write = list), 0);
	CHECK_STR(access_of("data"), "read");
	CHECK(is(info.config, "dots/croft"));
	CHECK_STR(access_of("dots/croft/policy.yaml"), "deny");
	CHECK_STR(access_of(".config/croft/policy.yaml"), "deny");
	CHECK_STR(access_of("dots/other"), "write");
	go("dots");
	CHECK_INT(LOAD(0), 126);
}

TEST(home_comes_from_somewhere)
{
	char *h = NULL;

	CHECK(fresh());
	CHECK_INT(layers_home(&h, &err), 0);
	CHECK_STR(h, home);
	free(h);
	h = NULL;
	setenv("HOME", "/nonexistent/home", 1);
	if (layers_home(&h, &err) == 0)
		CHECK(strcmp(h, "/nonexistent/home") != 0);
	free(h);
	setenv("HOME", "/", 1);
	CHECK_INT(layers_home(&h, &err), -EPERM);
	setenv("HOME", home, 1);
}

TEST(files_are_read)
{
	CHECK(fresh());
	make_dir(".config/croft");
	make_file(".config/croft/policy.yaml", "version: 1\nfilesystem: {read: [~/data]}\n");
	CHECK_INT(LOAD(0), 0);
	CHECK_STR(access_of("data/x"), "read");
	make_file("p/croft.yaml", "version: 1\nfilesystem: {deny: [./s]}\n");
	CHECK_INT(LOAD(0), 0);
	CHECK_STR(access_of("p/s"), "deny");
	CHECK_STR(access_of("p/croft.yaml"), "read");
	make_file("only.yaml", "version: 1\n");
	CHECK_INT(LOAD(.policy_file = "../only.yaml"), 0);
	CHECK_STR(access_of("data/x"), "deny");
	CHECK_STR(access_of("p/s"), "write");
	CHECK_STR(access_of("p/croft.yaml"), "read");
}

TEST(bad_files_stop_everything)
{
	char path[PATH_MAX * 2];

	CHECK(fresh());
	make_dir(".config/croft");
	make_file(".config/croft/policy.yaml", "version: 1\nnonsense: 1\n");
	CHECK_INT(LOAD(0), 125);
	CHECK(strstr(err.msg, ".config/croft/policy.yaml:2:1: unknown key"));
	make_file(".config/croft/policy.yaml", "version: 1\n");
	path_of(path, sizeof(path), ".config/croft/policy.yaml");
	chmod(path, 0666);
	CHECK_INT(LOAD(0), 126);
	CHECK(strstr(err.msg, "written by everybody"));
	unlink(path);
	CHECK_INT(symlink("/nonexistent", path), 0);
	CHECK_INT(LOAD(0), 125);
	CHECK(strstr(err.msg, "leads nowhere"));
	unlink(path);
	make_file("elsewhere.yaml", "version: 1\nfilesystem: {read: [~/data]}\n");
	CHECK_INT(symlink("../../elsewhere.yaml", path), 0); /* the user's own may be a link */
	CHECK_INT(LOAD(0), 0);
	CHECK_STR(access_of("data"), "read");
	unlink(path);
	path_of(path, sizeof(path), "p/croft.yaml");
	CHECK_INT(symlink("../elsewhere.yaml", path), 0); /* a project's may not */
	CHECK_INT(LOAD(0), 126);
	CHECK(strstr(err.msg, "is a symlink"));
	unlink(path);
	CHECK_INT(mkfifo(path, 0644), 0);
	CHECK_INT(LOAD(0), 125);
	CHECK(strstr(err.msg, "not a regular file"));
	unlink(path);
	CHECK_INT(mkdir(path, 0755), 0);
	CHECK_INT(LOAD(0), 125);
	CHECK(strstr(err.msg, "is a directory"));
	CHECK_INT(LOAD(.policy_file = "/nonexistent.yaml"), 125);
	CHECK_INT(LOAD(.policy_file = "/dev/zero"), 125);
}

TEST(command_line)
{
	static const char *const read[] = {"./sub", "~/data", NULL};
	static const char *const env[] = {"FOO", "BAR=x=y", NULL};
	static const char *const set[] = {
		"limits.memory=1G", "filesystem.deny=~/no", "threat=hostile", NULL};
	static const char *const bad[] = {"x", NULL};

	CHECK(fresh());
	go("p/sub");
	CHECK_INT(LOAD(.read = read, .env = env, .set = set, .profile = "c", .tier = "process"), 0);
	CHECK_STR(access_of("p/sub/sub"), "read"); /* "./sub" as the shell means it */
	CHECK_STR(access_of("p/sub/other"), "write");
	CHECK_STR(access_of("data"), "read");
	CHECK(policy_env_passes(&pol, "FOO"));
	CHECK_STR(pol.env_set[0].value, "x=y");
	CHECK(pol.limits.memory_b == 1u << 30);
	CHECK_INT(pol.threat, THREAT_HOSTILE);
	CHECK_STR(pol.profile, "c");
	CHECK_INT(LOAD(.read = bad), 125);
	CHECK_INT(LOAD(.set = bad), 125);
	CHECK_INT(LOAD(.env = (const char *const[]){"=x", NULL}), 125);
	CHECK_INT(LOAD(.tier = "vm"), 126);
	CHECK_INT(LOAD(.profile = "pyhton"), 125);
	CHECK(strstr(err.msg, "did you mean \"python\"?"));
}

TEST(command_line_network)
{
	static const char *const hosts[] = {"a.test", "b.test:22", NULL};
	static const char *const use[] = {"npm", NULL};
	static const char *const publish[] = {"8080:80", NULL};
	static const char *const host_ports[] = {"5432", NULL};
	static const char *const secrets[] = {"TOKEN@a.test", NULL};
	static const char *const bad[] = {"nosuch", NULL};

	CHECK(fresh());
	go("p");
	CHECK_INT(LOAD(.hosts = hosts), 0);
	CHECK_INT(pol.net->rules_n, 2);
	CHECK_INT(LOAD(.hosts = hosts, .use = use, .publish = publish, .host_ports = host_ports,
			  .secrets = secrets),
		0);
	CHECK(pol.net->rules_n > 2);
	CHECK_INT(pol.net->publish[0].inside, 80);
	CHECK_INT(pol.net->host_ports[0].host, 5432);
	CHECK_STR(pol.net->secrets[0].name, "TOKEN");
	CHECK_INT(LOAD(.use = bad), 125);
	CHECK_INT(LOAD(.publish = bad), 125);
	CHECK_INT(LOAD(.host_ports = bad), 125);
	CHECK_INT(LOAD(.secrets = secrets), 125); /* nothing carries it there */
	CHECK_INT(LOAD(.use = use, .profile = "offline"), 126);
}

TEST(trust_is_for_exact_bytes)
{
	char path[PATH_MAX * 2];
	struct buf b = BUF_INIT(1 << 20);
	struct stat st;

	CHECK(fresh());
	make_file("p/croft.yaml", "version: 1\nfilesystem: {read: [~/data]}\n");
	CHECK_INT(LOAD(0), 126);
	CHECK(strstr(err.msg, "croft policy trust"));
	CHECK_INT(layers_trust(NULL, false, &b, &err), 0);
	CHECK(strstr(buf_str(&b), "+ read "));
	CHECK_INT(LOAD(0), 0);
	CHECK(info.project_trusted);
	CHECK_STR(access_of("data"), "read");
	make_file("p/croft.yaml", "version: 1\nfilesystem: {read: [~/data]}\n#\n");
	CHECK_INT(LOAD(0), 126);
	make_file("p/croft.yaml", "version: 1\nfilesystem: {read: [~/data, ~/x]}\n");
	CHECK_INT(LOAD(0), 126);
	CHECK_INT(layers_trust(NULL, false, &b, &err), 0);
	CHECK_INT(LOAD(0), 0);
	make_file(
		"p/croft.yaml", "version: 1\nfilesystem: {read: [~/data]}\n"); /* approved before */
	CHECK_INT(LOAD(0), 0);
	/* Another project with the same bytes has no approval. */
	make_dir("q");
	make_file("q/croft.yaml", "version: 1\nfilesystem: {read: [~/data]}\n");
	go("q");
	CHECK_INT(LOAD(0), 126);
	path_of(path, sizeof(path), "p/croft.yaml");
	buf_reset(&b);
	CHECK_INT(layers_trust(path, true, &b, &err), 0);
	CHECK(strstr(buf_str(&b), "approval revoked"));
	go("p");
	CHECK_INT(LOAD(0), 126);
	CHECK_INT(layers_trust(NULL, true, &b, &err), 0);
	CHECK(strstr(buf_str(&b), "was not approved"));
	path_of(path, sizeof(path), ".local/state/croft/trust");
	CHECK_INT(stat(path, &st), 0);
	CHECK_INT(st.st_mode & 0777, 0700);
	buf_done(&b);
}

/* A record that others could have written does not count. */
TEST(trust_file_must_be_private)
{
	char path[PATH_MAX * 2], file[PATH_MAX * 2];
	struct digest d, name;

	CHECK(fresh());
	CHECK_INT(LOAD(0), 0);
	path_of(file, sizeof(file), "p/croft.yaml");
	digest_sha256(&d, "x", 1);
	CHECK(!trust_has(info.state, file, &d));
	CHECK_INT(trust_add(info.state, file, &d, &err), 0);
	CHECK(trust_has(info.state, file, &d));
	digest_sha256(&name, file, strlen(file));
	snprintf(path, sizeof(path), "%s/trust/%s", info.state, name.hex);
	CHECK_INT(chmod(path, 0644), 0);
	CHECK(!trust_has(info.state, file, &d));
	CHECK_INT(chmod(path, 0600), 0);
	CHECK(trust_has(info.state, file, &d));
	for (int i = 0; i < 100; i++) { /* bounded, the newest kept */
		digest_sha256(&d, &i, sizeof(i));
		CHECK_INT(trust_add(info.state, file, &d, &err), 0);
		CHECK(trust_has(info.state, file, &d));
	}
	digest_sha256(&d, "x", 1);
	CHECK(!trust_has(info.state, file, &d));
}

TEST(nothing_is_created_by_loading)
{
	char path[PATH_MAX * 2];

	CHECK(fresh());
	CHECK_INT(LOAD(0), 0);
	path_of(path, sizeof(path), ".local");
	CHECK(access(path, F_OK) < 0);
	path_of(path, sizeof(path), ".config");
	CHECK(access(path, F_OK) < 0);
	if (chdir("/") == 0)
		remove_tree(top);
	layers_info_done(&info);
	policy_done(&pol);
}
