# SPDX-License-Identifier: Apache-2.0
# fish completion for croft. What may come next is asked from croft itself: croft complete -- WORDS

function __croft_complete
	set -l words (commandline -opc)
	set -l typed (commandline -ct)
	set -q typed[1]; or set typed ''
	set -e words[1]
	for line in (croft complete -- $words $typed 2>/dev/null)
		switch $line
			case :files
				__fish_complete_path $typed
			case :directories
				__fish_complete_directories $typed
			case :commands
				complete -C "$typed"
			case :variables
				set -xn
			case :revisions
				git for-each-ref --format='%(refname:short)' refs/heads refs/tags 2>/dev/null
			case :remotes
				git remote 2>/dev/null
			case ':rest *'
				set -l first (math (string split ' ' -- $line)[2] + 1)
				set -l own
				test $first -le (count $words); and set own (string escape -- $words[$first..-1])
				complete -C (string join ' ' -- $own $typed)
			case '*'
				echo $line
		end
	end
end

complete -c croft -f -a '(__croft_complete)'
