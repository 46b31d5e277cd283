#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# tests/nightly/check with a list of its own: what passes, fails, hangs and is skipped is told so, and what
# hangs is ended with all that it started; it goes on where it was, and from the result where the
# content is the same; a commit without all of it is not good; figures of the result come into a page.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
requires python3 git
nightly=$KVD_SOURCE/tests/nightly
tree=$tmp/tree steps=$tmp/steps
export nap=$((2000000 + $$)) # one that nobody else takes

mkdir -p "$tree/tests" "$tree/doc"
cat "$KVD_SOURCE/tests/must" >"$tree/tests/must"
echo "skip nightly allowed it is*" >>"$tree/tests/must"
cat "$nightly/steps" >"$tmp/real"
cat >"$steps" <<'END'
# a comment
good       1     echo "READs per GET, warm            1.0000  <= 1.02       ok"; echo run >>runs
bad        1     echo "no such thing"; test -e mended
hangs      0.02  trap '' TERM; (set -m; sleep "$nap" & wait) & echo begun; sleep "$nap"
skipped    1     echo "it is Monday"; exit 77
allowed    1     echo "it is Monday"; exit 77
END
in_tree() { git -C "$tree" -c user.name=t -c user.email=t@t "$@"; }
printf '/runs\n/mended\n/build\n' >"$tree/.gitignore"
in_tree init -q && in_tree add . && in_tree commit -q -m one || fail "git"

# look STATUS ARG...: what it says in $tmp/said.
look() {
	local rc=0 want=$1
	KVD_NIGHTLY_GRACE_S=1 KVD_SOURCE=$tree timeout 100 python3 "$nightly/check" --steps "$steps" "${@:2}" >"$tmp/said" 2>&1 || rc=$?
	[ $rc = "$want" ] || { cat "$tmp/said"; fail "$*: status $rc, not $want"; }
}
said() { grep -qE -e "$1" "$tmp/said" || { cat "$tmp/said"; fail "doesn't say: $1"; }; }
runs() { [ "$(wc -l <"$tree/runs")" = "$1" ] || fail "$2: it ran $(wc -l <"$tree/runs") times, not $1"; }
naps() { pgrep -f "^sleep $nap\$"; }

look 1
said '^PASS: good '
said '^FAIL: bad .*: no such thing'
said '^FAIL: hangs \([1-9] s\): not over after 1 s'
said "^SKIP: skipped .*: it is Monday .which tests/must doesn't allow"
said '^SKIP: allowed .*: it is Monday$'
said '^2 of 5 steps have passed on [0-9a-f]{12}, not bad hangs skipped$'
runs 1 "the first time"
! naps || fail "what hangs goes on"

# It goes on: what has passed stays, what failed is tried again, by its name alone.
touch "$tree/mended"
look 0 good bad
said '^# good has passed on this commit'
said '^PASS: bad '
runs 1 "passed already"
look 0 --again good
runs 2 "--again"
look 2 nothing; said 'no step is called nothing'
look 0 --list; said '^hangs +0.02 min  timeout'

# The result.
look 1 --result "$tree/doc/nightly.jsonl"
said '3 of 5 steps have passed'
python3 - "$tree/doc/nightly.jsonl" "$(in_tree rev-parse HEAD)" <<'END' || fail "the result"
import json, sys
head, *steps = map(json.loads, open(sys.argv[1], encoding="utf-8"))
assert head["commit"] == sys.argv[2] and head["cores"] > 0, head
assert [s["result"] for s in steps] == ["pass", "pass", "timeout", "skip", "skip"], steps
assert steps[0]["figures"] == [["READs per GET, warm", "1.0000", "<= 1.02", "ok"]], steps[0]
assert all(s["seconds"] >= 0 for s in steps)
END

