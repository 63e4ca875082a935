/* SPDX-License-Identifier: Apache-2.0 */
/* Common options: see common.h. */
#include "cli/common.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

const char common_help[] =
	"  --tier T             auto (default), namespace, process\n"
	"  --policy FILE        use this policy file instead of yours and the project's\n"
	"  --profile NAME       default, strict, offline, python, node, rust, go, c\n"
	"  --read P, --write P, --deny P\n"
	"                       grant or take away a path; repeatable; the most specific rule "
	"wins\n"
	"  --env K[=V]          pass your variable K, or set it\n"
	"  --allow-host H[:P]   reach this host through the gateway; without a port 443 and 80\n"
	"  --use BUNDLE         reach a kind of service: npm, pypi, crates, go, debian, "
	"github-read, …\n"
	"  --secret NAME@HOST   let a stored secret (croft secret) go to this host, and only "
	"there\n"
	"  --publish H:P        show the sandbox's port P on port H of this machine's loopback\n"
	"  --host-port P        let it reach port P of this machine, as host.croft.internal:P\n"
	"  --memory SIZE  --cpus N  --pids N  --disk SIZE  --timeout TIME\n"
	"                       limits, such as 2G, 1.5, 512, 1G, 10m; none for no limit\n"
	"  --observe MODE       off, writes (default), full\n"
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
		{"disk", 0, OPT_VALUE, &c->disk},
		{"timeout", 0, OPT_VALUE, &c->timeout},
		{"observe", 0, OPT_VALUE, &c->observe},
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

int common_policy(const char *cmd, struct common *c, struct common_storage *st,
	struct croft_policy_options *ret)
{
	const struct {
		const char *key, *value;
	} settings[] = {
		{"limits.memory", c->memory},
		{"limits.cpus", c->cpus},
		{"limits.pids", c->pids},
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
		.hosts = c->hosts.v,
		.use = c->use.v,
		.secrets = c->secrets.v,
		.publish = c->publish.v,
		.host_ports = c->host_ports.v,
		.env = c->env.v,
		.set = st->set.v};
	return 0;
}
