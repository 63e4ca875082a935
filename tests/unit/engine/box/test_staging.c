/* SPDX-License-Identifier: Apache-2.0 */
/* engine: a workspace on kept layers: what is written is in the upper layer, and nowhere else. */
#include "stage_world.h"

#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "engine/init/init.h"
#include "engine/plan/plan.h"
#include "os/seccomp.h"

static bool is_whiteout(const char *name)
{
	struct stat st;

	return lstat(in_top(name), &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == 0;
}

/* What the receipt says about a file; NULL: nothing. */
static const char *change_of(const struct ran *r, const char *name)
{
	const struct record *rec = &r->receipt.record;
	char full[PATH_MAX];

	snprintf(full, sizeof(full), "%s/%s", ws, name);
	for (size_t i = 0; i < rec->files_n; i++)
		if (strcmp(rec->files[i].path, full) == 0)
			return file_change_names[rec->files[i].change];
	return NULL;
}

/* The workspace on base, as a pinned environment has it. */
static void stage_base(struct stage *s)
{
	STAGE_TREE(s, ws, in_top("upper"), in_top("work"), in_top("base"));
}

/* File times go by a clock that ticks a few times in ten milliseconds. */
static void let_time_pass(void)
{
	struct timespec from, now;

	/* Times of files may be finer than the clock that lags behind: wait until that one is past them. */
	clock_gettime(CLOCK_REALTIME, &from);
	do {
		sched_yield();
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
	} while (now.tv_sec < from.tv_sec ||
		 (now.tv_sec == from.tv_sec && now.tv_nsec <= from.tv_nsec));
}

static void forget_rules(void)
{
	memset(more_rules, 0, sizeof(more_rules));
}

TEST(changes_go_to_the_upper_layer_and_nowhere_else)
{
	cleanup_stage struct stage s = {0};
	cleanup_ran struct ran r = {0};

	NEEDS_STAGING();
	world();
	forget_rules();
	stage_base(&s);
	run_in(&r,
		"cat file && echo changed > file && echo n > new && rm dir/inner && chmod 700 dir "
		"&& mkdir d2 && ln -s /etc/passwd link",
		&s);
	CHECK_STR(r.e.msg, "");
	CHECK_INT(r.code, 0);
	CHECK_STR(r.out, "base");
	CHECK_STR(get("upper/file"), "changed\n");
	CHECK_STR(get("upper/new"), "n\n");
	CHECK(is_whiteout("upper/dir/inner") && has("upper/d2") && has("upper/link"));
	CHECK_STR(get("ws/file"), "host");
	CHECK(!has("ws/new") && has("ws/dir/inner"));
	CHECK_STR(get("base/file"), "base");
	CHECK(!has("base/new") && has("base/dir/inner"));
	CHECK(change_of(&r, "file") && change_of(&r, "new") && change_of(&r, "dir/inner"));
	CHECK_STR(change_of(&r, "file"), "modified");
	CHECK_STR(change_of(&r, "new"), "created");
	CHECK_STR(change_of(&r, "dir/inner"), "deleted");
	CHECK(r.receipt.staged);
}

TEST(layers_are_kept_and_a_receipt_tells_of_its_own_command_only)
{
	cleanup_stage struct stage s = {0};
	cleanup_ran struct ran r1 = {0}, r2 = {0}, r3 = {0};

	NEEDS_STAGING();
	world();
	forget_rules();
	stage_base(&s);
	run_in(&r1, "echo one > one && mkdir made && echo two > made/two && rm file", &s);
	CHECK_INT(r1.code, 0);
	let_time_pass();
	run_in(&r2,
		"cat one && ! test -e file && echo three > three && mkdir -p .git && echo x > "
		".git/x",
		&s);
	CHECK_INT(r2.code, 0);
	CHECK_STR(r2.out, "one\n");
	CHECK_STR(change_of(&r2, "three"), "created");
	CHECK(!change_of(&r2, "one"));
	CHECK(!change_of(&r2, "file"));
	CHECK(!change_of(&r2, "made/two"));
	CHECK(!change_of(&r2, ".git/x") && has("upper/.git/x"));
	let_time_pass();
	run_in(&r3, "mv made moved", &s);
	CHECK_INT(r3.code, 0);
	CHECK_STR(change_of(&r3, "moved/two"), "created"); /* though its own times are old */
}

TEST(the_host_survives_the_removal_of_everything)
{
	cleanup_stage struct stage s = {0};
	cleanup_ran struct ran r = {0}, again = {0};

	NEEDS_STAGING();
	world();
	forget_rules();
	STAGE_TREE(&s, ws, in_top("upper"), in_top("work"), ws); /* live: the host's own below */
	run_in(&r, "rm -rf .git ..?* * .git; ls -A; mkdir .git && echo evil > .git/config", &s);
	CHECK_INT(r.code, 0);
	CHECK_STR(r.out, "");
	CHECK_STR(get("ws/file"), "host");
	CHECK_STR(get("ws/dir/inner"), "host inner");
	CHECK_STR(get("ws/.git/config"), "host git");
	/* Control: in place, the same command would have done it. */
	run_in(&again, "rm -f file", NULL);
	CHECK(!has("ws/file"));
}

TEST(directories_are_renamed_as_git_and_builds_do)
{
	cleanup_stage struct stage s = {0};
	cleanup_ran struct ran r = {0};

	NEEDS_STAGING();
	world();
	forget_rules();
	stage_base(&s);
	run_in(&r, "mv dir dir2 && cat dir2/inner && ! test -e dir && mv dir2 dir && cat dir/inner",
		&s);
	CHECK_INT(r.code, 0);
	CHECK_STR(r.out, "base innerbase inner");
}

TEST(a_view_without_an_upper_layer_cannot_be_written)
{
	cleanup_stage struct stage one = {0}, two = {0};
	cleanup_ran struct ran r1 = {0}, r2 = {0};

	NEEDS_STAGING();
	world();
	forget_rules();
	STAGE_TREE(&one, ws, NULL, NULL, in_top("base"));
	run_in(&r1, "cat file; echo x > file || echo refused; touch new || echo refused", &one);
	CHECK_INT(r1.rc, 0);
	CHECK(strstr(r1.out, "base") && strstr(r1.out, "refused\n"));
	CHECK(!has("base/new"));
	put("upper/file", "newer");
	STAGE_TREE(&two, ws, NULL, NULL, in_top("upper"), in_top("base"));
	run_in(&r2, "cat file dir/inner; echo x > file || echo refused; touch new || echo refused",
		&two);
	CHECK_INT(r2.rc, 0);
	CHECK(str_starts(r2.out, "newerbase inner"));
	CHECK(strstr(r2.out, "refused\n") && !has("upper/new") && !has("base/new"));
	CHECK_STR(get("upper/file"), "newer");
	CHECK_INT(r2.receipt.record.files_n, 0);
}

TEST(a_policy_for_reading_makes_the_view_one)
{
	cleanup_stage struct stage s = {0};
	cleanup_ran struct ran r = {0}, r2 = {0};

	NEEDS_STAGING();
	world();
	forget_rules();
	put("upper/file", "newer");
	more_rules[0] = (struct policy_rule_text){ACCESS_READ, ws};
	stage_base(&s);
	run_in(&r, "cat file; echo x > new || echo refused", &s);
	CHECK(str_starts(r.out, "newer") && strstr(r.out, "refused"));
	CHECK(!has("upper/new"));
	/* A place in it that may be written can be. */
	make("upper/out");
	more_rules[1] = (struct policy_rule_text){ACCESS_WRITE, "./out"};
	run_in(&r2, "echo x > new || echo refused; echo y > out/y && echo done", &s);
	CHECK(strstr(r2.out, "refused\n") && strstr(r2.out, "done\n"));
	CHECK(!has("upper/new") && has("upper/out/y"));
}

TEST(another_tree_and_objects_stand_in_the_workspace)
{
	cleanup_stage struct stage s = {0};
	cleanup_ran struct ran r = {0};

	NEEDS_STAGING();
	world();
	forget_rules();
	make("deps");
	put("deps/lib", "deps");
	make("deps.upper");
	make("deps.work");
	make("upper/node");
	make("objects");
	put("objects/pack", "objects");
	stage_base(&s);
	STAGE_TREE(
		&s, in_top("ws/node"), in_top("deps.upper"), in_top("deps.work"), in_top("deps"));
	s.objects[0] = in_top("objects");
	s.staging.objects = s.objects;
	s.staging.objects_dir = "/.croft/git";
	run_in(&r,
		"cat node/lib /.croft/git/0/pack && echo x > node/new && echo y > top && (echo z > "
		"/.croft/git/0/pack || echo refused)",
		&s);
	CHECK_STR(r.e.msg, "");
	CHECK_INT(r.code, 0);
	CHECK(str_starts(r.out, "depsobjects") && strstr(r.out, "refused"));
	CHECK_STR(get("deps.upper/new"), "x\n");
	CHECK(!has("upper/node/new") && !has("deps/new") && has("upper/top"));
	CHECK_STR(get("objects/pack"), "objects");
}

TEST(denied_names_are_hidden_in_the_view_whichever_layer_has_them)
{
	cleanup_stage struct stage s = {0};
	cleanup_ran struct ran r = {0}, plain = {0};

	NEEDS_STAGING();
	world();
	forget_rules();
	put("base/.env", "base secret");
	put("upper/dir.env", "not denied");
	make("upper/dir");
	put("upper/dir/.env", "upper secret");
	make("base/vault");
	put("base/vault/key", "key");
	put("ws/only-on-host.env", "host");
	stage_base(&s);
	/* Control: nothing hides them without the rules. */
	run_in(&plain, "cat .env dir/.env vault/key", &s);
	CHECK_STR(plain.out, "base secretupper secretkey");
	more_rules[0] = (struct policy_rule_text){ACCESS_DENY, "./**/.env"};
	more_rules[1] = (struct policy_rule_text){ACCESS_DENY, "./vault"};
	more_rules[2] = (struct policy_rule_text){ACCESS_DENY, "./absent"};
	run_in(&r,
		"cat .env; cat dir/.env; cat vault/key; ls vault; cat dir.env; ln .env x; mv .env "
		"y; rm -f .env; mv vault v2; cat file; echo made > absent && cat absent; echo open "
		"> other && cat other",
		&s);
	CHECK_INT(r.rc, 0);
	CHECK(!strstr(r.out, "secret") && !strstr(r.out, "key\n") && strstr(r.out, "not denied"));
	CHECK(strstr(r.out, "base") && strstr(r.out, "open") && !strstr(r.out, "made"));
	CHECK(!has("upper/x") && !has("upper/absent") && !has("upper/y") && !has("upper/v2/key"));
	CHECK_STR(get("base/.env"), "base secret");
}

TEST(a_grant_below_a_denied_directory_is_refused)
{
	cleanup_stage struct stage s = {0};
	cleanup_ran struct ran r = {0};

	NEEDS_STAGING();
	world();
	forget_rules();
	make("base/vault");
	put("base/vault/public", "p");
	more_rules[0] = (struct policy_rule_text){ACCESS_DENY, "./vault"};
	more_rules[1] = (struct policy_rule_text){ACCESS_READ, "./vault/public"};
	stage_base(&s);
	run_in(&r, "cat vault/public", &s);
	CHECK(r.rc < 0 && r.e.kind == ERR_REFUSED);
	CHECK(strstr(r.e.msg, "vault/public"));
}

/* Every way to a name that a rule denies and no layer has; each leaves something when it is open. */
static const char ways_to_make[] =
	"echo 1 > nope; mkdir nope; ln file nope; ln -s file nope; mv dir nope; cp file "
	"late/x.key; mkdir d2 && mkdir d2/sub && echo k > d2/sub/secret && mv d2 deep; python3 -c "
	"'import socket; socket.socket(socket.AF_UNIX).bind(\"nope\")'; echo fine > beside; ls -d "
	"nope late/x.key deep/sub/secret beside";

TEST(a_denied_name_that_is_not_there_yet_cannot_be_made)
{
	cleanup_stage struct stage s = {0};
	cleanup_ran struct ran r = {0}, control = {0};

	NEEDS_STAGING();
	world();
	forget_rules();
	make("base/late");
	stage_base(&s);
	run_in(&control, ways_to_make, &s);
	CHECK(has("upper/nope") && has("upper/late/x.key") && has("upper/deep/sub/secret"));
	stage_done(&s);
	world();
	make("base/late");
	stage_base(&s);
	more_rules[0] = (struct policy_rule_text){ACCESS_DENY, "./nope"};
	more_rules[1] = (struct policy_rule_text){ACCESS_DENY, "./**/*.key"};
	more_rules[2] = (struct policy_rule_text){ACCESS_DENY, "./deep/sub/secret"};
	run_in(&r, ways_to_make, &s);
	CHECK_INT(r.rc, 0);
	CHECK(!has("upper/nope") && !has("upper/late/x.key") && !has("upper/deep/sub/secret"));
	CHECK_STR(get("upper/beside"), "fine\n");
	CHECK(r.receipt.enforced.broker);
	CHECK(r.receipt.record.denials_n > 0);
}

TEST(a_denied_directory_stays_where_it_is_without_a_broker)
{
	cleanup_stage struct stage s = {0};
	cleanup_ran struct ran r = {0}, control = {0};
	static const char script[] =
		"mv up moved; mkdir -p up/in/vault && echo x > up/in/vault/key; cat "
		"up/in/vault/old moved/in/vault/old; echo y > up/free";

	NEEDS_STAGING();
	world();
	forget_rules();
	for (int i = 0; i < 2; i++) {
		make("upper/up");
		make("upper/up/in");
		make("upper/up/in/vault");
		put("upper/up/in/vault/old", "old secret");
		stage_base(&s);
		if (i == 0) {
			run_in(&control, script, &s);
			CHECK(strstr(control.out, "old secret") && has("upper/up/in/vault/key"));
			stage_done(&s);
			world();
			more_rules[0] = (struct policy_rule_text){ACCESS_DENY, "./up/in/vault"};
		}
	}
	run_in(&r, script, &s);
	CHECK_INT(r.rc, 0);
	CHECK(!strstr(r.out, "old secret") && !has("upper/up/in/vault/key"));
	CHECK(!has("upper/moved/in/vault/old"));
	CHECK_STR(get("upper/up/in/vault/old"), "old secret");
	CHECK_STR(get("upper/up/free"), "y\n");
	CHECK(!r.receipt.enforced.broker);
}

/* What a denied name leads to in the view is denied, too. */
TEST(a_denied_symlink_denies_what_it_leads_to)
{
	cleanup_stage struct stage s = {0};
	cleanup_ran struct ran r = {0}, control = {0};
	static const char script[] =
		"cat alias; cat file; cat chain/inner; cat dir/inner; cat up; echo w > alias; echo "
		"w > file; echo w > dir/inner; echo o > other";

	NEEDS_STAGING();
	world();
	forget_rules();
	put("base/up", "untouched");
	for (int i = 0; i < 2; i++) {
		char absolute[PATH_MAX];

		snprintf(absolute, sizeof(absolute), "%s/second", ws);
		CHECK(symlink("../ws/./file", in_top("upper/alias")) == 0);
		CHECK(symlink(absolute, in_top("upper/chain")) == 0);
		CHECK(symlink("dir", in_top("base/second")) == 0);
		stage_base(&s);
		if (i == 0) {
			run_in(&control, script, &s);
			CHECK_STR(control.out, "basebasebase innerbase inneruntouched");
			CHECK_STR(get("upper/file"), "w\n");
			stage_done(&s);
			world();
			put("base/up", "untouched");
			more_rules[0] = (struct policy_rule_text){ACCESS_DENY, "./alias"};
			more_rules[1] = (struct policy_rule_text){ACCESS_DENY, "./chain/inner"};
		}
	}
	run_in(&r, script, &s);
	CHECK_INT(r.rc, 0);
	CHECK(!strstr(r.out, "base") && strstr(r.out, "untouched"));
	CHECK(!has("upper/file") && !has("upper/dir/inner"));
	CHECK_STR(get("upper/other"), "o\n");
}

TEST(a_denied_symlink_that_cannot_be_denied_refuses_the_run)
{
	static const struct {
		const char *target;
		const char *says; /* NULL: it runs */
	} cases[] = {{"nowhere", "leads nowhere"}, {".", "workspace itself"},
		{"/", "workspace itself"}, {"link", "too many symlinks"},
		{"/proc/self/cwd/file", "leads through"}, {"/outside/not-shown", NULL},
		{"/dev/null", NULL}};

	NEEDS_STAGING();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		cleanup_stage struct stage s = {0};
		cleanup_ran struct ran r = {0};

		world();
		forget_rules();
		CHECK(symlink(cases[i].target, in_top("upper/link")) == 0);
		more_rules[0] = (struct policy_rule_text){ACCESS_DENY, "./link"};
		stage_base(&s);
		run_in(&r, "echo x > /dev/null && cat file", &s);
		if (cases[i].says)
			CHECK(r.rc < 0 && r.e.kind == ERR_REFUSED &&
				strstr(r.e.msg, cases[i].says));
		else
			CHECK_STR(r.out, "base");
	}
}

