#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# doc/verbs.md has a row for each call of <infiniband/verbs.h> and <rdma/rdma_cma.h>, and no
# other; what it says is there is in the library, and what it says is tested is in that test.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
requires cc nm pkg-config
case $(pkg-config --modversion libibverbs 2>/dev/null) in
*.44.*) ;;
*) skip "the table is of rdma-core 44" ;;
esac
table=$KVD_SOURCE/doc/verbs.md
preload=$KVD_BUILD/common/softverbs/.libs/libsoftverbs-preload.so
[ -e "$preload" ] || skip "built without libsoftverbs-preload.so"

# calls HEADER: what it declares or defines, by the compiler's own reading.
calls() {
	echo "#include <$1>" | cc -E -x c - | awk -v header="/$1\"" '
		/^# [0-9]+ "/ { inside = index($3, header) > 0; next } inside' |
		tr '\n' ' ' | grep -oE '\b(ibv|rdma)_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u |
		grep -vx ibv_wc_opcode # a type, in front of a pointer to a function
}

# rows HEADER: "call|have|tested" of its part of the table.
rows() {
	awk -F ' *[|] *' -v part="## <$1>" '/^## / { inside = $0 == part } inside && /^\| `/ {
		gsub("`", ""); print $2 "|" $3 "|" $4 }' "$table"
}

# is_tested CALL WHERE: the test names it, or the conformance check the program.
is_tested() {
	case $2 in
	tests/*) grep -Eq "\b($1|sv_${1#*_}|sv_$1)\(" "$KVD_SOURCE/$2" ;;
	"conformance: "*) grep -Eq "\b${2#*: }\b" "$KVD_SOURCE/tests/conformance/check" ;;
	"not yet" | "") ;;
	*) false ;;
	esac
}

nm -D --defined-only "$preload" | awk '{ print $3 }' >"$tmp/ours"
ldconfig=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p | awk '/lib(ibverbs|rdmacm)\.so\.1 / { print $NF }' | sort -u)
# shellcheck disable=SC2086 # a list
nm -D --defined-only $ldconfig | awk '{ sub(/@.*/, "", $3); print $3 }' | sort -u >"$tmp/theirs"
[ -s "$tmp/theirs" ] || fail "the system's libraries have no functions"
for header in infiniband/verbs.h rdma/rdma_cma.h; do
	calls "$header" >"$tmp/calls"
	rows "$header" >"$tmp/rows"
	cut -d'|' -f1 "$tmp/rows" | sort >"$tmp/named"
	[ "$(wc -l <"$tmp/calls")" -ge 30 ] || fail "<$header> has only $(wc -l <"$tmp/calls") calls"
	diff "$tmp/calls" "$tmp/named" >"$tmp/diff" || { cat "$tmp/diff"; fail "<$header> (left) and doc/verbs.md (right) differ"; }
	while IFS='|' read -r call have tested; do
		is_tested "$call" "$tested" || fail "$call isn't tested by $tested"
		[ "$have" = yes ] || continue
		# Inline functions have no symbol; those that have one are the library's own.
		! grep -qx "$call" "$tmp/theirs" || grep -qx "$call" "$tmp/ours" ||
			fail "doc/verbs.md says that the device has $call(); the library has not"
	done <"$tmp/rows"
	say "<$header>: $(wc -l <"$tmp/rows") calls, $(grep -c '|yes|' "$tmp/rows") are there, $(grep -c '|not yet$' "$tmp/rows") of them not tested yet"
done
