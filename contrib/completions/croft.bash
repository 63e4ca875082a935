# SPDX-License-Identifier: Apache-2.0
# bash completion for croft

# The environments of this directory. cur, words and COMPREPLY are those of the caller, here and below.
_croft_envs() {
	COMPREPLY=($(compgen -W "$(croft ls 2>/dev/null | awk '{ print $1 }')" -- "$cur"))
}

# The environment that diff, review or apply was given, if it was.
_croft_named() {
	local w
	for w in "${words[@]:2:cword-2}"; do
		[[ $w != -* ]] && croft status "$w" >/dev/null 2>&1 && echo "$w" && return
	done
}

# Paths that this environment changed.
_croft_changed() {
	local name
	name=$(_croft_named)
	compopt -o filenames 2>/dev/null
	[[ $name ]] && COMPREPLY=($(compgen -W "$(croft status "$name" 2>/dev/null |
		sed -n 's/^  [AMD] \([^ ]*\).*/\1/p')" -- "$cur"))
}

_croft() {
	local cur prev words cword command i
	if declare -F _init_completion >/dev/null; then
		_init_completion || return
	else
		words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
		cur=${words[cword]} prev=${words[cword - 1]}
	fi

	local commands="run new exec shell ls status log snapshot restore fork rm gc diff review compare apply revert discard
		evidence replay policy secret pending allow deny why doctor prove help version"
	local policy="show check explain diff trust set learn"
	local policy_options="--policy --profile --read --write --deny --env --set --allow-host --use --secret --publish --host-port --tier
		--memory --cpus --pids --disk --timeout --observe --workspace"
	local learn_options="$policy_options --direct --discard --allow-degraded --json --quiet --verbose --help"
	local run_options="$learn_options --staged --stay --dry-run"
	local new_options="$policy_options --from --dirty --path --agent --model --task --json --quiet --help"
	local exec_options="$policy_options --as --read-only --stay --allow-degraded --json --quiet --verbose --help"
	local evidence="show verify export push fetch check key"

	# After the first word that is not an option of run, the rest is the command's own.
	command=${words[1]-}
	for ((i = 2; i < cword; i++)); do
		if [[ ${words[i]} == -- && ($command == run || $command == exec || $command == policy) ]]; then
			if declare -F _command_offset >/dev/null; then
				_command_offset $((i + 1))
			else
				COMPREPLY=($(compgen -c -- "$cur"))
			fi
			return
		fi
	done

	case $prev in
	--tier)
		COMPREPLY=($(compgen -W "auto namespace process" -- "$cur"))
		return
		;;
	--profile)
		COMPREPLY=($(compgen -W "default strict offline python node rust go c" -- "$cur"))
		return
		;;
	--observe)
		COMPREPLY=($(compgen -W "off writes full" -- "$cur"))
		return
		;;
	--workspace | --path)
		compopt -o filenames 2>/dev/null
		COMPREPLY=($(compgen -d -- "$cur"))
		return
		;;
	--policy | --read | --write | --deny | --key | --sarif)
		compopt -o filenames 2>/dev/null
		COMPREPLY=($(compgen -f -- "$cur"))
		return
		;;
	-e | --env)
		COMPREPLY=($(compgen -e -- "$cur"))
		return
		;;
	--as)
		COMPREPLY=($(compgen -W "test" -- "$cur"))
		return
		;;
	--from | --branch)
		COMPREPLY=($(compgen -W "$(git for-each-ref --format='%(refname:short)' refs/heads refs/tags 2>/dev/null)" -- "$cur"))
		return
		;;
	--accept | --reject)
		_croft_changed
		return
		;;
	--agent | --model | --task | --message | -m | --tree | --number | --for)
		return
		;;
	--memory | --cpus | --pids | --disk | --timeout | --set | --allow-host | --use | --secret | --publish | --host-port | --only)
		return
		;;
	--json)
		if [[ $command == run || $command == exec || $command == shell ]]; then
			compopt -o filenames 2>/dev/null
			COMPREPLY=($(compgen -f -W "-" -- "$cur"))
			return
		fi
		;;
	esac

	if ((cword == 1)); then
		COMPREPLY=($(compgen -W "$commands --help --version" -- "$cur"))
		return
	fi
	case $command in
	run)
		if [[ $cur == -* ]]; then
			COMPREPLY=($(compgen -W "$run_options --" -- "$cur"))
		else
			COMPREPLY=($(compgen -c -- "$cur"))
		fi
		;;
	new)
		[[ $cur == -* ]] && COMPREPLY=($(compgen -W "$new_options" -- "$cur"))
		;;
	exec | shell)
		if [[ $cur == -* ]]; then
			COMPREPLY=($(compgen -W "$exec_options" -- "$cur"))
		else
			_croft_envs
		fi
		;;
	ls | gc)
		local -A of=([ls]="--all --json --quiet --help" [gc]="--dry-run --json --quiet --help")
		COMPREPLY=($(compgen -W "${of[$command]}" -- "$cur"))
		;;
	status | log | snapshot | restore | fork | rm | compare | revert | discard)
		local -A of=([status]="--json" [log]="--number --json" [rm]="--force --quiet" [compare]="--json"
			[snapshot]="--json --quiet" [restore]="--json --quiet" [fork]="--json --quiet"
			[revert]="--commit --json" [discard]="--undo")
		if [[ $cur == -* ]]; then
			COMPREPLY=($(compgen -W "${of[$command]} --help" -- "$cur"))
		elif [[ $command == rm || $command == compare ]] || ((cword == 2)); then
			_croft_envs
		elif [[ $command == restore ]]; then
			COMPREPLY=($(compgen -W "$(croft status "${words[2]}" 2>/dev/null |
				sed -n 's/^snapshot  *\([^,]*\),.*/\1/p')" -- "$cur"))
		fi
		;;
	diff | review | apply)
		local -A of=([diff]="--stat --names --text --since-review --color --no-color --json"
			[review]="--since-review --accept-all --accept --reject --json"
			[apply]="--commit --squash --branch --patch --message --sign --tree --include-flagged --dry-run --json")
		if [[ $cur == -* ]]; then
			COMPREPLY=($(compgen -W "${of[$command]} --help" -- "$cur"))
		elif [[ -z $(_croft_named) ]]; then
			_croft_envs
		elif [[ $command != review ]]; then
			_croft_changed
		fi
		;;
	evidence)
		local -A of=([show]="--json" [verify]="--key --json" [export]="--output --git-ai --agent-trace"
			[push]="--all" [fetch]="--all" [check]="--policy --sarif --json" [key]="--json")
		if ((cword == 2)); then
			COMPREPLY=($(compgen -W "$evidence" -- "$cur"))
		elif [[ $cur == -* ]]; then
			COMPREPLY=($(compgen -W "${of[${words[2]}]-} --help" -- "$cur"))
		elif [[ ${words[2]} == push || ${words[2]} == fetch ]] && ((cword == 3)); then
			COMPREPLY=($(compgen -W "$(git remote 2>/dev/null)" -- "$cur"))
		elif [[ ${words[2]} == export ]] && ((cword > 3)); then
			compopt -o filenames 2>/dev/null
			COMPREPLY=($(compgen -d -- "$cur"))
		elif [[ ${words[2]} != check && ${words[2]} != key ]]; then
			_croft_envs
		fi
		;;
	replay)
		if [[ $cur == -* ]]; then
			COMPREPLY=($(compgen -W "$policy_options --keep --json --verbose --help" -- "$cur"))
		else
			_croft_envs
		fi
		;;
	allow | deny)
		[[ $cur == -* ]] && COMPREPLY=($(compgen -W "--once --for --help" -- "$cur"))
		;;
	policy)
		if ((cword == 2)); then
			COMPREPLY=($(compgen -W "$policy" -- "$cur"))
		elif [[ ${words[2]} == learn && $cur == -* ]]; then
			COMPREPLY=($(compgen -W "$learn_options --" -- "$cur"))
		elif [[ ${words[2]} == learn ]]; then
			COMPREPLY=($(compgen -c -- "$cur"))
		elif [[ ${words[2]} == trust && $cur == -* ]]; then
			COMPREPLY=($(compgen -W "--revoke --objects --help" -- "$cur"))
		elif [[ $cur == -* ]]; then
			COMPREPLY=($(compgen -W "$policy_options --json --help" -- "$cur"))
		else
			compopt -o filenames 2>/dev/null
			COMPREPLY=($(compgen -f -- "$cur"))
		fi
		;;
	secret)
		if ((cword == 2)); then
			COMPREPLY=($(compgen -W "set ls rm" -- "$cur"))
		elif [[ $prev == --from-file ]]; then
			compopt -o filenames 2>/dev/null
			COMPREPLY=($(compgen -f -- "$cur"))
		elif [[ $prev == --from-env ]]; then
			COMPREPLY=($(compgen -e -- "$cur"))
		elif [[ ${words[2]} == set && $cur == -* ]]; then
			COMPREPLY=($(compgen -W "--from-file --from-command --from-env --help" -- "$cur"))
		elif [[ ${words[2]} == ls && $cur == -* ]]; then
			COMPREPLY=($(compgen -W "--json --help" -- "$cur"))
		elif [[ ${words[2]} != ls ]]; then
			COMPREPLY=($(compgen -W "$(croft secret ls 2>/dev/null | awk '/ bytes / { print $1 }')" -- "$cur"))
		fi
		;;
	why)
		[[ $cur == -* ]] && COMPREPLY=($(compgen -W "--json --help" -- "$cur"))
		;;
	doctor)
		COMPREPLY=($(compgen -W "--json --help" -- "$cur"))
		;;
	prove)
		COMPREPLY=($(compgen -W "--tier --only --control --list --json --help" -- "$cur"))
		;;
	esac
}
complete -F _croft croft