TEST(rules_for_reading_do_not_bind_below_it_and_are_no_denials)
{
	cleanup_stage struct stage s = {0};
	cleanup_ran struct ran r = {0};

	NEEDS_STAGING();
	world();
	forget_rules();
	make("base/.git");
	put("base/.git/config", "base git");
	put("base/pinned", "pinned");
	make("out");
	make("out/fixed");
	more_rules[0] = (struct policy_rule_text){ACCESS_READ, "./pinned"};
	/* This makes a broker necessary, outside: it must not judge inside. */
	more_rules[1] = (struct policy_rule_text){ACCESS_WRITE, in_top("out")};
	more_rules[2] = (struct policy_rule_text){ACCESS_READ, in_top("out/**/fixed.txt")};
	stage_base(&s);
	run_in(&r, "echo a > .git/config && echo b > pinned && echo c > .git/hook", &s);
	CHECK_STR(r.out, "");
	CHECK_INT(r.code, 0);
	CHECK_INT(r.receipt.record.denials_n, 0);
	CHECK_STR(get("upper/.git/config"), "a\n");
	CHECK_STR(get("ws/.git/config"), "host git");
}

TEST(other_grants_stay_direct)
{
	cleanup_stage struct stage s = {0};
	cleanup_ran struct ran r = {0};
	char script[256];

	NEEDS_STAGING();
	world();
	forget_rules();
	make("out");
	more_rules[0] = (struct policy_rule_text){ACCESS_WRITE, in_top("out")};
	stage_base(&s);
	snprintf(script, sizeof(script), "echo x > %s/x && echo y > y", in_top("out"));
	run_in(&r, script, &s);
	CHECK_INT(r.code, 0);
	CHECK_STR(get("out/x"), "x\n");
	CHECK(!has("ws/y") && has("upper/y"));
}

