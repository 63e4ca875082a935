# SPDX-License-Identifier: Apache-2.0
# bash completion for croft. What may come next is asked from croft itself: croft complete -- WORDS

_croft() {
	local words=() at=() cur=${COMP_WORDS[COMP_CWORD]} rest=${COMP_LINE:0:COMP_POINT} after i w what before

	# bash takes words apart at "=", ":" and "@"; what no blank separates is one word for croft.
	for ((i = 0; i <= COMP_CWORD; i++)); do
		after=${rest#"${rest%%[![:space:]]*}"}
		w=${COMP_WORDS[i]}
		((i == COMP_CWORD)) && w=$after
		if [[ $after == "$rest" ]] && ((${#words[@]} && ${#rest})); then
			words[${#words[@]} - 1]+=$w
		else
			words+=("$w") at+=("$i")
		fi
		rest=${after#"$w"}
	done
	[[ $cur == [=:@] ]] && cur=
	before=${words[${#words[@]} - 1]}
	before=${before%"$cur"}

	COMPREPLY=()
	while IFS=$'\t' read -r w what; do
		what=()
		case $w in
		:files) compopt -o filenames && mapfile -t what < <(compgen -f -- "$cur") ;;
		:directories) compopt -o filenames && mapfile -t what < <(compgen -d -- "$cur") ;;
		:commands) mapfile -t what < <(compgen -c -- "$cur") ;;
		:variables) mapfile -t what < <(compgen -e -- "$cur") ;;
		:revisions) mapfile -t what < <(compgen -W "$(git for-each-ref --format='%(refname:short)' refs/heads refs/tags)" -- "$cur") ;;
		:remotes) mapfile -t what < <(compgen -W "$(git remote)" -- "$cur") ;;
		":rest "*)
			i=$((${w#:rest } + 1))
			if declare -F _command_offset >/dev/null; then
				_command_offset "${at[i]}"
			elif ((i + 1 == ${#words[@]})); then
				mapfile -t COMPREPLY < <(compgen -c -- "$cur")
			else
				compopt -o filenames && mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			fi
			return
			;;
		*) what=("${w#"$before"}") ;;
		esac
		COMPREPLY+=("${what[@]}")
		[[ $w == *@ ]] && compopt -o nospace
	done < <(croft complete -- "${words[@]:1}")
} 2>/dev/null
complete -F _croft croft
