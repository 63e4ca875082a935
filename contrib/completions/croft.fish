# SPDX-License-Identifier: Apache-2.0
# fish completion for croft

# Is the command (the first word) one of these? "ls", "rm" and "diff" are also words of other commands.
function __croft_is
	set -l words (commandline -opc)
	contains -- "$words[2]" $argv
end

function __croft_envs
	croft ls 2>/dev/null | string replace -r ' .*' ''
end

complete -c croft -f
complete -c croft -n __fish_use_subcommand -a run -d 'One command in a sandbox'
complete -c croft -n __fish_use_subcommand -a new -d 'Make an environment'
complete -c croft -n __fish_use_subcommand -a exec -d 'Run a command in an environment'
complete -c croft -n __fish_use_subcommand -a shell -d 'A shell in an environment'
complete -c croft -n __fish_use_subcommand -a ls -d 'List environments'
complete -c croft -n __fish_use_subcommand -a status -d 'What is staged'
complete -c croft -n __fish_use_subcommand -a log -d 'What happened'
complete -c croft -n __fish_use_subcommand -a snapshot -d 'Freeze its state'
complete -c croft -n __fish_use_subcommand -a restore -d 'Go back to a snapshot'
complete -c croft -n __fish_use_subcommand -a fork -d 'A second one from here'
complete -c croft -n __fish_use_subcommand -a rm -d 'Remove environments'
complete -c croft -n __fish_use_subcommand -a gc -d 'Reclaim what is of no use'
complete -c croft -n __fish_use_subcommand -a diff -d 'What was changed'
complete -c croft -n __fish_use_subcommand -a review -d 'Decide, hunk by hunk'
complete -c croft -n __fish_use_subcommand -a compare -d 'Environments side by side'
complete -c croft -n __fish_use_subcommand -a apply -d 'Land the changes'
complete -c croft -n __fish_use_subcommand -a revert -d 'Take a landing back out'
complete -c croft -n __fish_use_subcommand -a discard -d 'Throw staged changes away'
complete -c croft -n __fish_use_subcommand -a evidence -d 'The signed record'
complete -c croft -n __fish_use_subcommand -a replay -d 'Run recorded commands again'
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

set -l rules '__croft_is run new exec shell replay policy'
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
complete -c croft -n "$rules" -l disk -x -d 'Scratch and staged files'
complete -c croft -n "$rules" -l timeout -x -d 'Time limit'
complete -c croft -n "$rules" -l observe -x -a 'off writes full' -d 'Which refusals to look for'
complete -c croft -n "$rules" -l workspace -x -a '(__fish_complete_directories)' -d 'Work there'
complete -c croft -n '__croft_is run new exec shell replay policy prove' -l tier -x -a 'auto namespace process' -d Boundary

complete -c croft -n '__croft_is run' -l staged -d 'Keep changes for review'
complete -c croft -n '__fish_seen_subcommand_from run learn' -l direct -d 'Write in place'
complete -c croft -n '__fish_seen_subcommand_from run learn' -l discard -d 'Keep no changes'
complete -c croft -n '__fish_seen_subcommand_from run learn; or __croft_is exec shell' -l allow-degraded -d 'Accept missing protections'
complete -c croft -n '__croft_is run exec shell' -l stay -d 'Outlive the starter'
complete -c croft -n '__croft_is run exec shell' -l json -r -F -d 'Write the receipt'
complete -c croft -n '__croft_is run' -l dry-run -d 'Print the plan'
complete -c croft -n '__fish_seen_subcommand_from run learn; or __croft_is new exec shell' -s q -l quiet -d 'No summary'
complete -c croft -n '__fish_seen_subcommand_from run learn; or __croft_is exec shell replay' -s v -l verbose -d 'Longer summary'
complete -c croft -n '__croft_is run' -a '(__fish_complete_command)'

complete -c croft -n '__fish_seen_subcommand_from run policy why doctor prove' -s h -l help -d Help
complete -c croft -n '__fish_seen_subcommand_from policy why doctor prove' -l json -d 'As JSON'
complete -c croft -n '__fish_seen_subcommand_from trust' -l revoke -d 'Withdraw approval'
complete -c croft -n '__fish_seen_subcommand_from trust' -l objects -r -d 'Directory of Git objects'
complete -c croft -n '__fish_seen_subcommand_from prove' -l only -x -d 'One probe'
complete -c croft -n '__fish_seen_subcommand_from prove' -l control -d 'Outside any sandbox'
complete -c croft -n '__fish_seen_subcommand_from prove' -l list -d 'Name the probes'
complete -c croft -n '__fish_seen_subcommand_from check explain diff trust' -F