TEST(a_wider_grant_does_not_reach_the_workspace)
{
	cleanup_stage struct stage s = {0};
	cleanup_ran struct ran r = {0};
	char script[512];

	NEEDS_STAGING();
	world();
	forget_rules();
	make("proj");
	CHECK(rename(in_top("ws"), in_top("proj/ws")) == 0);
	snprintf(ws, sizeof(ws), "%s/proj/ws", top);
	more_rules[0] = (struct policy_rule_text){ACCESS_WRITE, top};
	stage_base(&s);
	snprintf(script, sizeof(script),
		"echo staged > file; rm -rf .git; cd /; mv %s/proj %s/away; echo x > %s/proj/ws/z; "
		"echo direct > %s/direct",
		top, top, top, top);
	run_in(&r, script, &s);
	CHECK_INT(r.rc, 0);
	CHECK_STR(get("proj/ws/file"), "host");
	CHECK(has("proj/ws/.git/config") && !has("away") && !has("proj/ws/z"));
	CHECK_STR(get("direct"), "direct\n");
	CHECK_STR(get("upper/file"), "staged\n");
}

/* Between plan and set-up the layer is another: begin in the plan, swap, start. */
static int swap_rc;
static struct err swap_err;

static int start_swapped(const struct stage *s, const char *layer, const char *with)
{
	struct request q = {.argv = (char *[]){(char[]){"/bin/true"}, NULL},
		.envp = (char *[]){NULL},
		.cwd = ws,
		.workspace = ws,
		.home = in_top("home"),
		.staging = &s->staging,
		.stdio = {-1, -1, -1},
		.tty_fd = -1};
	struct sandbox box = {.pidfd = -1, .control = -1, .fd = SANDBOX_FDS_NONE};
	cleanup_policy struct policy p = {0};
	struct control_msg m = {0};
	struct pollfd said = {.events = POLLIN};
	struct plan plan = {0};
	int status;

	swap_err = ERR_INIT;
	swap_rc = world_policy(&p, &swap_err);
	if (swap_rc == 0)
		swap_rc = engine_namespace.plan(&plan, &p, &q, &swap_err);
	if (swap_rc < 0)
		return -1;
	if (layer) {
		rename(in_top(layer), in_top("swapped-away"));
		if (with)
			swap_rc = symlink(with, in_top(layer));
		else
			make(layer);
	}
	if (swap_rc == 0)
		swap_rc = engine_namespace.start(&box, &plan, &q, -1, &swap_err);
	said.fd = box.control;
	if (swap_rc == 0 && (poll(&said, 1, -1) != 1 || control_receive(&box, &m) != 1))
		m.type = 0;
	for (int i = 0; i < SANDBOX_FD_NUM; i++)
		close_fd(&box.fd[i]);
	close_fd(&box.control); /* it ends with us */
	close_fd(&box.pidfd);
	waitpid(box.pid, &status, 0);
	plan_done(&plan);
	snprintf(swap_err.msg, sizeof(swap_err.msg), "%s", m.msg);
	return (int)m.type;
}

