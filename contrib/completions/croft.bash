# SPDX-License-Identifier: Apache-2.0
# bash completion for croft

_croft() {
	local cur prev words cword command i
	if declare -F _init_completion >/dev/null; then
		_init_completion || return
	else
		words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
		cur=${words[cword]} prev=${words[cword - 1]}
	fi

	local commands="run policy secret pending allow deny why doctor prove help version"
	local policy="show check explain diff trust set learn"
	local policy_options="--policy --profile --read --write --deny --env --set --allow-host --use --secret --publish --host-port --tier
		--memory --cpus --pids --disk --timeout --observe --workspace"
	local learn_options="$policy_options --direct --discard --allow-degraded --json --quiet --verbose --help"
	local run_options="$learn_options --dry-run"

	# After the first word that is not an option of run, the rest is the command's own.
	command=${words[1]-}
	for ((i = 2; i < cword; i++)); do
		if [[ ${words[i]} == -- && ($command == run || $command == policy) ]]; then
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
	--workspace)
		compopt -o filenames 2>/dev/null
		COMPREPLY=($(compgen -d -- "$cur"))
		return
		;;
	--policy | --read | --write | --deny)
		compopt -o filenames 2>/dev/null
		COMPREPLY=($(compgen -f -- "$cur"))
		return
		;;
	-e | --env)
		COMPREPLY=($(compgen -e -- "$cur"))
		return
		;;
	--memory | --cpus | --pids | --disk | --timeout | --set | --allow-host | --use | --secret | --publish | --host-port | --only)
		return
		;;
	--json)
		if [[ $command == run ]]; then
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
	policy)
		if ((cword == 2)); then
			COMPREPLY=($(compgen -W "$policy" -- "$cur"))
		elif [[ ${words[2]} == learn && $cur == -* ]]; then
			COMPREPLY=($(compgen -W "$learn_options --" -- "$cur"))
		elif [[ ${words[2]} == learn ]]; then
			COMPREPLY=($(compgen -c -- "$cur"))
		elif [[ ${words[2]} == trust && $cur == -* ]]; then
			COMPREPLY=($(compgen -W "--revoke --help" -- "$cur"))
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
		COMPREPLY=($(compgen -W "--tier --only --control --json --help" -- "$cur"))
		;;
	esac
}
complete -F _croft croft
