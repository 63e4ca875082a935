/* SPDX-License-Identifier: Apache-2.0 */
/* Common options: see common.h. */
#include "cli/common.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char common_help[] =
	"  --tier T             auto (default), namespace, process\n"
	"  --policy FILE        use this policy file instead of yours and the project's\n"
	"  --profile NAME       default, strict, offline, python, node, rust, go, c\n"
	"  --read P, --write P, --deny P\n"
	"                       grant or take away a path; repeatable; the most specific rule "
	"wins\n"
	"  --view PATH          a private copy of PATH to read and write; kept for this project, and\n"
	"                       never written back\n"
	"  --write-runs PATH    grant writing a directory although what is in it runs on your machine\n"
	"  --git                with --direct: let it commit; hooks and configuration stay as they are\n"
	"  --env K[=V]          pass your variable K, or set it\n"
	"  --allow-host H[:P]   reach this host through the gateway; without a port 443 and 80\n"
	"  --use BUNDLE         reach a kind of service: npm, pypi, crates, go, debian, "
	"github-read, …\n"
	"  --secret NAME@HOST   let a stored secret (croft secret) go to this host, and only "
	"there\n"
	"  --publish H:P        show the sandbox's port P on port H of this machine's loopback\n"
	"  --host-port P        let it reach port P of this machine, as localhost:P\n"
	"  --memory SIZE  --cpus N  --pids N  --disk SIZE  --timeout TIME\n"
	"                       limits, such as 2G, 1.5, 512, 1G, 10m; none for no limit\n"
	"  --open-files N  --file-size SIZE\n"
	"                       limits of each process: open files, size of a file it writes\n"
	"  --observe MODE       off, known (default), writes, full\n"
	"  --set KEY=VALUE      any other setting, by its dotted name (limits.open_files=1024)\n"
	"  --workspace DIR      work there instead of in the current directory\n";

static int lost; /* why standard output cannot be written; 0: it can */

int cli_print(const char *text)
{
	errno = EIO;
	if (!lost && (fputs(text, stdout) < 0 || fflush(stdout) != 0))
		lost = errno;
	return cli_end(0);
}

int cli_end(int code)
{
	static bool told;

	errno = EIO;
	if (!lost && (fflush(stdout) != 0 || ferror(stdout)))
		lost = errno;
	if (!lost)
		return code;
	if (lost == EPIPE)
		return 128 + SIGPIPE;
	if (!told)
		fprintf(stderr, "croft: cannot write to standard output: %s\n", strerror(lost));
	told = true;
	return CROFT_EXIT_FAILED;
}

const char *cli_last_env(const char *cmd)
{
	static char name[128];
	struct croft *c = croft_new();
	char *text = NULL;

	name[0] = '\0';
	if (!c || croft_names(c, CROFT_NAMES_LAST_ENV, NULL, &text) < 0)
		cli_fail(c);
	else if (!*text)
		cli_usage(cmd, "say which environment; there is none of this directory");
	else if (snprintf(name, sizeof(name), "%s", text) < (int)sizeof(name))
		fprintf(stderr, "croft: %s, the last environment of this directory\n", name);
	free(text);
	croft_free(c);
	return *name ? name : NULL;
}

int common_opts(struct common *c, struct opt *opts, const struct opt *extra, int extra_n)
{
	const struct opt own[] = {
		{"tier", 0, OPT_VALUE, &c->tier},
		{"policy", 0, OPT_VALUE, &c->policy},
		{"profile", 0, OPT_VALUE, &c->profile},
		{"workspace", 0, OPT_VALUE, &c->workspace},
		{"read", 0, OPT_LIST, &c->read},
		{"write", 0, OPT_LIST, &c->write},
		{"deny", 0, OPT_LIST, &c->deny},
		{"view", 0, OPT_LIST, &c->view},
		{"write-runs", 0, OPT_LIST, &c->write_runs},
		{"allow-host", 0, OPT_LIST, &c->hosts},
		{"use", 0, OPT_LIST, &c->use},
		{"secret", 0, OPT_LIST, &c->secrets},
		{"publish", 'p', OPT_LIST, &c->publish},
		{"host-port", 0, OPT_LIST, &c->host_ports},
		{"env", 'e', OPT_LIST, &c->env},
		{"set", 0, OPT_LIST, &c->set},
		{"memory", 0, OPT_VALUE, &c->memory},
		{"cpus", 0, OPT_VALUE, &c->cpus},
		{"pids", 0, OPT_VALUE, &c->pids},
		{"open-files", 0, OPT_VALUE, &c->open_files},
		{"file-size", 0, OPT_VALUE, &c->file_size},
		{"disk", 0, OPT_VALUE, &c->disk},
		{"timeout", 0, OPT_VALUE, &c->timeout},
		{"observe", 0, OPT_VALUE, &c->observe},
		{"git", 0, OPT_FLAG, &c->git},
		{"direct", 0, OPT_FLAG, &c->direct},
		{"discard", 0, OPT_FLAG, &c->discard},
		{"allow-degraded", 0, OPT_FLAG, &c->allow_degraded},
		{"json", 0, OPT_VALUE, &c->json},
		{"quiet", 'q', OPT_FLAG, &c->quiet},
		{"verbose", 'v', OPT_FLAG, &c->verbose},
		{"help", 'h', OPT_FLAG, &c->help},
	};
	int n = (int)(sizeof(own) / sizeof(own[0]));

	_Static_assert(sizeof(own) / sizeof(own[0]) + 8 <= COMMON_OPTS_MAX, "room for extras");
	memcpy(opts, own, sizeof(own));
	for (int i = 0; i < extra_n; i++)
		opts[n++] = extra[i];
	return n;
}

