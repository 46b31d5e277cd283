#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The manuals say what the code says: each function of <kvd.h> with its arguments, each
# result, each member of the structures that go over the wire and its place, each value.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
requires awk sed
cc=${KVD_TEST_CC:-cc}
requires ${cc%% *}
doc=$KVD_SOURCE/doc header=$KVD_SOURCE/client/kvd.h
bad=0
complain() { echo "$*"; bad=1; }

# The prototypes of <kvd.h>, one a line, blanks squeezed.
sed -e 's/__attribute__.*;/;/' "$header" | awk '
	/\/\*/ { comment = 1 }
	!comment && !/^#/ { printf "%s ", $0 }
	/\*\// { comment = 0 }' | tr ';' '\n' |
	sed -nE 's/.*[{}]//; s/[[:space:]]+/ /g; s/^ //; s/ ?\)$/)/; /^(const )?[a-z_0-9 ]+ \**kvd_[a-z0-9_]+\(/p' |
	grep -v typedef | sort >"$tmp/declared"
# The same out of the manual's synopsis.
awk '
	/^\.Ft/ { sub(/^\.Ft "?/, ""); sub(/"$/, ""); type = $0; next }
	/^\.Fo/ { line = type (type ~ /\*$/ ? "" : " ") $2 "("; n = 0; next }
	/^\.Fa "/ && line { sub(/^\.Fa "/, ""); sub(/"$/, ""); line = line (n++ ? ", " : "") $0; next }
	/^\.Fc/ { print line ")"; line = "" }' "$doc/libkvd.3" | sort >"$tmp/described"
[ "$(wc -l <"$tmp/declared")" -ge 50 ] || fail "the prototypes of kvd.h were not found"
diff "$tmp/declared" "$tmp/described" || complain "< in kvd.h, > in libkvd.3"

# Each is told of, not only named: in a list's tag.
for name in $(grep -Eo '\bkvd_[a-z0-9_]+\(' "$tmp/declared" | tr -d '('); do
	sed -n '/^\.Sh DESCRIPTION/,$p' "$doc/libkvd.3" | sed -e ':a' -e '/\\$/N; s/\\\n//; ta' |
		grep -Eq "^\.It .*Fn $name( |\$)" || complain "libkvd.3 does not say what $name does"
done
for name in $(sed -nE 's/^#define (KVD_[A-Z0-9_]+) .*/\1/p' "$header"); do
	grep -q "Dv $name\b" "$doc/libkvd.3" || complain "$name is not in libkvd.3"
done
for name in $(sed -nE '/^struct .*\{/,/^\}/s/^\t[a-z][a-z0-9_ ]*[ *]([a-z_]+);.*/\1/p' "$header" | sort -u); do
	grep -Eq "(Fa|Va) $name\b" "$doc/libkvd.3" || complain "member $name is not in libkvd.3"
done

# kvd-protocol(7) as assertions of C: places, lengths, values; all bytes are told of.
awk '
	/^\.Ss struct / { s = $3; total = $5; print "static_assert(sizeof(struct " s ") == " total ", \"" s "\");"; sum = "0"; next }
	/^\.It [0-9]+ Ta [0-9]+ Ta Va / && s {
		print "static_assert(offsetof(struct " s ", " $7 ") == " $2 " && sizeof(((struct " s " *)0)->" $7 ") == " $4 ", \"" s "." $7 "\");"
		sum = sum "+" $4; next }
	/^\.El/ && s { print "static_assert(" sum " == sizeof(struct " s "), \"all of " s "\");"; s = "" }
	/^\.It Li [^ ]+ Ta Dv [A-Z]/ { v = $3; n = $6 }
	/^\.It Li [0-9]+ No = Dv [A-Z]/ { v = $3; n = $7 }
	n { print "static_assert(" n " == (" v "), \"" n "\");"; n = "" }' "$doc/kvd-protocol.7" >"$tmp/body"
{
	printf '#include <assert.h>\n#include <stddef.h>\n#include "common/layout.h"\n#include "common/wire.h"\n'
	cat "$tmp/body"
} >"$tmp/page.c"
[ "$(grep -c offsetof "$tmp/body")" -ge 80 ] || fail "the tables of kvd-protocol.7 were not found"
$cc -std=gnu11 -I"$KVD_SOURCE" -fsyntax-only "$tmp/page.c" || complain "kvd-protocol.7 differs from the code"

cd "$KVD_SOURCE/common" || fail "no source"
for name in $(sed -nE 's/^struct ((wire|layout)_[a-z]+) \{.*/\1/p' wire.h layout.h); do
	case $name in layout_view | layout_attributes) continue ;; esac # of no byte in memory
	grep -q "^\.Ss struct $name " "$doc/kvd-protocol.7" || complain "struct $name is not in kvd-protocol.7"
done
for name in $(sed -nE 's/^\t((WIRE|LAYOUT)_[A-Z_]+) = .*/\1/p' wire.h layout.h) \
	$(grep -Eo '(WIRE_TXN_[A-Z]+) = [0-9]' wire.h | cut -d ' ' -f 1); do
	grep -q "Dv $name\b" "$doc/kvd-protocol.7" || complain "$name is not in kvd-protocol.7"
done
# Each is of a package.
for page in "$doc"/*.[1-8]; do
	page=man${page##*.}/${page##*/}
	cat "$KVD_SOURCE"/debian/*.install | grep -qx -e "usr/share/man/$page" -e "usr/share/man/${page%/*}" ||
		complain "$page is in none of debian/*.install"
done
[ $bad = 0 ] || fail "see above"