# Another machine has the result alone, whose own commit is of the same content: what passed is not run
# again there, what did not is. Of another content it says nothing, and one that is torn is told.
in_tree add doc/nightly.jsonl && in_tree commit -q -m result || fail "git"
mv "$tree/build" "$tmp/here"
look 1 good hangs
said '^# good has passed on this commit'
said '^FAIL: hangs '
runs 2 "passed on another machine"
mv "$tree/doc/nightly.jsonl" "$tmp/whole"
head -c 300 "$tmp/whole" >"$tree/doc/nightly.jsonl"
rm -r "$tree/build"
look 2 --list; said 'doc/nightly.jsonl is no result'
sed 's/"content": "[0-9a-f]*"/"content": "0"/' "$tmp/whole" >"$tree/doc/nightly.jsonl"
look 0 --list; said '^good +1 min  -'
mv "$tmp/whole" "$tree/doc/nightly.jsonl"
mv "$tmp/here" "$tree/build"

# Figures of it in a page: what was there stays where nothing is known.
engine='{"step": "engine", "content": "7a00000000000000000000000000000000000000", "begun": 1767323045, "cores": 2, "result": "pass", "seconds": 1, "load": 0.5, "figures": [["READs per GET", "1.0000", "<= 1.02", "ok"], ["PUT p50", "1.31", "<= 1.3", "MISSED"]]}'
printf '{"commit": "%040d", "date": "2026-01-02T03:04:05Z", "cores": 2}\n%s\n' 7 "$engine" >"$tmp/result"
printf '%s\n' before '<!-- nightly: engine -->' old '<!-- nightly: end -->' '<!-- nightly: sizes -->' kept '<!-- nightly: end -->' >"$tmp/page"
python3 "$nightly/figures" "$tmp/result" "$tmp/page" >"$tmp/said" 2>&1 || { cat "$tmp/said"; fail "figures"; }
grep -qxF '| READs per GET | 1.0000 | <= 1.02 |' "$tmp/page" || { cat "$tmp/page"; fail "no row of the engine"; }
grep -qxF '| PUT p50 | **1.31** | <= 1.3 |' "$tmp/page" || { cat "$tmp/page"; fail "a goal that is missed is not seen"; }
grep -qx kept "$tmp/page" && ! grep -qx old "$tmp/page" && grep -q 'load average of 0.5' "$tmp/page" || { cat "$tmp/page"; fail "the page"; }
python3 "$nightly/figures" --check "$tmp/result" "$tmp/page" || fail "the page is not what it was made"
grep -q '^Measured 2026-01-02, 2 cores, .* content 7a0000000000\.$' "$tmp/page" || { cat "$tmp/page"; fail "when, and of what"; }
sed 1s/00/01/ "$tmp/result" >"$tmp/later"
python3 "$nightly/figures" --check "$tmp/later" "$tmp/page" || fail "another commit of the same content makes another page"
sed -i 's/1\.0000/0.9000/' "$tmp/page"
! python3 "$nightly/figures" --check "$tmp/result" "$tmp/page" >"$tmp/said" || fail "a figure made by hand is not seen"

# What a step said that failed is no figure of the page.
sed -i 's/"result": "pass"/"result": "fail"/; s/"1\.0000"/"2.0000"/' "$tmp/result"
python3 "$nightly/figures" "$tmp/result" "$tmp/page" >"$tmp/said" 2>&1 && grep -q 0.9000 "$tmp/page" || { cat "$tmp/page"; fail "figures of a step that failed"; }

# Ratios of exchanges, with and without a goal.
python3 - "$nightly/figures" <<'END' || fail "figures of exchanges"
import importlib.machinery, importlib.util, sys
loader = importlib.machinery.SourceFileLoader("figures", sys.argv[1])
figures = importlib.util.module_from_spec(importlib.util.spec_from_loader("figures", loader))
loader.exec_module(figures)
rows = [["PUTs", "1", "2", "0.5 (0.1 to 9)", ">= 1", "MISSED"], ["GETs", "2", "2", "1.0 (1 to 2)", "-", "no goal"]]
made = figures.exchange([["# 2 processors", "4"], *rows])
assert made[2:] == ["| PUTs | **0.5** (0.1 to 9) | >= 1 |", "| GETs | 1.0 (1 to 2) |  |"], made
assert not figures.exchange([["median", "2", "1", "3.5 (1 to 9)", "no goal"]])
END