TEST(a_layer_that_was_swapped_is_refused)
{
	cleanup_stage struct stage s = {0};

	NEEDS_STAGING();
	world();
	forget_rules();
	stage_base(&s);
	CHECK_INT(start_swapped(&s, NULL, NULL), CONTROL_READY); /* control */
	CHECK_INT(start_swapped(&s, "upper", in_top("ws")), CONTROL_FAILED);
	CHECK(strstr(swap_err.msg, "changed while the sandbox was being set up"));
	world();
	stage_done(&s);
	stage_base(&s);
	CHECK_INT(start_swapped(&s, "base", NULL), CONTROL_FAILED); /* another directory */
	CHECK(strstr(swap_err.msg, "changed while the sandbox was being set up"));
}

TEST(a_layer_that_is_a_symlink_is_never_taken)
{
	cleanup_stage struct stage s = {0};
	cleanup_ran struct ran r = {0};

	NEEDS_STAGING();
	world();
	forget_rules();
	CHECK(rmdir(in_top("upper")) == 0 && symlink("ws", in_top("upper")) == 0);
	stage_base(&s);
	run_in(&r, "echo x > file", &s);
	CHECK(r.rc < 0);
	CHECK_STR(get("ws/file"), "host");
}

TEST(sixty_layers_and_more)
{
	cleanup_stage struct stage s = {0};
	cleanup_ran struct ran r = {0}, old = {0};
	const char *lower[STAGE_LAYERS_MAX + 1] = {0};
	char name[32];
	size_t n = STAGE_LAYERS_MAX;

	NEEDS_STAGING();
	world();
	forget_rules();
	for (size_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "layer%zu", i);
		make(name);
		lower[n - 1 - i] = strdup(in_top(name));
		snprintf(name, sizeof(name), "layer%zu/only%zu", i, i);
		put(name, "x");
		snprintf(name, sizeof(name), "layer%zu/each", i);
		put(name, i == n - 1 ? "newest" : "older");
	}
	stage_tree(&s, ws, in_top("upper"), in_top("work"), lower);
	for (size_t i = 0; i < n; i++)
		free((void *)(uintptr_t)lower[i]);
	run_in(&r, "cat each; ls only* | wc -l; echo z > z", &s);
	CHECK_STR(r.e.msg, "");
	CHECK_INT(r.code, 0);
	CHECK_STR(r.out, "newest100\n");
	CHECK(has("upper/z"));
	/* The same where the kernel has no way but mount(). */
	setenv("CROFT_FORCE_FAIL", "lowerdir+", 1);
	run_in(&old, "cat each; ls only* | wc -l; cat z; echo y > y; ls /.croft/layers", &s);
	unsetenv("CROFT_FORCE_FAIL");
	CHECK_STR(old.e.msg, "");
	CHECK_STR(old.out, "newest100\nz\n");
	CHECK(has("upper/y"));
}

