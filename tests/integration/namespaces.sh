#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Namespaces: tables of one kvd that share nothing. Keys, memory, users, rkeys, locks,
# folders on disk and figures are each one's own; who may be in one is nobody in another.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
attack=$KVD_BUILD/tests/attack/attack
in_space() { local space=$1; shift; "$KVD_BUILD/kvcli" -s "$KVD_ADDR/$space" "$@"; }

# What --namespace takes.
wrong() { expect "$1" timeout 60 "$KVD_BUILD/kvd" --listen "$KVD_TEST_ADDR:0" --namespace "$2"; says "$3"; }
wrong 2 photos "begins with a name"
wrong 2 ../photos:memory=64M "begins with a name"
wrong 2 photos: "NAME=VALUE"
wrong 2 photos:workers=1 "how much memory"
wrong 2 photos:memory=much "is not a size"
wrong 2 photos:memory=64M,userz=x "users"
wrong 1 "photos:memory=64M,users=$tmp/none" "--users FILE"
printf 'memory = 64M\nnamespace = photos:memory=32M\nnamespace = music:memory=16M\n' >"$tmp/conf"
expect 0 kvd --check-config --config "$tmp/conf"

# Without users: keys and memory apart; a namespace that is none is refused, and says so.
start_kvd --config "$tmp/conf" --namespace music:memory=32M,workers=2
grep -q 'namespace music: 32 MiB of memory, 2 workers' "$kvd_log" || fail "the command line does not win"
expect 0 kvcli put key default
expect 0 in_space photos put key photo
expect 1 in_space music get key
expect 0 in_space photos get key; prints photo
expect 0 kvcli get key; prints default
KVD_NAMESPACE=photos expect 0 kvcli get key; prints photo
KVD_NAMESPACE=music expect 0 in_space photos get key; prints photo
expect 3 in_space papers get key; says "no such namespace"
expect 2 in_space ../x get key; says "no name of a namespace"
expect 0 in_space photos stats --json
[ "$(flatten <"$tmp/out" | awk '$1 == "namespace" { print $2 }')" = photos ] || fail "stats have no namespace"
# One is full, others are not.
head -c 1000000 /dev/zero >"$tmp/value"
for i in $(seq 40); do echo "put -f $tmp/value big$i"; done | in_space photos >"$tmp/full" 2>&1
grep -q 'no memory for this value' "$tmp/full" || { tail -3 "$tmp/full"; fail "photos took 40 MB into 32 MiB"; }
expect 0 in_space music put big -f "$tmp/value"
expect 0 kvcli put big -f "$tmp/value"
expect 0 in_space photos get key; prints photo
# Locks are of one table.
start "$KVD_BUILD/kvcli" -s "$KVD_ADDR/photos" lock key -- sh -c "touch $tmp/held; until [ -e $tmp/let ]; do sleep 0.05; done"
holder=$pid
held() { [ -e "$tmp/held" ]; }
wait_for held || fail "no lock"
expect 0 kvcli put key other
expect 0 in_space music put key other
touch "$tmp/let"; wait_exit "$holder"
expect 0 in_space photos flush --yes
expect 0 kvcli get key; prints other
stop_kvd

# With users: each namespace its own; nobody learns from outside which there are.
umask 077
user() { local file=$1; shift; "$KVD_BUILD/kvcli" user "$@" --users "$tmp/$file"; }
for space in default a b; do
	kvd init --users "$tmp/users.$space" >"$tmp/admin.$space" 2>/dev/null || fail "init"
	user users.$space add writer write >"$tmp/writer.$space" || fail "user add"
done
expect 1 timeout 60 "$KVD_BUILD/kvd" --listen "$KVD_TEST_ADDR:0" --memory 16M --users "$tmp/users.default" \
	--namespace a:memory=16M
says "users=FILE"
# A connection counts until the device gave back what it had, on Soft-RoCE up to a second.
room=40
[ $soft = 1 ] || room=400
start_kvd --memory 16M --users "$tmp/users.default" --handshakes 0 --metrics 127.0.0.1:0 \
	--namespace "a:memory=16M,users=$tmp/users.a,connections=$room" --namespace "b:memory=16M,users=$tmp/users.b"
