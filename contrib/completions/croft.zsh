#compdef croft
# SPDX-License-Identifier: Apache-2.0
# zsh completion for croft

local -a policy_options learn_options run_options
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
	'--disk[scratch space]:size:'
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
	'--json[write the receipt]:file:_files'
	'--dry-run[print the plan]'
)

if (( CURRENT == 2 )); then
	_values 'command' \
		'run[one command in a sandbox]' \
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
		_arguments '--revoke[withdraw approval]' '--help[help]' '*:file:_files'
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
	_arguments '--tier[boundary]:tier:(auto namespace process)' '--only[one probe]:id:' '--control[outside any sandbox]' '--json[as JSON]' '--help[help]'
	;;
esac
