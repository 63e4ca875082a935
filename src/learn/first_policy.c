/* SPDX-License-Identifier: Apache-2.0 */
/* A first policy for a project: see first_policy.h. */
#include "learn/first_policy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/path.h"

#define YAML_MAX_B (64u << 10)
#define FILE_MAX_B (256u << 10) /* of a file that is searched for words */
#define FOUND_MAX 32
#define MARKS_MAX 8

/* Languages and package managers: files that show one, and what it needs. */
static const struct {
	const char *name;
	const char *marks[MARKS_MAX];
	const char *profile; /* NULL: the default one */
	const char *bundle;  /* NULL: no packages are fetched */
} kinds[] = {
	{"Node.js",
		{"package.json", "package-lock.json", "pnpm-lock.yaml", "yarn.lock", "bun.lockb"},
		"node", "npm"},
	{"Python",
		{"pyproject.toml", "requirements.txt", "setup.py", "Pipfile", "uv.lock",
			"poetry.lock", "tox.ini"},
		"python", "pypi"},
	{"Rust", {"Cargo.toml"}, "rust", "crates"},
	{"Go", {"go.mod"}, "go", "go"},
	{"C or C++", {"meson.build", "CMakeLists.txt", "configure.ac", "Makefile.am"}, "c", NULL},
	{"Ruby", {"Gemfile"}, NULL, "rubygems"},
	{"Java or Kotlin", {"pom.xml", "build.gradle", "build.gradle.kts"}, NULL, "maven"},
};

/* Services that a project talks to, by the words that its compose file has for them. */
static const struct {
	const char *name, *word;
	unsigned port;
} services[] = {{"PostgreSQL", "postgres", 5432}, {"MySQL or MariaDB", "mysql", 3306},
	{"MySQL or MariaDB", "mariadb", 3306}, {"Redis", "redis", 6379},
	{"MongoDB", "mongo", 27017}, {"RabbitMQ", "rabbitmq", 5672},
	{"Elasticsearch", "elasticsearch", 9200}};

static const char *const compose_files[] = {
	"compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"};
static const char *const env_files[] = {".env", ".env.local", ".env.production"};

/* What was seen. Bits are indices of the tables. */
struct seen {
	unsigned kinds, services, env_files;
	bool github;
};

