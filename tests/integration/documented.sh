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

for page in kvd.8 kvcli.1 kvbench.1; do
	[ -e "$KVD_SOURCE/doc/$page" ] || { say "no page $page"; continue; }
	program=$KVD_BUILD/${page%.*}
	[ -n "$(options_of "$program")" ] || fail "${page%.*} --help lists no options"
	has_all $page "$program"
done
for command in $("$KVD_BUILD/kvcli" --help | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p'); do
	has_all kvcli.1 "$KVD_BUILD/kvcli" "$command"
	grep -q "$command" "$KVD_SOURCE/doc/kvcli.1" || { echo "kvcli $command is not in kvcli.1"; bad=1; }
done
for command in $("$KVD_BUILD/kvbench" --help | sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p'); do
	has_all kvbench.1 "$KVD_BUILD/kvbench" "$command"
done
if command -v mandoc >/dev/null; then
	for page in "$KVD_SOURCE"/doc/*.[1378]; do
		mandoc -T lint -W warning "$page" || bad=1
	done
fi
[ $bad = 0 ] || fail "see above"