bool common_of_boundary(const struct common *c)
{
	return c->tier || c->policy || c->profile || c->disk || c->observe || c->read.n ||
	       c->write.n || c->deny.n || c->view.n || c->write_runs.n || c->git || c->hosts.n ||
	       c->use.n || c->secrets.n || c->publish.n || c->host_ports.n || c->set.n;
}

int common_limits(const struct common *c, struct common_limit ret[COMMON_LIMITS_MAX])
{
	const struct common_limit all[COMMON_LIMITS_MAX] = {{"memory", c->memory}, {"cpus", c->cpus},
		{"pids", c->pids}, {"open_files", c->open_files}, {"file_size", c->file_size}};
	int n = 0;

	for (int i = 0; i < COMMON_LIMITS_MAX; i++)
		if (all[i].value)
			ret[n++] = all[i];
	return n;
}

static const struct opt *find(const struct opt *opts, int n, const char *word, size_t *ret_len)
{
	bool is_long = word[1] == '-';
	const char *name = word + (is_long ? 2 : 1);

	*ret_len = is_long ? strcspn(name, "=") : 1;
	for (int k = 0; k < n; k++)
		if (is_long ? strlen(opts[k].name) == *ret_len && !strncmp(opts[k].name, name, *ret_len)
			    : opts[k].letter == *name)
			return &opts[k];
	return NULL;
}

static bool among(const char *name, const char *const *list)
{
	while (*list && strcmp(*list, name) != 0)
		list++;
	return *list != NULL;
}

char **common_words(int argc, char **argv, const struct opt *opts, int n, const char *const *drop)
{
	char **v = calloc((size_t)argc + 1, sizeof(*v));
	int kept = 0;

	for (int i = 1; v && i < argc && strcmp(argv[i], "--") != 0; i++) {
		size_t len;
		const struct opt *o = argv[i][0] == '-' ? find(opts, n, argv[i], &len) : NULL;
		bool keep = o && !among(o->name, drop);

		if (keep)
			v[kept++] = argv[i];
		if (!o || o->kind == OPT_FLAG || (argv[i][1] == '-' && argv[i][2 + len] == '='))
			continue;
		if (keep)
			v[kept++] = argv[i + 1];
		i++;
	}
	return v;
}

static void add_list(struct opt_list *to, const struct opt_list *from)
{
	for (int i = 0; i < from->n && to->n < OPT_LIST_MAX; i++)
		to->v[to->n++] = from->v[i];
	to->v[to->n] = NULL;
}

void common_add(struct common *to, const struct common *from)
{
	const char **const values[] = {&to->tier, &to->policy, &to->profile, &to->memory, &to->cpus,
		&to->pids, &to->open_files, &to->file_size, &to->disk, &to->observe};
	const char *const more[] = {from->tier, from->policy, from->profile, from->memory, from->cpus,
		from->pids, from->open_files, from->file_size, from->disk, from->observe};

	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
		if (more[i])
			*values[i] = more[i];
	add_list(&to->read, &from->read);
	add_list(&to->write, &from->write);
	add_list(&to->deny, &from->deny);
	add_list(&to->view, &from->view);
	add_list(&to->write_runs, &from->write_runs);
	to->git |= from->git;
	add_list(&to->hosts, &from->hosts);
	add_list(&to->use, &from->use);
	add_list(&to->secrets, &from->secrets);
	add_list(&to->publish, &from->publish);
	add_list(&to->host_ports, &from->host_ports);
	add_list(&to->set, &from->set);
}

int common_env_set(const char *cmd, const struct common *c)
{
	for (int i = 0; i < c->env.n; i++) {
		if (strchr(c->env.v[i], '=') || getenv(c->env.v[i]))
			continue;
		cli_usage(cmd,
			"--env %.200s: there is no such variable to pass; set it with --env "
			"%.200s=VALUE",
			c->env.v[i], c->env.v[i]);
		return -1;
	}
	return 0;
}

int common_policy(const char *cmd, struct common *c, struct common_storage *st,
	struct croft_policy_options *ret)
{
	const struct {
		const char *key, *value;
	} settings[] = {
		{"limits.memory", c->memory},
		{"limits.cpus", c->cpus},
		{"limits.pids", c->pids},
		{"limits.open_files", c->open_files},
		{"limits.file_size", c->file_size},
		{"limits.disk", c->disk},
		{"limits.timeout", c->timeout},
		{"observe", c->observe},
	};

	if (c->direct + c->discard + c->staged > 1) {
		cli_usage(cmd, "--direct, --staged and --discard exclude each other");
		return -1;
	}
	st->set = c->set;
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		if (!settings[i].value)
			continue;
		if (st->set.n >= OPT_LIST_MAX ||
			snprintf(st->text[i], sizeof(st->text[i]), "%s=%s", settings[i].key,
				settings[i].value) >= (int)sizeof(st->text[i])) {
			cli_usage(cmd, "the value of %s is too long", settings[i].key);
			return -1;
		}
		st->set.v[st->set.n++] = st->text[i];
		st->set.v[st->set.n] = NULL;
	}
	*ret = (struct croft_policy_options){.directory = c->workspace,
		.policy_file = c->policy,
		.profile = c->profile,
		.tier = c->tier,
		.read = c->read.v,
		.write = c->write.v,
		.deny = c->deny.v,
		.view = c->view.v,
		.write_runs = c->write_runs.v,
		.git = c->git,
		.hosts = c->hosts.v,
		.use = c->use.v,
		.secrets = c->secrets.v,
		.publish = c->publish.v,
		.host_ports = c->host_ports.v,
		.env = c->env.v,
		.set = st->set.v};
	return 0;
}