# A tree with changes has no commit; another commit begins anew.
echo more >>"$tree/tests/must"
look 2 good; said 'commit them first'
in_tree commit -q -a -m two
look 0 good
runs 3 "another commit"

# What a step does not look at is nothing to it; its command is, and so is each file below its paths.
mkdir "$tree/part" && echo one >"$tree/part/file" && in_tree add part && in_tree commit -q -m part || fail "git"
scoped() {
	printf '%s\n' 'paths some: part' 'looks partly: @some' "partly 1 echo run >>runs$1" 'whole 1 true' >"$steps"
}
scoped ''
look 0
runs 4 "a step of its own paths"
echo other >>"$tree/tests/must" && in_tree commit -q -a -m other || fail "git"
look 0
said '^# partly has passed on this commit'; said '^PASS: whole '
runs 4 "it does not look at what changed"
echo two >"$tree/part/file" && in_tree commit -q -a -m two-parts || fail "git"
look 0
runs 5 "what it looks at changed"
scoped ' #'
look 0
runs 6 "its command changed"
echo 'looks whole: nowhere' >>"$steps"; look 2; said 'whole looks at nowhere, which is not in the tree'
scoped ''; echo 'looks nobody: part' >>"$steps"; look 2; said 'nobody, which is no step'
scoped ''; echo 'looks whole: @none' >>"$steps"; look 2; said "not 'paths NAME: PATH...'"

# A goal that the list knows to be missed, within its bound, is told apart; another, a worse one, or a
# command that ends before it has counted them has failed.
misses() {
	printf '%s\n' "near 1 echo \"PUTs a second  3  9  $1 (0.1 to 0.9)  >= 0.5  MISSED\"; $2" 'misses near >= 0.2 PUTs a second' >"$steps"
}
misses 0.3 'echo goals missed: 1; exit 1'
look 0 near
said '^MISS: near .*: goals missed: 1$'
said '^1 of 1 steps have passed on [0-9a-f]{12} .1 goals missed, as the list says: near: PUTs a second 0.3 .>= 0.5..$'
look 0 near; said '^# near has missed its goals as the list says on this commit'
look 0 --result "$tmp/one"; said '1 of 1 steps have passed .1 goals missed'
sed -i 's/>= 0.2/>= 0.4/' "$steps"
look 1 near; said '^FAIL: near '
for case in '0.1|echo goals missed: 1; exit 1' '0.3|echo goals missed: 2; exit 1' '0.3|exit 1' '0.3|echo goals missed: 1; exit 2' \
	'none|echo goals missed: 1; exit 1' '0.3|echo "GETs  9  >= 10  MISSED"; echo goals missed: 2; exit 1'; do
	misses "${case%%|*}" "${case#*|}"
	look 1 near; said '^FAIL: near '
done
# A command that does not count them is counted, if it came to its end.
counted() { misses 0.3 true; sed -i "1s|^near 1 \\(.*\\); true|near 1 $KVD_SOURCE/tests/nightly/counted $1 sh -c '\\1; $2'|" "$steps"; }
for case in '2 exit 1' '1 exit 2' '1 echo GETs ok; exit 1'; do
	counted "${case%% *}" "${case#* }"
	look 1 near; said '^FAIL: near '
done
counted 1 'exit 1'
look 0 near; said '^MISS: near .*: goals missed: 1$'
echo 'misses nobody >= 1 GETs' >>"$steps"; look 2; said "not 'misses STEP COMPARISON BOUND FIGURE'"
misses 0.3 true; sed -i 's/misses near >=/misses near about/' "$steps"; look 2; said "not 'misses STEP"

