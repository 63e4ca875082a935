/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that some tool on the reader's machine executes, or takes instructions from, merely because
 * they are there: see change_runs() in change.h.
 *
 * Rules:   a pattern names whole path parts; it matches at the end of a path at any depth, because a
 *          workspace may hold several projects and may itself be a home directory. A pattern that ends
 *          in a slash covers everything below that directory. '*' matches within one part. All
 *          comparison ignores the case of ASCII letters, as file systems of other machines do.
 * Bounds:  files that run only when somebody asks for them (Makefile, scripts, package.json) are not
 *          here: a flag on everything is a flag on nothing.
 */
#include "snap/change.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "snap/scan_impl.h"

static const char hook[] = "Git hook";
static const char gitconf[] = "Git configuration";
static const char shell[] = "shell start-up file";
static const char ssh[] = "SSH configuration";
static const char login[] = "started at login or by a timer";
static const char package[] = "package manager configuration";
static const char python[] = "run when Python starts";
static const char agent[] = "agent configuration";
static const char ide[] = "editor or IDE configuration";
static const char direnv[] = "run on entering the directory";
static const char devcon[] = "development container";
static const char ci[] = "CI workflow";
static const char debug[] = "read by a debugger or interpreter at start";
static const char build[] = "build tool start-up file";

