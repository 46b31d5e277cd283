#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# `make html` makes a page of each manual; each reference to another of them leads to its page,
# and what kvd-start(7) shows works as it says.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
requires mandoc make
[ -e "$KVD_BUILD/Makefile" ] || skip "no build folder"
make -C "$KVD_BUILD" html >"$tmp/out" 2>&1 || { cat "$tmp/out"; fail "make html"; }
html=$KVD_BUILD/doc/html pages=0
for page in "$KVD_SOURCE"/doc/*.[1-8]; do
	name=${page##*/}
	[ -s "$html/$name.html" ] || fail "no page of $name"
	grep -q '</html>' "$html/$name.html" || fail "the page of $name has no end"
	pages=$((pages + 1))
done
reached "pages" $pages 9
links=$(grep -ho 'href="kv[^"#]*\.html"\|href="libkvd[^"#]*\.html"' "$html"/*.html | cut -d '"' -f 2 | sort -u)
reached "pages that others lead to" "$(wc -w <<<"$links")" 8
for link in $links; do
	[ -e "$html/$link" ] || fail "nothing is where $link leads to"
done

# Without mandoc: what to do.
! make -C "$KVD_BUILD" html MANDOC=no-such-program >"$tmp/out" 2>&1 || fail "made without mandoc"
grep -q "make html: no-such-program can't be run: install mandoc, or set MANDOC" "$tmp/out" ||
	{ cat "$tmp/out"; fail "no word of mandoc"; }

# The commands of kvd-start(7), and what they print.
awk '/^\.Bd/ { shown = 1; next } /^\.Ed/ { exit } shown' "$KVD_SOURCE/doc/kvd-start.7" >"$tmp/shown"
start_kvd --memory 64M
grep '^\$ kvcli' "$tmp/shown" | sed 's/^\$ //' >"$tmp/commands"
reached "commands" "$(wc -l <"$tmp/commands")" 5
while read -r line; do
	# shellcheck disable=SC2086 # words
	$line >>"$tmp/printed" || fail "$line"
	case $line in *' get '*) echo >>"$tmp/printed" ;; esac # as on a terminal
done <"$tmp/commands"
grep -v '^\$' "$tmp/shown" >"$tmp/want"
# Keys come in no order.
head -n 2 "$tmp/printed" | diff - <(head -n 2 "$tmp/want") || fail "another output"
diff <(sort "$tmp/printed") <(sort "$tmp/want") || fail "another output"