# Parts of one figure are judged together, once all are known.
shares() {
	printf '%s\n' "one 1 echo '$1 of 50 alive: so many'" "two 1 echo '$2 of 50 alive: so many'" 'alone 1 echo 9 of 9 alive: who' \
		'shares one two: 0.05 alive' >"$steps"
}
shares 3 3
look 0 one; said '^1 of 1 steps have passed on [0-9a-f]{12}; 3 of 50 alive, at most 5%$'
look 1; said '; 6 of 100 alive, at most 5%, not one two$'
shares 4 1
look 0; said '^3 of 3 steps have passed on [0-9a-f]{12}; 5 of 100 alive, at most 5%$'
look 0 --result "$tmp/one"; said '3 of 3 steps have passed; 5 of 100 alive'
shares 4 2
look 1 --again; said '; 6 of 100 alive, at most 5%, not one two$'
look 1 --result "$tmp/one"; said '1 of 3 steps have passed'
for line in 'shares one nobody: 0.05 alive' 'shares one two: alive' 'shares one two: 1 2 alive' 'shares one two: x alive'; do
	shares 1 1; echo "$line" >>"$steps"; look 2; said "not 'shares STEP...: BOUND WORD'"
done

# A step is told of which content it is.
echo 'content 1 echo "# $KVD_CONTENT"' >"$steps"
look 0
look 0 --result "$tmp/one"
python3 - "$tmp/one" <<'END' || fail "KVD_CONTENT"
import json, sys
_, step = map(json.loads, open(sys.argv[1], encoding="utf-8"))
assert len(step["content"]) == 40 and step["figures"] == [["# " + step["content"]]], step
END

# A commit in the middle: what comes behind is none of it.
printf '%s\n' 'moves 1 echo more >>tests/must; git -c user.name=t -c user.email=t@t commit -q -a -m three' 'behind 1 true' >"$steps"
look 2; said '^PASS: moves'; said 'of another commit by now'

# Nobody's list.
echo 'moves 1 true' >>"$steps"; look 2; said 'there is a step moves already'
echo 'Bad' >"$steps"; look 2; said 'not NAME MINUTES COMMAND'
# And the real one: each command's program is there, and each target of make.
steps=$tmp/real
look 0 --list
[ "$(wc -l <"$tmp/said")" -ge 30 ] || fail "the list is short"
for path in $(grep -E '^(paths|looks) ' "$tmp/real" | sed 's/.*://'); do
	[ "${path#@}" != "$path" ] || [ -e "$KVD_SOURCE/$path" ] || fail "tests/nightly/steps: there is no $path"
done
for program in $(sed '/^paths\|^looks\|^misses\|^shares/d; s/make [^&;]*//' "$tmp/real" | grep -oE '(\./runtests|tests|bench)(/[a-z]+)* ' | sort -u); do
	[ -x "$KVD_SOURCE/$program" ] || fail "tests/nightly/steps: there is no $program"
done
# Each harness of make fuzz is in one of the parts.
harnesses=$(sed -n 's/^\[ \$# -gt 0 \] || set -- //p' "$KVD_SOURCE/tests/fuzz/run" | tr ' ' '\n' | sort)
parts=$(sed -nE 's|^fuzz-[a-z0-9]+ +[0-9]+ +tests/fuzz/run ([a-z ]+)$|\1|p' "$tmp/real" | tr ' ' '\n' | sort)
[ -n "$harnesses" ] && [ "$parts" = "$harnesses" ] || fail "tests/nightly/steps fuzzes '$parts' of '$harnesses'"
for target in $(grep -v '^#' "$tmp/real" | grep -oE '(check|bench)-[a-z]+' | sort -u); do
	grep -q "^$target:" "$KVD_SOURCE/Makefile.am" || fail "tests/nightly/steps: there is no target $target"
done