set -l named '__croft_is exec shell status log snapshot restore fork rm diff review compare apply revert discard replay'
complete -c croft -n "$named" -a '(__croft_envs)' -d Environment
complete -c croft -n "$named; or __croft_is new ls gc evidence" -s h -l help -d Help
complete -c croft -n '__croft_is new ls status log snapshot restore fork gc diff review compare apply revert replay' -l json -d 'As JSON'
complete -c croft -n '__croft_is new' -l from -x -a '(git for-each-ref --format="%(refname:short)" refs/heads refs/tags 2>/dev/null)' -d 'Start from this commit'
complete -c croft -n '__croft_is new' -l dirty -d 'With what is not committed'
complete -c croft -n '__croft_is new' -l path -x -a '(__fish_complete_directories)' -d 'The project'
complete -c croft -n '__croft_is new' -l agent -x -d 'Who works in it'
complete -c croft -n '__croft_is new' -l model -x -d 'With which model'
complete -c croft -n '__croft_is new' -l task -x -d 'On what'
complete -c croft -n '__croft_is exec shell' -l as -x -a test -d 'What it is'
complete -c croft -n '__croft_is exec shell' -l read-only -d 'Look only'
complete -c croft -n '__croft_is exec' -a '(__fish_complete_command)'
complete -c croft -n '__croft_is ls' -s a -l all -d 'Of every directory'
complete -c croft -n '__croft_is log' -s n -l number -x -d 'Only the last ones'
complete -c croft -n '__croft_is rm' -s f -l force -d 'Staged work, too'
complete -c croft -n '__croft_is gc' -s n -l dry-run -d 'Only say what would go'
complete -c croft -n '__croft_is diff' -l stat -d 'Counted lines only'
complete -c croft -n '__croft_is diff' -l names -d 'Files only'
complete -c croft -n '__croft_is diff' -l color -d Colours
complete -c croft -n '__croft_is diff' -l no-color -d 'No colours'
complete -c croft -n '__croft_is diff' -l text -d 'Binary files, too'
complete -c croft -n '__croft_is diff review' -l since-review -d 'Only what is new'
complete -c croft -n '__croft_is diff apply' -F
complete -c croft -n '__croft_is review' -l accept-all -d 'All but what runs on this machine'
complete -c croft -n '__croft_is review' -l accept -r -F -d 'Accept a file'
complete -c croft -n '__croft_is review' -l reject -r -F -d 'Reject a file'
complete -c croft -n '__croft_is apply' -l squash -d 'One commit'
complete -c croft -n '__croft_is apply revert' -l commit -d 'As commits'
complete -c croft -n '__croft_is apply' -l branch -x -d 'On this branch'
complete -c croft -n '__croft_is apply' -l patch -d 'Print a patch'
complete -c croft -n '__croft_is apply' -s m -l message -x -d 'Of the commit'
complete -c croft -n '__croft_is apply' -l sign -d 'Sign the commit'
complete -c croft -n '__croft_is apply' -l tree -x -d 'Only this tree'
complete -c croft -n '__croft_is apply' -l include-flagged -d 'Also what runs on this machine'
complete -c croft -n '__croft_is apply' -l dry-run -d 'Only say what would land'
complete -c croft -n '__croft_is discard' -l undo -d 'Bring it back'
complete -c croft -n '__croft_is replay' -l keep -d 'Keep the environment'

set -l records show verify export push fetch check key
complete -c croft -n "__croft_is evidence; and not __fish_seen_subcommand_from $records" -a "$records"
complete -c croft -n '__croft_is evidence; and __fish_seen_subcommand_from show verify export push fetch' -a '(__croft_envs)' -d Environment
complete -c croft -n '__croft_is evidence; and __fish_seen_subcommand_from push fetch' -a '(git remote 2>/dev/null)' -d Remote
complete -c croft -n '__croft_is evidence; and __fish_seen_subcommand_from push fetch' -s a -l all -d 'All of it'
complete -c croft -n '__croft_is evidence; and __fish_seen_subcommand_from show verify check key' -l json -d 'As JSON'
complete -c croft -n '__croft_is evidence; and __fish_seen_subcommand_from verify' -l key -r -F -d 'Signed with this key'
complete -c croft -n '__croft_is evidence; and __fish_seen_subcommand_from export' -l output -d 'What was printed, too'
complete -c croft -n '__croft_is evidence; and __fish_seen_subcommand_from export' -l git-ai -d 'A Git AI note, too'
complete -c croft -n '__croft_is evidence; and __fish_seen_subcommand_from export' -l agent-trace -d 'An Agent Trace record, too'
complete -c croft -n '__croft_is evidence; and __fish_seen_subcommand_from check' -l policy -r -F -d 'The gate file'
complete -c croft -n '__croft_is evidence; and __fish_seen_subcommand_from check' -l sarif -r -F -d 'What is missing, as SARIF'
