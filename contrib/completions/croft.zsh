#compdef croft
# SPDX-License-Identifier: Apache-2.0
# zsh completion for croft

local -a policy_options learn_options run_options exec_options envs
envs=(${(f)"$(croft ls 2>/dev/null | awk '{ print $1 }')"})
policy_options=(
	'--policy[use this policy file]:policy file:_files'
	'--profile[built-in profile]:profile:(default strict offline python node rust go c)'
	'*--read[may read]:path:_files'
	'*--write[may write]:path:_files'
	'*--deny[may not touch]:path:_files'
	'*'{-e,--env}'[pass or set a variable]:variable:_parameters -g "*export*"'
	'*--set[a setting by its dotted name]:key=value:'
	'*--allow-host[network access to a host]:host:_hosts'
	'*--use[network access to a kind of service]:bundle:(npm pypi crates go debian github-read)'
	'*--secret[let a stored secret go to a host]:NAME@HOST:'
	'*--publish[show a port of the sandbox]:HOSTPORT\:PORT:'
	'*--host-port[let it reach a port of this machine]:port:'
	'--tier[boundary]:tier:(auto namespace process)'
	'--memory[memory limit]:size:'
	'--cpus[processors]:number:'
	'--pids[processes]:number:'
	'--disk[scratch and staged files]:size:'
	'--timeout[time limit]:time:'
	'--observe[which refusals to look for]:mode:(off writes full)'
	'--workspace[work there]:directory:_files -/'
)
learn_options=(
	$policy_options
	'--direct[write in place]'
	'--discard[keep no changes]'
	'--allow-degraded[accept missing protections]'
	'(-q --quiet)'{-q,--quiet}'[no summary]'
	'(-v --verbose)'{-v,--verbose}'[longer summary]'
	'(-h --help)'{-h,--help}'[help]'
)
run_options=(
	$learn_options
	'--staged[keep changes for review]'
	'--stay[go on without the program that started it]'
	'--json[write the receipt]:file:_files'
	'--dry-run[print the plan]'
)

exec_options=(
	$policy_options
	'--as[what it is]:kind:(test)'
	'--read-only[look only]'
	'--stay[go on without the program that started it]'
	'--json[write the receipt]:file:_files'
	'--allow-degraded[accept missing protections]'
	'(-q --quiet)'{-q,--quiet}'[no summary]'
	'(-v --verbose)'{-v,--verbose}'[longer summary]'
	'(-h --help)'{-h,--help}'[help]'
)

if (( CURRENT == 2 )); then
	_values 'command' \
		'run[one command in a sandbox]' \
		'new[make an environment]' \
		'exec[run a command in an environment]' \
		'shell[a shell in an environment]' \
		'ls[list environments]' \
		'status[what is staged]' \
		'log[what happened]' \
		'snapshot[freeze its state]' \
		'restore[go back to a snapshot]' \
		'fork[a second one from here]' \
		'rm[remove environments]' \
		'gc[reclaim what is of no use]' \
		'diff[what was changed]' \
		'review[decide, hunk by hunk]' \
		'compare[environments side by side]' \
		'apply[land the changes]' \
		'revert[take a landing back out]' \
		'discard[throw staged changes away]' \
		'evidence[the signed record]' \
		'replay[run recorded commands again]' \
		'policy[show, check, explain, diff, trust, set, learn]' \
		'secret[credentials that sandboxes never see]' \
		'pending[connections that wait for a decision]' \
		'allow[let one through]' \
		'deny[refuse one]' \
		'why[why something was denied]' \
		'doctor[what this machine can enforce]' \
		'prove[try to get out]' \
		'help[help]' \
		'version[version]'
	return
fi

case $words[2] in
run)
	shift words
	(( CURRENT-- ))
	_arguments -S $run_options '*::command:_normal'
	;;
new)
	_arguments $policy_options '--from[start from this commit]:revision:' '--dirty[with what is not committed]' \
		'--path[the project]:directory:_files -/' '--agent[who works in it]:name:' '--model[with which model]:name:' \
		'--task[on what]:text:' '--json[as JSON]' '--quiet[no report]' '--help[help]' '2:name:'
	;;
exec)
	shift words
	(( CURRENT-- ))
	_arguments -S $exec_options "1:environment:($envs)" '*::command:_normal'
	;;
shell)
	_arguments $exec_options "2:environment:($envs)"
	;;
ls)
	_arguments '(-a --all)'{-a,--all}'[of every directory]' '--json[as JSON]' '--help[help]'
	;;
status)
	_arguments '--json[as JSON]' '--help[help]' "2:environment:($envs)"
	;;
log)
	_arguments '(-n --number)'{-n,--number}'[only the last ones]:number:' '--json[as JSON]' '--help[help]' \
		"2:environment:($envs)"
	;;
snapshot | restore | fork)
	_arguments '--json[as JSON]' '--help[help]' "2:environment:($envs)" '3:name:'
	;;