TEST(paths_with_mount_syntax_in_them_are_only_paths)
{
	cleanup_stage struct stage s = {0};
	cleanup_ran struct ran r = {0};

	NEEDS_STAGING();
	world();
	forget_rules();
	make("a,b:c\\d");
	put("a,b:c\\d/odd", "odd");
	make("up,upperdir=");
	STAGE_TREE(
		&s, ws, in_top("up,upperdir="), in_top("work"), in_top("a,b:c\\d"), in_top("base"));
	run_in(&r, "cat odd file; echo x > x", &s);
	CHECK_STR(r.out, "oddbase");
	CHECK(has("up,upperdir=/x"));
}

TEST(the_process_tier_refuses_and_auto_does_not_fall_back)
{
	cleanup_stage struct stage s = {0};
	struct request q = {.workspace = ws, .home = "/", .staging = &s.staging};
	struct err e = ERR_INIT;
	struct plan plan = {0};
	cleanup_policy struct policy p = {0};

	world();
	forget_rules();
	stage_base(&s);
	CHECK_INT(world_policy(&p, &e), 0);
	CHECK(engine_process.plan(&plan, &p, &q, &e) < 0);
	CHECK(e.boundary && e.kind == ERR_REFUSED);
	CHECK(strstr(e.msg, "staging needs the namespace tier"));
}