static const struct {
	const char *pattern;
	const char *why;
} table[] = {
	/* Git: hooks and their managers, configuration that is included or executed */
	{".husky/", hook},
	{".githooks/", hook},
	{".git-hooks/", hook},
	{"git-hooks/", hook},
	{".hooks/", hook},
	{"hooks/applypatch-msg", hook},
	{"hooks/pre-applypatch", hook},
	{"hooks/post-applypatch", hook},
	{"hooks/pre-commit", hook},
	{"hooks/pre-merge-commit", hook},
	{"hooks/prepare-commit-msg", hook},
	{"hooks/commit-msg", hook},
	{"hooks/post-commit", hook},
	{"hooks/pre-rebase", hook},
	{"hooks/post-checkout", hook},
	{"hooks/post-merge", hook},
	{"hooks/pre-push", hook},
	{"hooks/pre-receive", hook},
	{"hooks/update", hook},
	{"hooks/proc-receive", hook},
	{"hooks/post-receive", hook},
	{"hooks/post-update", hook},
	{"hooks/reference-transaction", hook},
	{"hooks/push-to-checkout", hook},
	{"hooks/pre-auto-gc", hook},
	{"hooks/post-rewrite", hook},
	{"hooks/sendemail-validate", hook},
	{"hooks/fsmonitor-watchman", hook},
	{"hooks/post-index-change", hook},
	{".pre-commit-config.yaml", hook},
	{".pre-commit-config.yml", hook},
	{".pre-commit-hooks.yaml", hook},
	{"lefthook.yml", hook},
	{"lefthook.yaml", hook},
	{"lefthook.toml", hook},
	{"lefthook.json", hook},
	{".lefthook.*", hook},
	{"lefthook-local.*", hook},
	{".lefthook/", hook},
	{".lefthook-local/", hook},
	{".huskyrc", hook},
	{".huskyrc.*", hook},
	{"husky.config.js", hook},
	{".lintstagedrc", hook},
	{".lintstagedrc.*", hook},
	{"lint-staged.config.*", hook},
	{".overcommit.yml", hook},
	{".simple-git-hooks.*", hook},
	{"simple-git-hooks.*", hook},
	{".gitmodules", gitconf},
	{".gitattributes", gitconf},
	{".gitconfig", gitconf},
	{".config/git/", gitconf},
	{".lfsconfig", gitconf},
	/* shells and what they read */
	{".profile", shell},
	{".login", shell},
	{".logout", shell},
	{".bashrc", shell},
	{".bash_profile", shell},
	{".bash_login", shell},
	{".bash_logout", shell},
	{".bash_aliases", shell},
	{".bash_completion", shell},
	{".bashrc.d/", shell},
	{".zshrc", shell},
	{".zshenv", shell},
	{".zprofile", shell},
	{".zlogin", shell},
	{".zlogout", shell},
	{".zshrc.local", shell},
	{".oh-my-zsh/", shell},
	{".kshrc", shell},
	{".mkshrc", shell},
	{".shrc", shell},
	{".cshrc", shell},
	{".tcshrc", shell},
	{".inputrc", shell},
	{".config/fish/", shell},
	{".config/nushell/", shell},
	{".config/zsh/", shell},
	{".config/powershell/", shell},
	{".config/environment.d/", shell},
	{".pam_environment", shell},
	{".xinitrc", shell},
	{".xsession", shell},
	{".xsessionrc", shell},
	{".xprofile", shell},
	{".Xresources", shell},
	{".tmux.conf", shell},
	{".config/tmux/", shell},
	{".screenrc", shell},
	{".lessfilter", shell},
	{".wgetrc", shell},
	{".curlrc", shell},
	{".config/starship.toml", shell},
	/* remote login */
	{".ssh/", ssh},
	{".rhosts", ssh},
	{".shosts", ssh},
	{".netrc", ssh},
	{".gnupg/", ssh},
	{".aws/config", ssh},
	{".kube/config", ssh},
	{".docker/config.json", ssh},
	/* started without being asked */
	{".config/autostart/", login},
	{".config/systemd/", login},
	{".local/share/systemd/", login},
	{"systemd/user/", login},
	{"systemd/system/", login},
	{".local/share/applications/", login},
	{".local/share/dbus-1/", login},
	{".local/bin/", login},
	{".crontab", login},
	{"crontab", login},
	{"cron.d/", login},
	{"cron.hourly/", login},
	{"cron.daily/", login},
	{"cron.weekly/", login},
	{"cron.monthly/", login},
	{"Library/LaunchAgents/", login},
	{"autorun.inf", login},
	{".config/plasma-workspace/env/", login},
	/* package managers: registries, install scripts, plug-ins */
	{".npmrc", package},
	{".yarnrc", package},
	{".yarnrc.yml", package},
	{".yarn/releases/", package},
	{".yarn/plugins/", package},
	{".pnp.cjs", package},
	{".pnp.js", package},
	{".pnp.loader.mjs", package},
	{".pnpmfile.cjs", package},
	{".pnpmfile.mjs", package},
	{"pnpmfile.js", package},
	{"bunfig.toml", package},
	{".bunfig.toml", package},
	{"pip.conf", package},
	{"pip.ini", package},
	{".pip/", package},
	{".config/pip/", package},
	{".pypirc", package},
	{".pydistutils.cfg", package},
	{"uv.toml", package},
	{"poetry.toml", package},
	{".condarc", package},
	{".gemrc", package},
	{".bundle/config", package},
	{".cargo/config", package},
	{".cargo/config.toml", package},
	{".config/composer/", package},
	{".composer/", package},
	{".m2/settings.xml", package},
	{".mvn/", package},
	{".config/go/env", package},
	{"NuGet.config", package},
	{"rust-toolchain", package},
	{"rust-toolchain.toml", package},
	/* code that a start of an interpreter runs */
	{"site-packages/*.pth", python},
	{"dist-packages/*.pth", python},
	{"sitecustomize.py", python},
	{"usercustomize.py", python},
	{".pythonrc", python},
	{".pythonrc.py", python},
	{".pythonstartup", python},
	{".ipython/", python},
	{".jupyter/", python},
	{"pyvenv.cfg", python},
	{".gdbinit", debug},
	{".gdbearlyinit", debug},
	{".config/gdb/", debug},
	{".lldbinit", debug},
	{".irbrc", debug},
	{".pryrc", debug},
	{".rdbgrc", debug},
	{".byebugrc", debug},
	{".perldb", debug},
	{".Rprofile", debug},
	{".Renviron", debug},
	{".psqlrc", debug},
	{".sqliterc", debug},
	{".mylogin.cnf", debug},
	{".my.cnf", debug},
	{".ghci", debug},
	{".ocamlinit", debug},
	{".octaverc", debug},
	{".julia/config/", debug},
	{".iex.exs", debug},
	{".erlang", debug},
	/* build tools that read a file on any invocation, also from an IDE that opens the project */
	{".bazelrc", build},
	{"user.bazelrc", build},
	{"tools/bazel", build},
	{".gradle/init.gradle", build},
	{".gradle/init.d/", build},
	{".gradle/gradle.properties", build},
	{"gradle-wrapper.properties", build},
	{"gradle-wrapper.jar", build},
	{"Directory.Build.props", build},
	{"Directory.Build.targets", build},
	{"Directory.Build.rsp", build},
	{".sbtopts", build},
	{".jvmopts", build},
	/* coding agents: instructions, hooks, tool servers, permissions */
	{".claude/", agent},
	{".claude.json", agent},
	{"CLAUDE.md", agent},
	{"CLAUDE.local.md", agent},
	{".mcp.json", agent},
	{"mcp.json", agent},
	{".mcp/", agent},
	{".codex/", agent},
	{"AGENTS.md", agent},
	{"AGENTS.override.md", agent},
	{"AGENT.md", agent},
	{".agents/", agent},
	{".agent/", agent},
	{".cursor/", agent},
	{".cursorrules", agent},
	{".cursorignore", agent},
	{".gemini/", agent},
	{"GEMINI.md", agent},
	{".qwen/", agent},
	{"QWEN.md", agent},
	{".windsurf/", agent},
	{".windsurfrules", agent},
	{".codeium/", agent},
	{".clinerules", agent},
	{".clinerules/", agent},
	{".cline/", agent},
	{".roo/", agent},
	{".roorules", agent},
	{".roomodes", agent},
	{".kilocode/", agent},
	{".kiro/", agent},
	{".continue/", agent},
	{".continuerules", agent},
	{".aider.conf.yml", agent},
	{".aider.*", agent},
	{".github/copilot-instructions.md", agent},
	{".github/instructions/", agent},
	{".github/prompts/", agent},
	{".github/chatmodes/", agent},
	{".github/agents/", agent},
	{".copilot/", agent},
	{".goosehints", agent},
	{".goose/", agent},
	{".config/goose/", agent},
	{"opencode.json", agent},
	{"opencode.jsonc", agent},
	{".opencode/", agent},
	{".config/opencode/", agent},
	{".amp/", agent},
	{".augment/", agent},
	{".augment-guidelines", agent},
	{".junie/", agent},
	{".trae/", agent},
	{".amazonq/", agent},
	{".openhands/", agent},
	{".factory/", agent},
	{".crush.json", agent},
	{"crush.json", agent},
	{".rules", agent},
	{"SKILL.md", agent},
	{"croft.yaml", agent},
	{".croft/", agent},
	/* editors and IDEs */
	{".vscode/", ide},
	{"*.code-workspace", ide},
	{".vscode-server/", ide},
	{".idea/", ide},
	{"*.iml", ide},
	{"*.ipr", ide},
	{"*.iws", ide},
	{".run/", ide},
	{".fleet/", ide},
	{".zed/", ide},
	{".vs/", ide},
	{".nova/", ide},
	{".settings/", ide},
	{".project", ide},
	{".classpath", ide},
	{".theia/", ide},
	{"*.sublime-project", ide},
	{"*.sublime-workspace", ide},
	{".dir-locals.el", ide},
	{".dir-locals-2.el", ide},
	{".emacs", ide},
	{".emacs.d/", ide},
	{".config/emacs/", ide},
	{".vimrc", ide},
	{".gvimrc", ide},
	{".exrc", ide},
	{".nvimrc", ide},
	{".nvim.lua", ide},
	{".vim/", ide},
	{".local.vimrc", ide},
	{".lvimrc", ide},
	{".vimspector.json", ide},
	{".config/nvim/", ide},
	{".config/Code/", ide},
	{".helix/", ide},
	{".config/helix/", ide},
	{".kateproject", ide},
	{".kakrc", ide},
	{".ycm_extra_conf.py", ide},
	{".clangd", ide},
	{".nanorc", ide},
	{"xcuserdata/", ide},
	{"*.xcworkspace/", ide},
	/* run on entering a directory */
	{".envrc", direnv},
	{".direnvrc", direnv},
	{".config/direnv/", direnv},
	{".direnv/", direnv},
	{".autoenv", direnv},
	{".autoenv.zsh", direnv},
	{".env.fish", direnv},
	{"mise.toml", direnv},
	{"mise.local.toml", direnv},
	{"mise.*.toml", direnv},
	{".mise.toml", direnv},
	{".mise.*.toml", direnv},
	{".mise/", direnv},
	{".config/mise/", direnv},
	{".config/mise.toml", direnv},
	{".rtx.toml", direnv},
	{".tool-versions", direnv},
	{".rvmrc", direnv},
	{".ondirrc", direnv},
	{".smartcd/", direnv},
	{"devenv.nix", direnv},
	{"devbox.json", direnv},
	/* containers that an editor starts */
	{".devcontainer/", devcon},
	{".devcontainer.json", devcon},
	{"devcontainer.json", devcon},
	{".gitpod.yml", devcon},
	{".gitpod.dockerfile", devcon},
	{".gitpod/", devcon},
	{".ona/", devcon},
	{"devfile.yaml", devcon},
	{".devfile.yaml", devcon},
	{".idx/", devcon},
	{".replit", devcon},
	{"replit.nix", devcon},
	{".codesandbox/", devcon},
	{".stackblitzrc", devcon},
	/* machines that run what is pushed */
	{".github/workflows/", ci},
	{".github/actions/", ci},
	{".github/dependabot.yml", ci},
	{".github/dependabot.yaml", ci},
	{"action.yml", ci},
	{"action.yaml", ci},
	{".gitea/", ci},
	{".forgejo/", ci},
	{".gitlab-ci.yml", ci},
	{".gitlab-ci.yaml", ci},
	{".gitlab-ci/", ci},
	{".gitlab/", ci},
	{".circleci/", ci},
	{".travis.yml", ci},
	{"appveyor.yml", ci},
	{".appveyor.yml", ci},
	{"azure-pipelines.yml", ci},
	{"azure-pipelines.yaml", ci},
	{"azure-pipelines/", ci},
	{".azure-pipelines/", ci},
	{".azuredevops/", ci},
	{"bitbucket-pipelines.yml", ci},
	{"Jenkinsfile", ci},
	{"Jenkinsfile.*", ci},
	{"*.jenkinsfile", ci},
	{".jenkins/", ci},
	{".drone.yml", ci},
	{".drone.star", ci},
	{".drone.jsonnet", ci},
	{".woodpecker.yml", ci},
	{".woodpecker.yaml", ci},
	{".woodpecker/", ci},
	{".buildkite/", ci},
	{".semaphore/", ci},
	{".cirrus.yml", ci},
	{".cirrus.star", ci},
	{".builds/", ci},
	{".build.yml", ci},
	{".sourcehut.yml", ci},
	{".teamcity/", ci},
	{".tekton/", ci},
	{".ci/", ci},
	{"cloudbuild.yaml", ci},
	{"cloudbuild.yml", ci},
	{"buildspec.yml", ci},
	{"buildspec.yaml", ci},
	{"wercker.yml", ci},
	{"codemagic.yaml", ci},
	{"bitrise.yml", ci},
	{".readthedocs.yml", ci},
	{".readthedocs.yaml", ci},
	{"netlify.toml", ci},
	{"vercel.json", ci},
	{"renovate.json", ci},
	{"renovate.json5", ci},
	{".renovaterc", ci},
	{".renovaterc.json", ci},
	{".mergify.yml", ci},
	{".zuul.yaml", ci},
	{".zuul.d/", ci},
	{".packit.yaml", ci},
	{".copr/", ci},
	{".evergreen.yml", ci},
};

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* One part of a path against one part of a pattern: '*' within it, ASCII case ignored. */
static bool part_match(const char *pat, size_t pat_n, const char *s, size_t n)
{
	size_t p = 0, i = 0, star = SIZE_MAX, back = 0;

	while (i < n) {
		if (p < pat_n && pat[p] == '*') {
			star = p++;
			back = i;
		} else if (p < pat_n && lower(pat[p]) == lower(s[i])) {
			p++;
			i++;
		} else if (star != SIZE_MAX) {
			p = star + 1;
			i = ++back;
		} else {
			return false;
		}
	}
	while (p < pat_n && pat[p] == '*')
		p++;
	return p == pat_n;
}

