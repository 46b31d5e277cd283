#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# An attacker on bare verbs: with and without authentication, in every phase of it, with
# a legitimate client's rkeys, their neighbours and guesses, with replayed handshakes;
# nothing of kvd's memory is read or changed.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
attack=$KVD_BUILD/tests/attack/attack
users=$tmp/users
(umask 077; kvd init --users "$users" >"$tmp/admin" 2>/dev/null) || fail "init"
for who in reader:read writer:write mallory:write; do
	(umask 077; "$KVD_BUILD/kvcli" user add "${who%:*}" "${who#*:}" --users "$users" >"$tmp/${who%:*}") ||
		fail "user add $who"
done
start_kvd --memory 16M --users "$users" --log-level debug --handshakes 0
for i in $(seq 40); do echo "put key$i value$i-$(head -c 200 /dev/zero | tr '\0' x)"; done |
	kvcli --credentials "$tmp/writer" >/dev/null || fail "put"

# quiet: kvd is through with who left.
quiet() { [ "$(kvcli --credentials "$tmp/admin" stats --json | flatten | awk '$1 == "connections" { print $2 }')" = 1 ]; }
snapshot() {
	wait_for quiet || fail "connections stay"
	"$attack" "$KVD_ADDR" snapshot "$tmp/writer" "$1" || fail "snapshot"
}
snapshot "$tmp/before"
grep -q value7- "$tmp/before" || fail "a snapshot without the values"
try() {
	say "$*"
	timeout 14400 "$attack" "$KVD_ADDR" "$@" || fail "attack $*"
	snapshot "$tmp/after"
	cmp "$tmp/before" "$tmp/after" || fail "memory was changed: attack $*"
}
try matrix "$tmp/writer" "$tmp/reader"
try replay "$tmp/writer"
# Each guess costs a connection. KVD_ATTACK_GUESSES: the whole campaign.
guesses=${KVD_ATTACK_GUESSES:-$(scaled $([ $soft = 1 ] && echo 3000 || echo 1000))}
processes=$([ $soft = 1 ] && echo 4 || echo 1)
[ "$guesses" -le 10000 ] || [ $soft = 0 ] || processes=32
SECONDS=0
try guess "$guesses" "${KVD_ATTACK_SEED:-1}" $processes "$tmp/writer"
say "$guesses guesses in $SECONDS s"
try guess "$(scaled 400)" 2 1 "$tmp/writer" "$tmp/reader"

# What the device says of the rights of each queue pair: none until the hello, then
# those of the role, READ (4) or READ and atomics (12), and never WRITE (2).
rights=$(sed -n 's/.*connection \([0-9]*\): its queue pair has the remote rights \(0x[0-9a-f]*\)$/\1 \2/p' "$kvd_log")
echo "$rights" | awk '
	$2 == "0x0" { none[$1] = 1 }
	$2 != "0x0" { some[$1]++ }
	$2 != "0x0" && $2 != "0x4" && $2 != "0xc" { bad = bad " " $0 }
	{ seen[$2]++ }
	END { for (c in some) if (!none[c] || some[c] > 1) bad = bad " " c }
	END { print "# rights:"; for (r in seen) print "#   " r ": " seen[r]
	      if (bad) { print "wrong:" bad; exit 1 }
	      if (!seen["0x0"] || !seen["0x4"] || !seen["0xc"]) { print "not all were seen"; exit 1 } }' ||
	fail "rights of queue pairs"
accepted=$(grep -c 'connection [0-9]* from .* on worker' "$kvd_log")
[ "$(echo "$rights" | awk '{ print $1 }' | sort -u | wc -l)" -ge "$accepted" ] || fail "queue pairs that were not asked"
say "$accepted queue pairs were asked"
[ "$(kvcli --credentials "$tmp/admin" stats --json | flatten | awk '$1 == "security.wrong_rights" { print $2 }')" = 0 ] ||
	fail "wrong rights"

# What of the regions the software device hands to a process. (It adds to a lock word.)
[ $soft = 0 ] || timeout 100 "$attack" "$KVD_ADDR" holdings "$tmp/writer" "$tmp/reader" ||
	fail "the device hands over more than the rights"
stop_kvd
