#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The synopsis of each manual, and of each command of kvcli in its manual, has the options
# that --help lists, and no others; each option of a command stands in a test.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
doc=$KVD_SOURCE/doc bad=0 compared=0

# options: out of mdoc on standard input, one a line: "Fl f | -file Ar PATH" is -f and --file.
options() {
	awk '{
		for (i = 1; i <= NF; i++) {
			if ($i !~ /^\.?Fl$/) continue
			do {
				i++
				if ($i == "Fl") i++
				print "-" $i
			} while ($(i + 1) == "|" && ++i)
		}
	}'
}

# listed PROGRAM ARG...: of its --help, one a line: "-f --file", "--if-absent".
listed() {
	"$@" --help | sed -nE 's/^ +(-[a-zA-Z0-9]), (--[a-z-]+).*/\1 \2/p; s/^ +(--[a-z-]+).*/\1/p'
}

# compare WHAT: the synopsis in $tmp/text with the help in $tmp/help.
compare() {
	local names name
	options <"$tmp/text" >"$tmp/options"
	while read -r names; do
		compared=$((compared + 1))
		# shellcheck disable=SC2086
		printf '%s\n' $names | grep -qxFf - "$tmp/options" || { echo "$1: no $names in the synopsis"; bad=1; }
	done <"$tmp/help"
	while read -r name; do
		tr ' ' '\n' <"$tmp/help" | grep -qxe "$name" || { echo "$1: --help has no $name"; bad=1; }
	done <"$tmp/options"
}

# synopsis PAGE: its mdoc.
synopsis() { sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESCRIPTION/p' "$doc/$1"; }

for page in kvd.8 kvcli.1; do
	synopsis $page >"$tmp/text"
	listed "$KVD_BUILD/${page%.*}" >"$tmp/help"
	[ "$page" != kvd.8 ] || echo --output >>"$tmp/help" # of kvd init, whose usage has it
	compare "${page%.*}"
done

# A command of kvcli: the items that begin with it, each one line or, from Xo on, some.
commands=$("$KVD_BUILD/kvcli" help | sed -nE 'h; s/^  ([a-z][a-z-]*) .*/\1/p; g; s/^.{40}([a-z][a-z-]*) .*/\1/p')
reached "commands of kvcli" "$(wc -w <<<"$commands")" 29
sed -n '/^\.Sh COMMANDS/,/^\.Sh EXPORTS/p' "$doc/kvcli.1" |
	awk '/^\.It Xo$/ { item = ".It"; next }
		/^\.Xc$/ { print item; item = ""; next }
		item != "" { sub(/^\./, " "); item = item $0; next }
		/^\.It / { print }' >"$tmp/items"
for command in $commands; do
	grep -E "^\.It +Cm $command( |\$)" "$tmp/items" >"$tmp/text" || { echo "kvcli.1: no item of $command"; bad=1; }
	listed "$KVD_BUILD/kvcli" "$command" | grep -vx -e --help >"$tmp/help"
	compare "kvcli $command"
	while read -r names; do
		grep -rqE --include='*.sh' --exclude=synopsis.sh -- "\\b$command\\b.* (${names/ /|})\\b" "$KVD_SOURCE/tests/integration" ||
			{ echo "kvcli $command: no test of $names"; bad=1; }
	done <"$tmp/help"
	for word in $("$KVD_BUILD/kvcli" "$command" --help | sed -n '1s/\[OPTION\]//; 1p' | grep -oE '\b[A-Z]+\b'); do
		grep -qw "$word" "$tmp/text" || { echo "kvcli $command: no $word in the synopsis"; bad=1; }
	done
done

# kvbench has its commands there; their options are a section each.
synopsis kvbench.1 | sed -n 's/^\.Cm \([a-z]*\)$/\1/p' | sort -u >"$tmp/text"
"$KVD_BUILD/kvbench" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z]*\)  .*/\1/p' | sort >"$tmp/help"
reached "commands of kvbench" "$(wc -l <"$tmp/help")" 7
diff "$tmp/help" "$tmp/text" || { echo "kvbench: the synopsis has other commands than --help"; bad=1; }

reached "options compared" $compared 60
[ $bad = 0 ] || fail "see above"
