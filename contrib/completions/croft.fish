# SPDX-License-Identifier: Apache-2.0
# fish completion for croft

complete -c croft -f
complete -c croft -n __fish_use_subcommand -a run -d 'One command in a sandbox'
complete -c croft -n __fish_use_subcommand -a policy -d 'Show, check, explain, diff, trust, set, learn'
complete -c croft -n __fish_use_subcommand -a secret -d 'Credentials that sandboxes never see'
complete -c croft -n __fish_use_subcommand -a pending -d 'Connections that wait for a decision'
complete -c croft -n __fish_use_subcommand -a allow -d 'Let one through'
complete -c croft -n __fish_use_subcommand -a deny -d 'Refuse one'
complete -c croft -n '__fish_seen_subcommand_from allow deny' -l once -d 'This one only'
complete -c croft -n '__fish_seen_subcommand_from allow deny' -l for -x -d 'For some time'
complete -c croft -n '__fish_seen_subcommand_from pending' -l json -d 'As JSON'
complete -c croft -n __fish_use_subcommand -a why -d 'Why something was denied'
complete -c croft -n __fish_use_subcommand -a doctor -d 'What this machine can enforce'
complete -c croft -n __fish_use_subcommand -a prove -d 'Try to get out'
complete -c croft -n __fish_use_subcommand -a help -d 'Help'
complete -c croft -n __fish_use_subcommand -a version -d 'Version'
complete -c croft -n __fish_use_subcommand -l help -s h -d 'Help'
complete -c croft -n __fish_use_subcommand -l version -d 'Version'

set -l policies show check explain diff trust set learn
complete -c croft -n "__fish_seen_subcommand_from policy; and not __fish_seen_subcommand_from $policies" -a "$policies"

set -l secrets set ls rm
complete -c croft -n "__fish_seen_subcommand_from secret; and not __fish_seen_subcommand_from $secrets" -a "$secrets"
complete -c croft -n '__fish_seen_subcommand_from secret; and __fish_seen_subcommand_from set' -l from-file -r -F -d 'From a file'
complete -c croft -n '__fish_seen_subcommand_from secret; and __fish_seen_subcommand_from set' -l from-command -x -d 'From a command'
complete -c croft -n '__fish_seen_subcommand_from secret; and __fish_seen_subcommand_from set' -l from-env -x -a '(set -xn)' -d 'From a variable'
complete -c croft -n '__fish_seen_subcommand_from secret; and __fish_seen_subcommand_from set rm' -a "(croft secret ls 2>/dev/null | string match -rg '^(\\w+) .* bytes ')"
complete -c croft -n '__fish_seen_subcommand_from secret; and __fish_seen_subcommand_from ls' -l json -d 'As JSON'
complete -c croft -n '__fish_seen_subcommand_from secret' -s h -l help -d Help

set -l rules '__fish_seen_subcommand_from run policy'
complete -c croft -n "$rules" -l policy -r -F -d 'Use this policy file'
complete -c croft -n "$rules" -l profile -x -a 'default strict offline python node rust go c' -d 'Built-in profile'
complete -c croft -n "$rules" -l read -r -F -d 'May read'
complete -c croft -n "$rules" -l write -r -F -d 'May write'
complete -c croft -n "$rules" -l deny -r -F -d 'May not touch'
complete -c croft -n "$rules" -s e -l env -x -a '(set -xn)' -d 'Pass or set a variable'
complete -c croft -n "$rules" -l set -x -d 'A setting by its dotted name'
complete -c croft -n "$rules" -l allow-host -x -d 'Network access to a host'
complete -c croft -n "$rules" -l use -x -d 'Network access to a kind of service' -a 'npm pypi crates go debian github-read'
complete -c croft -n "$rules" -l secret -x -d 'Let a stored secret go to a host: NAME@HOST'
complete -c croft -n "$rules" -l publish -x -d 'Show a port of the sandbox: HOSTPORT:PORT'
complete -c croft -n "$rules" -l host-port -x -d 'Let it reach a port of this machine'
complete -c croft -n "$rules" -l memory -x -d 'Memory limit'
complete -c croft -n "$rules" -l cpus -x -d 'Processors'
complete -c croft -n "$rules" -l pids -x -d 'Processes'
complete -c croft -n "$rules" -l disk -x -d 'Scratch space'
complete -c croft -n "$rules" -l timeout -x -d 'Time limit'
complete -c croft -n "$rules" -l observe -x -a 'off writes full' -d 'Which refusals to look for'
complete -c croft -n "$rules" -l workspace -x -a '(__fish_complete_directories)' -d 'Work there'
complete -c croft -n '__fish_seen_subcommand_from run policy prove' -l tier -x -a 'auto namespace process' -d Boundary

complete -c croft -n '__fish_seen_subcommand_from run learn' -l direct -d 'Write in place'
complete -c croft -n '__fish_seen_subcommand_from run learn' -l discard -d 'Keep no changes'
complete -c croft -n '__fish_seen_subcommand_from run learn' -l allow-degraded -d 'Accept missing protections'
complete -c croft -n '__fish_seen_subcommand_from run' -l json -r -F -d 'Write the receipt'
complete -c croft -n '__fish_seen_subcommand_from run' -l dry-run -d 'Print the plan'
complete -c croft -n '__fish_seen_subcommand_from run learn' -s q -l quiet -d 'No summary'
complete -c croft -n '__fish_seen_subcommand_from run learn' -s v -l verbose -d 'Longer summary'
complete -c croft -n '__fish_seen_subcommand_from run' -a '(__fish_complete_command)'

complete -c croft -n '__fish_seen_subcommand_from run policy why doctor prove' -s h -l help -d Help
complete -c croft -n '__fish_seen_subcommand_from policy why doctor prove' -l json -d 'As JSON'
complete -c croft -n '__fish_seen_subcommand_from trust' -l revoke -d 'Withdraw approval'
complete -c croft -n '__fish_seen_subcommand_from prove' -l only -x -d 'One probe'
complete -c croft -n '__fish_seen_subcommand_from prove' -l control -d 'Outside any sandbox'
complete -c croft -n '__fish_seen_subcommand_from check explain diff trust' -F
