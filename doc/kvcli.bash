# SPDX-License-Identifier: BSD-2-Clause
# bash completion of kvcli(1)

_kvcli_commands='put get del exists incr decr append prepend touch ttl keys flush lock update txn put-tree get-tree check-tree ping
	export import top backup info stats user cluster devices doctor counters help'

# The first word that is no option, nor the argument of one.
_kvcli_command()
{
	local i
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		-s | --server | -d | --device | -t | --timeout | -b | --bootstrap | -c | --credentials) ((i++)) ;;
		-*) ;;
		*) echo "${COMP_WORDS[i]}"; return ;;
		esac
	done
}

_kvcli_options()
{
	case $1 in
	'') echo '--server --device --bootstrap --timeout --credentials --stop-on-error --help --version' ;;
	put) echo '--file --ttl --if-absent --if-present --if-version --flags --help' ;;
	get) echo '--output --json --help' ;;
	incr | decr) echo '--ttl --help' ;;
	append | prepend) echo '--file --ttl --help' ;;
	keys) echo '--prefix --long --null --json --help' ;;
	flush) echo '--yes --at --delay --help' ;;
	lock | update) echo '--timeout --help' ;;
	put-tree | get-tree | check-tree) echo '--prefix --help' ;;
	export) echo '--prefix --json --help' ;;
	import) echo '--from --check --help' ;;
	ping) echo '--count --help' ;;
	top) echo '--interval --count --help' ;;
	devices) echo '--json --verbose --help' ;;
	ttl | info | stats) echo '--json --help' ;;
	doctor) echo '--front --cluster --json --help' ;;
	user) echo '--users --output --json --help' ;;
	cluster) echo 'init status promote remove force --copies --shards --json --yes --help' ;;
	counters) echo '--all --json --help' ;;
	*) echo '--help' ;;
	esac
}

_kvcli_devices()
{
	echo soft
	[ -d /sys/class/infiniband ] && ls /sys/class/infiniband
}

_kvcli()
{
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
	local command words=
	command=$(_kvcli_command)

	case $before in
	-f | --file | -o | --output | -c | --credentials | -u | --users) compopt -o default; COMPREPLY=(); return ;;
	-d | --device) words=$(_kvcli_devices) ;;
	-b | --bootstrap) words='cm tcp' ;;
	-s | --server | -t | --timeout | -p | --prefix | -n | --count | --ttl | --if-version) ;;
	*)
		# Behind the -- of lock and update stands a command.
		case $before,$command in
		--,lock | --,update) mapfile -t COMPREPLY < <(compgen -c -- "$word"); return ;;
		esac
		case $word,$command in
		-*,*) words=$(_kvcli_options "$command") ;;
		,help | *,help | *,) words=$_kvcli_commands ;;
		*,import | *,export) compopt -o default; COMPREPLY=(); return ;;
		*,*-tree) compopt -o dirnames; COMPREPLY=(); return ;;
		esac
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -F _kvcli kvcli