rm)
	_arguments '(-f --force)'{-f,--force}'[staged work, too]' '--help[help]' "*:environment:($envs)"
	;;
gc)
	_arguments '(-n --dry-run)'{-n,--dry-run}'[only say what would go]' '--json[as JSON]' '--help[help]'
	;;
diff)
	_arguments '--stat[counted lines only]' '--names[files only]' '--text[binary files, too]' '--since-review[only what is new]' '--color[colours]' \
		'--no-color[no colours]' '--json[as JSON]' '--help[help]' "2:environment:($envs)" '*:path:_files'
	;;
review)
	_arguments '--since-review[only what is new]' '--accept-all[all but what runs on this machine]' \
		'*--accept[accept a file]:path:_files' '*--reject[reject a file]:path:_files' '--json[as JSON]' '--help[help]' \
		"2:environment:($envs)"
	;;
compare)
	_arguments '--json[as JSON]' '--help[help]' "*:environment:($envs)"
	;;
apply)
	_arguments '--commit[as commits]' '--squash[one commit]' '--branch[on this branch]:branch:' '--patch[print a patch]' \
		'(-m --message)'{-m,--message}'[of the commit]:text:' '--sign[sign the commit]' '--tree[only this tree]:tree:' \
		'--include-flagged[also what runs on this machine]' '--dry-run[only say what would land]' '--json[as JSON]' \
		'--help[help]' "2:environment:($envs)" '*:path:_files'
	;;
revert)
	_arguments '--commit[as a commit]' '--json[as JSON]' '--help[help]' "2:environment:($envs)"
	;;
discard)
	_arguments '--undo[bring it back]' '--help[help]' "2:environment:($envs)"
	;;
replay)
	_arguments $policy_options '--keep[keep the environment]' '--json[as JSON]' '(-v --verbose)'{-v,--verbose}'[show output]' \
		'--help[help]' "2:environment:($envs)" '3:event:'
	;;
evidence)
	if (( CURRENT == 3 )); then
		_values 'evidence command' show verify export push fetch check key
		return
	fi
	shift words
	(( CURRENT-- ))
	case $words[2] in
	show)
		_arguments '--json[as JSON]' '--help[help]' "2:environment:($envs)" '3:event:'
		;;
	verify)
		_arguments '--key[signed with this key]:file:_files' '--json[as JSON]' '--help[help]' "2:environment:($envs)"
		;;
	export)
		_arguments '--output[what was printed, too]' '--git-ai[a Git AI note, too]' \
			'--agent-trace[an Agent Trace record, too]' '--help[help]' "2:environment:($envs)" '3:directory:_files -/'
		;;
	push | fetch)
		_arguments '(-a --all)'{-a,--all}'[all of it]' '--help[help]' \
			"2:remote:($(git remote 2>/dev/null | tr '\n' ' '))" "*:environment:($envs)"
		;;
	check)
		_arguments '--policy[the gate file]:file:_files' '--sarif[what is missing, as SARIF]:file:_files' '--json[as JSON]' \
			'--help[help]' '2:range:'
		;;
	key)
		_arguments '--json[as JSON]' '--help[help]'
		;;
	esac
	;;
allow | deny)
	_arguments '--once[this one only]' '--for[for some time]:time:' '--help[help]' '*:id:'
	;;
policy)
	if (( CURRENT == 3 )); then
		_values 'policy command' show check explain diff trust set learn
		return
	fi
	shift 2 words
	(( CURRENT -= 2 ))
	if [[ $words[1] == learn ]]; then
		_arguments -S $learn_options '--json[as JSON]:file:(-)' '*::command:_normal'
	elif [[ $words[1] == trust ]]; then
		_arguments '--revoke[withdraw approval]' '--objects[directory of Git objects]:directory:_files -/' '--help[help]' '*:file:_files'
	else
		_arguments $policy_options '--json[as JSON]' '--help[help]' '*:file:_files'
	fi
	;;
secret)
	if (( CURRENT == 3 )); then
		_values 'secret command' set ls rm
		return
	fi
	shift 2 words
	(( CURRENT -= 2 ))
	if [[ $words[1] == ls ]]; then
		_arguments '--json[as JSON]' '--help[help]'
	elif [[ $words[1] == set ]]; then
		_arguments '--from-file[from a file]:file:_files' '--from-command[from a command]:command:' \
			'--from-env[from a variable]:variable:_parameters -g "*export*"' '--help[help]' '1:name:'
	else
		_arguments '--help[help]' "*:name:(${(j: :)${(f)$(croft secret ls 2>/dev/null | awk '/ bytes / { print $1 }')}})"
	fi
	;;
why | doctor)
	_arguments '--json[as JSON]' '--help[help]'
	;;
prove)
	_arguments '--tier[boundary]:tier:(auto namespace process)' '--only[one probe]:id:' '--control[outside any sandbox]' '--list[name the probes]' '--json[as JSON]' '--help[help]'
	;;
esac