static bool is_there(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

/* Does a file hold a word? What cannot be read holds none. */
static bool holds(int dir, const char *name, const char *word)
{
	cleanup_buf struct buf b = BUF_INIT(FILE_MAX_B);
	cleanup_fd int fd = is_there(dir, name)
				    ? path_open(dir, name, O_RDONLY | O_NONBLOCK,
					      PATH_NO_SYMLINKS | PATH_BENEATH)
				    : -1;

	return fd >= 0 && file_read_fd(fd, &b) >= 0 &&
	       memmem(buf_str(&b), b.len, word, strlen(word)) != NULL;
}

static int look(struct seen *s, struct strlist *found, int dir, struct err *e)
{
	char text[96];
	bool ok = true;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		for (size_t k = 0; k < MARKS_MAX && kinds[i].marks[k]; k++) {
			if (!is_there(dir, kinds[i].marks[k]))
				continue;
			s->kinds |= 1u << i;
			snprintf(text, sizeof(text), "%s (%s)", kinds[i].name, kinds[i].marks[k]);
			ok = ok && strlist_add(found, text);
			break;
		}
	for (size_t f = 0; f < ARRAY_SIZE(compose_files); f++)
		for (size_t i = 0; i < ARRAY_SIZE(services); i++) {
			if (!holds(dir, compose_files[f], services[i].word))
				continue;
			s->services |= 1u << i;
			snprintf(text, sizeof(text), "%s (%s)", services[i].name, compose_files[f]);
			ok = ok && strlist_add(found, text);
		}
	for (size_t i = 0; i < ARRAY_SIZE(env_files); i++)
		if (is_there(dir, env_files[i]))
			s->env_files |= 1u << i;
	s->github = holds(dir, ".gitmodules", "github.com");
	if (s->github)
		ok = ok && strlist_add(found, "submodules from GitHub (.gitmodules)");
	return ok ? 0 : err_set(e, ENOMEM, "look at the project");
}

static void write_profile(struct buf *out, unsigned kinds_seen)
{
	const char *profile = NULL;
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (kinds_seen & 1u << i) {
			n++;
			profile = kinds[i].profile;
		}
	if (n != 1 || !profile)
		profile = "default";
	buf_addf(out, "# Where to start from: %s.\n",
		!strcmp(profile, "default") ? "the rules for any project"
					    : "the rules for any project, and this toolchain's "
					      "directories and variables");
	buf_addf(out, "profile: %s\n\n", profile);
}

static void write_network(struct buf *out, const struct seen *s)
{
	bool any = s->github;

	buf_adds(out,
		"# Nothing is reached but what is listed here. A bundle fetches packages of its kind and\n"
		"# publishes none; croft policy bundles lists them with their hosts.\n");
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		any = any || (s->kinds & 1u << i && kinds[i].bundle);
	if (any) {
		const char *between = "";

		buf_adds(out, "network:\n  use: [");
		for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
			if (s->kinds & 1u << i && kinds[i].bundle) {
				buf_addf(out, "%s%s", between, kinds[i].bundle);
				between = ", ";
			}
		buf_addf(out, "%s%s]\n", s->github ? between : "", s->github ? "github-read" : "");
	} else {
		buf_adds(out, "#network:\n#  use: [npm]\n");
	}
	buf_adds(out, "  # Hosts beside those, HTTP on ports 80 and 443:\n"
		      "  #allow: [api.example.com]\n");
	for (size_t i = 0; i < ARRAY_SIZE(services); i++)
		if (s->services & 1u << i)
			buf_addf(out,
				"  # %s on this machine, reached as localhost:%u. Whoever "
				"can reach it\n  # can read and change what is in it:\n"
				"  #host-ports: [%u]\n",
				services[i].name, services[i].port, services[i].port);
	buf_addc(out, '\n');
}

static void write_files(struct buf *out, const struct seen *s)
{
	buf_adds(out,
		"# The project itself can be changed (croft run stages that for review). What is denied\n"
		"# here is hidden even from reading.\n");
	if (!s->env_files) {
		buf_adds(out, "#filesystem:\n#  deny: [./secrets]\n\n");
		return;
	}
	buf_adds(out, "filesystem:\n  deny:\n");
	for (size_t i = 0; i < ARRAY_SIZE(env_files); i++)
		if (s->env_files & 1u << i)
			buf_addf(out, "    - ./%s  # often holds passwords and keys\n", env_files[i]);
	buf_addc(out, '\n');
}

int first_policy_make(struct first_policy *ret, const char *dir, struct err *e)
{
	cleanup_fd int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct seen s = {0};

	*ret = (struct first_policy){
		.yaml = BUF_INIT(YAML_MAX_B), .found = STRLIST_INIT(FOUND_MAX)};
	if (fd < 0)
		return err_set(e, errno, "open %s", dir);
	if (look(&s, &ret->found, fd, e) < 0)
		return -e->errnum;
	buf_adds(&ret->yaml,
		"# What commands may do in this project when croft runs them. Every key: croft policy keys;\n"
		"# what applies here in the end: croft policy show. Lines that begin with # grant nothing.\n"
		"version: 1\n\n");
	write_profile(&ret->yaml, s.kinds);
	write_network(&ret->yaml, &s);
	write_files(&ret->yaml, &s);
	buf_adds(&ret->yaml,
		"# No single command needs more than this. Each limit may be left out.\n"
		"limits:\n"
		"  pids: 4096      # processes and threads at once\n"
		"  timeout: 2h     # after this it is ended\n");
	ret->widens = s.github;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		ret->widens = ret->widens || (s.kinds & 1u << i && kinds[i].bundle);
	return ret->yaml.failed ? err_set(e, ENOMEM, "write the policy") : 0;
}

void first_policy_done(struct first_policy *f)
{
	buf_done(&f->yaml);
	strlist_done(&f->found);
}
