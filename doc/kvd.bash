# SPDX-License-Identifier: BSD-2-Clause
# bash completion of kvd(8) and kvbench(1): what their --help lists

# Long options of "command word...", and the commands that it has.
_kvd_options()
{
	"$@" --help 2>/dev/null | grep -Eo -- '--[a-z][a-z-]+' | sort -u
}

_kvd_commands()
{
	"$1" --help 2>/dev/null | sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p'
}

_kvd()
{
	local program=$1 word=$2 before=$3 command= words=
	[ "$COMP_CWORD" -gt 1 ] && [[ ${COMP_WORDS[1]} != -* ]] && command=${COMP_WORDS[1]}
	case $before in
	--config | --ready-file | --json | --csv | --hdr | --users | --credentials | -P | --workload)
		compopt -o default
		COMPREPLY=()
		return
		;;
	--poll | -p) [ "${program##*/}" = kvd ] && words='adaptive busy event' ;;
	--namespace) return ;;
	--data-dir) compopt -o dirnames; COMPREPLY=(); return ;;
	--durability) words='async sync' ;;
	--log-level) words='error warn info debug' ;;
	--log-to) words='stderr syslog journal' ;;
	--device | -d)
		words=soft
		[ -d /sys/class/infiniband ] && words="$words $(ls /sys/class/infiniband)"
		;;
	*)
		case $word in
		-*) words=$(_kvd_options "$program" ${command:+"$command"}) ;;
		*)
			[ "$COMP_CWORD" = 1 ] && words=$(_kvd_commands "$program")
			[ -n "$words" ] || { compopt -o default; COMPREPLY=(); return; }
			;;
		esac
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -F _kvd kvd kvbench
