#compdef croft
# SPDX-License-Identifier: Apache-2.0
# zsh completion for croft. What may come next is asked from croft itself: croft complete -- WORDS

local line word
local -a plain

for line in "${(@f)$(croft complete -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
	word=${line%%$'\t'*}
	case $word in
	'') ;;
	:files) _files ;;
	:directories) _files -/ ;;
	:commands) _command_names -e ;;
	:variables) _parameters -g '*export*' ;;
	:revisions) compadd -- ${(f)"$(git for-each-ref --format='%(refname:short)' refs/heads refs/tags 2>/dev/null)"} ;;
	:remotes) compadd -- ${(f)"$(git remote 2>/dev/null)"} ;;
	':rest '*)
		shift $((${word#:rest } + 1)) words
		((CURRENT -= ${word#:rest } + 1))
		_normal
		return
		;;
	*@) compadd -S '' -- $word ;;
	*) plain+=("${word//:/\\:}:${line#*$'\t'}") ;;
	esac
done
(($#plain)) && _describe croft plain
