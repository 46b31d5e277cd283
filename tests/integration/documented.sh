#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Each option that a program's --help lists stands in its manual page, and each
# page is well formed.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
bad=0

# options_of COMMAND ARG...: the long options that its --help lists.
options_of() { "$@" --help | grep -Eo -- '(^|[ ,])--[a-z][a-z-]+' | grep -Eo -- '--[a-z-]+' | sort -u; }

# has_all PAGE COMMAND ARG...
has_all() {
	local page=$KVD_SOURCE/doc/$1 option
	shift
	for option in $(options_of "$@"); do
		# A page may write a dash as \-.
		sed 's/\\-/-/g' "$page" | grep -Eq -- "(Fl $option|${option#--}([^a-z-]|\$))" ||
			{ echo "${*##*/} $option is not in ${page##*/}"; bad=1; }
	done
}

for page in kvd.8 kvcli.1 kvbench.1 kvfront.8; do
	[ -x "$KVD_BUILD/${page%.*}" ] || [ $page != kvfront.8 ] || continue # built without libevent
	[ -e "$KVD_SOURCE/doc/$page" ] || fail "no page $page"
	program=$KVD_BUILD/${page%.*}
	[ -n "$(options_of "$program")" ] || fail "${page%.*} --help lists no options"
	has_all $page "$program"
done
# Two columns, each a name and what it does.
kvcli_commands=$("$KVD_BUILD/kvcli" help | sed -nE 'h; s/^  ([a-z][a-z-]*) .*/\1/p; g; s/^.{40}([a-z][a-z-]*) .*/\1/p')
reached "commands of kvcli" "$(wc -w <<<"$kvcli_commands")" 29
for command in $kvcli_commands; do
	has_all kvcli.1 "$KVD_BUILD/kvcli" "$command"
	grep -q "$command" "$KVD_SOURCE/doc/kvcli.1" || { echo "kvcli $command is not in kvcli.1"; bad=1; }
done
for command in $("$KVD_BUILD/kvbench" --help | sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p'); do
	has_all kvbench.1 "$KVD_BUILD/kvbench" "$command"
done
# A key of the configuration file is a long option of kvd, and the other way round.
for option in $(options_of "$KVD_BUILD/kvd"); do
	case $option in --help | --version | --config | --check-config | --check) continue ;; esac
	grep -q "^\.It Ic ${option#--} No = " "$KVD_SOURCE/doc/kvd.conf.5" ||
		{ echo "$option is not in kvd.conf.5"; bad=1; }
done
for key in $(sed -n 's/^\.It Ic \([a-z-]*\) No = .*/\1/p' "$KVD_SOURCE/doc/kvd.conf.5"); do
	options_of "$KVD_BUILD/kvd" | grep -qxe "--$key" || { echo "kvd.conf.5: kvd has no --$key"; bad=1; }
done

# What the software device takes from the environment, and its faults.
device=$KVD_SOURCE/common/softverbs page=$KVD_SOURCE/doc/softverbs.7
names=$(sed -nE 's/.*getenv\("(SOFTVERBS_[A-Z_]+)"\).*/\1/p' "$device"/*/*.c | sort -u)
[ -n "$names" ] || fail "the software device's variables were not found"
for name in $names; do
	grep -q "Ev $name\$" "$page" || { echo "$name is not in softverbs.7"; bad=1; }
done
names=$(grep -Eo '"[a-z_]+", &faults->|name, "[a-z]+"' "$device/base/fault.c" | grep -Eo '"[a-z_]+"' | tr -d '"')
[ -n "$names" ] || fail "the software device's faults were not found"
for name in $names; do
	grep -q "^\.It Cm $name " "$page" || { echo "fault $name is not in softverbs.7"; bad=1; }
	grep -q "\`$name=" "$KVD_SOURCE/doc/softverbs.md" || [ "$name" = seed ] ||
		{ echo "fault $name is not in softverbs.md"; bad=1; }
done

# The completion of the shell knows each command of kvcli and its options.
. "$KVD_SOURCE/doc/kvcli.bash"
for command in '' $kvcli_commands; do
	[ -z "$command" ] || [[ " $(echo $_kvcli_commands) " == *" $command "* ]] ||
		{ echo "kvcli.bash: no $command"; bad=1; }
	for option in $("$KVD_BUILD/kvcli" $command --help | sed -nE 's/^ +(-[a-zA-Z0-9], )?(--[a-z-]+).*/\2/p'); do
		[[ " $(_kvcli_options "$command") " == *" $option "* ]] ||
			{ echo "kvcli.bash: $command has no $option"; bad=1; }
	done
done
[ $bad = 0 ] || fail "see above"
command -v mandoc >/dev/null || skip "mandoc is not installed, to look at the pages' form"
for page in "$KVD_SOURCE"/doc/*.[1-8]; do
	mandoc -T lint -W warning "$page" || bad=1
done
[ $bad = 0 ] || fail "see above"