/* Does the pattern match from here on: to the end of the path, or a directory above it? */
static bool match_here(const char *pat, const char *path)
{
	for (;;) {
		size_t pn = strcspn(pat, "/"), n = strcspn(path, "/");

		if (!part_match(pat, pn, path, n))
			return false;
		pat += pn;
		path += n;
		if (!*pat)
			return !*path; /* a file's pattern ends with the path */
		pat++;
		if (!*pat)
			return true; /* a directory: itself, or anything below it */
		if (!*path)
			return false;
		path++;
	}
}

const char *change_runs(const char *path, unsigned mode)
{
	if (mode == 0)
		return NULL; /* what is gone does not run */
	for (const char *at = path; at; at = strchr(at, '/')) {
		if (*at == '/')
			at++;
		for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
			char c = lower(*at);

			if (table[i].pattern[0] != '*' && lower(table[i].pattern[0]) != c)
				continue;
			if (match_here(table[i].pattern, at))
				return table[i].why;
		}
	}
	return NULL;
}

const char *change_runs_in(const struct repo *r, const char *path, unsigned mode)
{
	const char *why = change_runs(path, mode);

	if (why || !r || mode == 0)
		return why;
	if (r->hooks_path && path_under(r->hooks_path, path))
		return hook;
	for (size_t i = 0; i < r->included.n; i++)
		if (path_under(r->included.v[i], path))
			return gitconf;
	return NULL;
}

/* Does the path from here on match the first parts of a pattern, and not all? */
static bool match_begin(const char *pat, const char *path)
{
	for (;;) {
		size_t pn = strcspn(pat, "/"), n = strcspn(path, "/");

		if (!part_match(pat, pn, path, n))
			return false;
		pat += pn;
		path += n;
		if (!*pat++)
			return false;
		if (!*path++)
			return true;
	}
}

bool change_runs_below(const struct repo *r, const char *path)
{
	for (const char *at = path; at; at = strchr(at, '/')) {
		if (*at == '/')
			at++;
		for (size_t i = 0; i < ARRAY_SIZE(table); i++)
			if (match_begin(table[i].pattern, at))
				return true;
	}
	if (r && r->hooks_path && path_under(path, r->hooks_path))
		return true;
	for (size_t i = 0; r && i < r->included.n; i++)
		if (path_under(path, r->included.v[i]))
			return true;
	return false;
}