as() { local who=$1 space=$2; shift 2; "$KVD_BUILD/kvcli" -s "$KVD_ADDR${space:+/$space}" --credentials "$tmp/$who" "$@"; }
expect 0 as writer.a a put key of-a
expect 0 as writer.b b put key of-b
expect 0 as writer.default "" put key of-nobody
expect 0 as writer.a a get key; prints of-a
denied() {
	local begin
	begin=$(date +%s%N)
	expect 3 as "$1" "$2" get key; says "denied writer"
	[ $((($(date +%s%N) - begin) / 1000000)) -ge 900 ] || fail "denied at once: $1 in '$2'"
	words=$(sed 's/at [^ ]* denied/denied/' "$tmp/err")
}
# A user of one in another, and one who asks for a namespace that there is not: the same words.
denied writer.a b
of_b=$words
denied writer.a nowhere
[ "$words" = "$of_b" ] || fail "the answers differ"
denied writer.a ""
denied writer.default a
denied writer.default nowhere

# An attacker: the rkeys of one on a queue pair of another, proofs for one at the other's door.
quiet() { [ "$(as "admin.$1" "${1#default}" stats --json | flatten | awk '$1 == "connections" { print $2 }')" = 1 ]; }
snapshot() {
	wait_for quiet "$1" || fail "connections stay"
	"$attack" "$KVD_ADDR/$1" snapshot "$tmp/writer.$1" "$2" || fail "snapshot"
}
snapshot b "$tmp/before"
grep -q of-b "$tmp/before" || fail "a snapshot without the value"
timeout 300 "$attack" "$KVD_ADDR/a" across "$KVD_ADDR/b" "$tmp/writer.a" "$tmp/writer.b" || fail "across namespaces"
snapshot b "$tmp/after"
cmp "$tmp/before" "$tmp/after" || fail "memory of b was changed from a"

# A user removed from one is cut off there, and nobody else is.
user users.a remove writer >/dev/null || fail "remove"
revoked() { grep -q 'new rkeys' "$kvd_log"; }
wait_for revoked || fail "a change of a namespace's users is not seen"
denied writer.a a
expect 0 as writer.b b get key; prints of-b
expect 0 as admin.a a get key; prints of-a

# Figures: one family, a line for each.
url=$(sed -n 's/.*metrics at \(.*\)/\1/p' "$kvd_log")
if [ -n "$url" ] && command -v curl >/dev/null; then
	curl -sf "$url" >"$tmp/metrics" || fail "metrics"
	for line in 'kvd_keys 1' 'kvd_keys{namespace="a"} 1' 'kvd_keys{namespace="b"} 1' \
		"kvd_connections_limit{namespace=\"a\"} $room"; do
		grep -qxF "$line" "$tmp/metrics" || { grep kvd_keys "$tmp/metrics"; fail "no line $line"; }
	done
	grep -q '^kvd_requests_total{namespace="a",op="put"} ' "$tmp/metrics" || fail "labels beside others"
	[ "$(grep -c '^# TYPE kvd_keys ' "$tmp/metrics")" = 1 ] || fail "a family twice"
	awk -f "$KVD_SOURCE/tests/lib/prometheus.awk" "$tmp/metrics" || fail "not Prometheus' format"
fi
stop_kvd

# On disk: each its folder, each its backup.
"$KVD_BUILD/kvd" --version | grep -q 'durability: yes' || { say "built without RocksDB: nothing on disk"; exit 0; }
start_durable() { start_kvd --memory 16M --data-dir "$1" --namespace a:memory=16M --namespace b:memory=16M; }
start_durable "$tmp/data"
expect 0 kvcli put key default
expect 0 in_space a put key of-a
expect 0 in_space b put key of-b
expect 0 in_space a backup "$tmp/backup.a"
kill_kvd
[ -d "$tmp/data/namespaces/a" ] || fail "no folder of its own"
start_durable "$tmp/data"
expect 0 kvcli get key; prints default
expect 0 in_space a get key; prints of-a
expect 0 in_space b get key; prints of-b
stop_kvd
# The backup of a becomes b.
rm -rf "$tmp/data/namespaces/b"
cp -r "$tmp/backup.a" "$tmp/data/namespaces/b"
start_durable "$tmp/data"
expect 0 in_space b get key; prints of-a
expect 0 kvcli get key; prints default
stop_kvd
