#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Users: kvd lets in whom its file names, as what it names them, and proves to be
# itself; the file and the credentials are refused where others can read them.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
users=$tmp/users
as() { local who=$1; shift; kvcli --credentials "$tmp/$who" "$@"; }
# add_user NAME ROLE
add_user() { (umask 077; "$KVD_BUILD/kvcli" user add "$1" "$2" --users "$users" >"$tmp/$1") || fail "add $1"; }

# The file.
(umask 077; kvd init --users "$users" --user boss >"$tmp/boss" 2>"$tmp/err") || fail "init"
says "--users"
expect 1 kvd init --users "$users"; says "there already"
expect 2 kvd init; says "--users"
expect 1 kvd init --users "$tmp/more" --user 'a b'; says "no name"
[ "$(command stat -c %a "$users")" = 600 ] || fail "mode of the users file"
[ "$(wc -l <"$tmp/boss")" = 1 ] || fail "credentials are one line"
secret=$(cut -d: -f3 "$tmp/boss")
! grep -qF "$secret" "$users" || fail "a user's secret is in the server's file"
add_user reader read
add_user writer write
expect 2 kvcli user add reader read --users "$users"; says "already"
expect 2 kvcli user add x nothing --users "$users"; says "usage"
expect 2 kvcli user remove nobody --users "$users"; says "no user nobody"
expect 2 kvcli user list; says "KVD_USERS_FILE"
KVD_USERS_FILE=$users expect 0 kvcli user list
[ "$(awk '{ print $1 $2 }' "$tmp/out" | tr '\n' ' ')" = "bossadmin readerread writerwrite " ] ||
	fail "user list: $(cat "$tmp/out")"

# kvd refuses a file that others can read, that is broken, or that is not there.
try_kvd() { timeout 60 "$KVD_BUILD/kvd" --listen "$KVD_TEST_ADDR:0" --memory 16M "$@"; }
for mode in 640 604 660 602; do
	chmod $mode "$users"
	expect 1 try_kvd --users "$users"; says "chmod 600"
done
chmod 600 "$users"
echo "user eve admin tooshort" >"$tmp/bad"; chmod 600 "$tmp/bad"
expect 1 try_kvd --users "$tmp/bad"; says "bad:1"
expect 1 try_kvd --users "$tmp/none"; says "none"
expect 1 try_kvd --users "$users" --insecure; says "exclude"
# A kvd of another user's has another's file: root edits it, and it stays theirs.
if [ "$(id -u)" = 0 ]; then
	cp "$users" "$tmp/his" && chown 65534:65534 "$tmp/his"
	expect 1 try_kvd --users "$tmp/his"; says "belongs to another user"
	expect 0 kvcli user add clerk read --users "$tmp/his"
	[ "$(command stat -c '%u %g %a' "$tmp/his")" = '65534 65534 600' ] || fail "whose is the users file now?"
fi
mkfifo -m 600 "$tmp/pipe"
expect 1 try_kvd --users "$tmp/pipe"; says "regular"
[ $soft = 1 ] || { expect 1 try_kvd; says "--insecure"; }

start_kvd --memory 64M --users "$users"
grep -q '3 users' "$kvd_log" || fail "kvd doesn't say who may come"

# Who is nobody, unknown, or has another's key.
expect 3 kvcli get key; says "credentials"
chmod 644 "$tmp/boss"; expect 2 as boss ping -n 1; says "chmod 600"; chmod 600 "$tmp/boss"
sed "s/boss/ghost/" "$tmp/boss" >"$tmp/ghost"; chmod 600 "$tmp/ghost"
begin=$(date +%s%N)
expect 3 as ghost ping -n 1; says "denied ghost"
[ $((($(date +%s%N) - begin) / 1000000)) -ge 900 ] || fail "a failure is answered at once"
sed "s/reader/boss/" "$tmp/reader" >"$tmp/thief"; chmod 600 "$tmp/thief"
expect 3 as thief ping -n 1; says "denied boss"
echo "kvd1:x" >"$tmp/short"; chmod 600 "$tmp/short"
expect 2 as short ping -n 1; says "credentials"

# Roles.
expect 0 as writer put key value
expect 0 as writer update key -- tr a-z A-Z
expect 0 as reader get key; prints "VALUE"
expect 0 as reader keys; prints "key
"
expect 0 as reader exists key
for command in "put key other" "del key" "lock key -- true" "update key -- cat" "flush --yes"; do
	# shellcheck disable=SC2086
	expect 3 as reader $command; says "role is read"
done
expect 3 as writer flush --yes; says "role is write"
expect 0 as reader get key; prints "VALUE"
# By the environment, too.
KVD_CREDENTIALS=$(cat "$tmp/boss") expect 0 kvcli put boss here
KVD_CREDENTIALS_FILE=$tmp/reader expect 0 kvcli get boss; prints "here"
expect 0 as boss flush --yes
as() { local who=$1; shift; "$KVD_BUILD/kvcli" -s "$KVD_ADDR" --credentials "$tmp/$who" "$@"; }
expect 0 as boss stats --json
denied=$(flatten <"$tmp/out" | awk '$1 == "security.denied" { print $2 }')
[ "$denied" = 2 ] || fail "denied: $denied"

# Another kvd of the same users but another secret is not the one.
sed 's/^server .*/server AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA/' "$users" >"$tmp/users2"
chmod 600 "$tmp/users2"
stop_kvd
start_kvd --memory 64M --users "$tmp/users2"
expect 3 as boss get key; says "denied boss"
stop_kvd
# And one without users proves nothing.
start_kvd --memory 64M
expect 3 as boss get key; says "can't prove"
expect 0 kvcli ping -n 1
stop_kvd