TEST(what_an_overlay_cannot_be_is_the_machines_fault)
{
	cleanup_stage struct stage s = {0};
	cleanup_ran struct ran r = {0};

	NEEDS_STAGING();
	world();
	forget_rules();
	stage_base(&s);
	CHECK(setenv("CROFT_FORCE_FAIL", "overlay", 1) == 0);
	run_in(&r, "true", &s);
	unsetenv("CROFT_FORCE_FAIL");
	CHECK(r.rc < 0 && r.e.boundary);
	CHECK(strstr(r.e.msg, "cannot be staged"));
}

static bool differs(struct plan *p, const struct digest *from)
{
	plan_seal(p);
	return strcmp(p->digest.hex, from->hex) != 0;
}

TEST(a_dry_run_shows_the_layers)
{
	cleanup_stage struct stage s = {0};
	cleanup_policy struct policy p = {0};
	cleanup_buf struct buf b = BUF_INIT(1u << 20);
	struct policy live;
	struct err e = ERR_INIT;
	struct run_request q = {.policy = &p,
		.workspace = ws,
		.cwd = ws,
		.argv = (char *[]){(char[]){"true"}, NULL},
		.environ = (char *[]){NULL},
		.stdio = {-1, -1, -1},
		.staging = &s.staging};
	struct plan plan = {0};
	struct digest first;

	world();
	forget_rules();
	q.home = in_top("home");
	stage_base(&s);
	CHECK_INT(world_policy(&p, &e), 0);
	CHECK_INT(run_plan(&plan, &q, &live, &e), 0);
	plan_print(&plan, &b);
	plan_seal(&plan);
	first = plan.digest;
	plan_done(&plan);
	CHECK(strstr(buf_str(&b), in_top("upper")) && strstr(buf_str(&b), in_top("base")));
	/* Other layers are another plan. */
	make("base2");
	stage_done(&s);
	STAGE_TREE(&s, ws, in_top("upper"), in_top("work"), in_top("base2"));
	CHECK_INT(run_plan(&plan, &q, &live, &e), 0);
	plan_seal(&plan);
	CHECK(strcmp(plan.digest.hex, first.hex) != 0);
	/* So is one whose command may be more, or less. */
	first = plan.digest;
	plan.privilege.ids.uid[0].inside++;
	CHECK(differs(&plan, &first));
	plan.privilege.ids.uid[0].inside--;
	CHECK(!differs(&plan, &first));
	plan.privilege.ids.setgroups = true;
	CHECK(differs(&plan, &first));
	plan.privilege.ids.setgroups = false;
	plan.privilege.caps = 1;
	CHECK(differs(&plan, &first));
	plan.privilege.caps = 0;
	plan.seccomp_flags ^= SECCOMP_DEVICES;
	CHECK(differs(&plan, &first));
	plan.seccomp_flags ^= SECCOMP_DEVICES;
	plan.privilege.rlimits.open_files--;
	CHECK(differs(&plan, &first));
	plan_done(&plan);
}

static int begin_calls;

static int begin_refuses(void *arg, const struct receipt *r, struct err *e)
{
	begin_calls++;
	return *(int *)arg ? err_refuse(e, "not now, %s", r->id) : 0;
}

TEST(begin_has_the_last_word)
{
	cleanup_stage struct stage s = {0};
	cleanup_ran struct ran no = {0}, yes = {0};
	int refuse = 1;
	struct run_request q = {.begin = begin_refuses, .begin_arg = &refuse};

	NEEDS_STAGING();
	world();
	forget_rules();
	stage_base(&s);
	begin_calls = 0;
	run_request_in(&no, &q, "echo x > x", &s);
	CHECK(no.rc < 0 && begin_calls == 1 && strstr(no.e.msg, "not now"));
	CHECK(!has("upper/x"));
	refuse = 0;
	run_request_in(&yes, &q, "echo x > x", &s);
	CHECK(yes.rc == 0 && begin_calls == 2 && has("upper/x"));
}
