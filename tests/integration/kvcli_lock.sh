#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvcli lock and update: what runs under the lock, its status, and a lock that is lost.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 64M --lease 300

# -------------------------------------------------------------------- status
expect 0 kvcli lock key -- true
expect 7 kvcli lock key -- sh -c 'exit 7'
expect 143 kvcli lock key -- sh -c 'kill -TERM $$'
expect 127 kvcli lock key -- no-such-command
says 'no-such-command'
expect 126 kvcli lock key -- "$tmp"
expect 2 kvcli lock key
says 'missing'
expect 2 kvcli lock key ls -l
says '-- before'
expect 2 kvcli lock key --timeout 5m -- true
says 'wants a time'
expect 0 kvcli lock key -- sh -c 'cat; echo out; echo err >&2' <<<in
prints $'in\nout\n'
says err

# It has no descriptor of kvcli's, and the signals that kvcli came with: the test itself may
# have been started with some that are ignored.
expect 0 bash -c 'cd /proc/$$/fd; echo *'
cp "$tmp/out" "$tmp/fds"
expect 0 kvcli lock key -- bash -c 'cd /proc/$$/fd; echo *'
cmp -s "$tmp/out" "$tmp/fds" || fail "descriptors leak: $(cat "$tmp/out"), and without $(cat "$tmp/fds")"
same_signals() {
	expect 0 grep SigIgn /proc/self/status
	cp "$tmp/out" "$tmp/signals"
	expect 0 kvcli lock key -- grep SigIgn /proc/self/status
	[ $(($(ignored "$tmp/out") & 0x7fffffff)) = $(($(ignored "$tmp/signals") & 0x7fffffff)) ] ||
		fail "other signals are ignored: $(cat "$tmp/out"), and without $(cat "$tmp/signals")"
}
# Its mask; bits 31 and 32 are the C library's own.
ignored() { awk '{ print "0x" $2 }' "$1"; }
same_signals
(
	trap '' HUP
	same_signals
	[ $(($(ignored "$tmp/out") & 1)) = 1 ]
) || fail "an ignored signal is not left so"

# Somebody who may write takes it away, behind everybody's back: kvcli tells at the end.
attack=$KVD_BUILD/tests/attack/attack
expect 3 kvcli lock key -- "$attack" "$KVD_ADDR" unlock - key
grep -q 'the lock was taken away' "$tmp/out" || fail "the attack did nothing: $(cat "$tmp/out" "$tmp/err")"
says 'the lock was lost while the command ran'
says 'broke the lock'
expect 0 kvcli lock key -- true

# --------------------------------------------------------------- who waits
# hold COMMAND: runs it under the lock, in the background; sets $pid.
hold() {
	rm -f "$tmp/held"
	start kvcli lock key -- sh -c ": >'$tmp/held'; $1" 2>"$tmp/hold.err"
	wait_for [ -e "$tmp/held" ] || fail "the lock isn't got"
}
hold "while [ -e '$tmp/held' ] && [ ! -e '$tmp/let-go' ]; do sleep 0.05; done"
expect 3 kvcli lock key --timeout 0 -- true
says 'somebody else holds the lock'
expect 3 kvcli lock key --timeout 100ms -- touch "$tmp/ran"
says 'not free within 100 ms'
[ ! -e "$tmp/ran" ] || fail "it ran without the lock"
expect 1 kvcli get key
touch "$tmp/let-go"
expect 0 kvcli lock key -- true
wait_exit "$pid"
[ "$status" = 0 ] || fail "the holder ended with $status: $(cat "$tmp/hold.err")"

# Longer than the lease while another waits: cut off, and told so.
rm "$tmp/let-go"
hold "while [ -e '$tmp/held' ] && [ ! -e '$tmp/let-go' ]; do sleep 0.05; done"
expect 0 kvcli lock key -- true
touch "$tmp/let-go"
wait_exit "$pid"
[ "$status" = 3 ] || fail "the lock was lost, and the status $status"
grep -q 'lock was lost' "$tmp/hold.err" || fail "it doesn't say so: $(cat "$tmp/hold.err")"

# A signal goes to the command, which ends as it likes; the lock is held until then.
hold 'trap "exit 9" TERM; while :; do sleep 0.05; done'
kill -TERM "$pid"
wait_exit "$pid"
[ "$status" = 9 ] || fail "SIGTERM was not passed on: $status"
expect 0 kvcli lock key --timeout 0 -- true

# -------------------------------------------------------------------- update
expect 0 kvcli update none -- wc -c
expect 0 kvcli get none
prints 0
# A counter stays a counter; what had a line end keeps one; text is what the filter wrote.
expect 0 kvcli update none -- awk '{ n = $1 } END { print n - 41 }'
expect 0 kvcli incr none
prints $'-40\n'
expect 0 kvcli put lines $'7\n'
expect 0 kvcli update lines -- awk '{ print $1 + 1 }'
expect 0 kvcli get lines
prints $'8\n'
expect 0 kvcli put lines text
expect 0 kvcli update lines -- awk '{ print }'
expect 0 kvcli get lines
prints $'text\n'
expect 0 kvcli put lines 1
expect 0 kvcli update lines -- printf '1\n2\n'
expect 0 kvcli get lines
prints $'1\n2\n'
expect 0 kvcli put lines 1
expect 0 kvcli update lines -- echo
expect 0 kvcli get lines
prints $'\n'
expect 0 kvcli put key abc
expect 0 kvcli update key -- tr a-z A-Z
prints ''
expect 0 kvcli get key
prints ABC
expect 5 kvcli update key -- sh -c 'echo half; exit 5'
says 'nothing was stored'
expect 127 kvcli update key -- no-such-command
expect 0 kvcli get key
prints ABC
expect 0 kvcli update key -- true
expect 0 kvcli get key
prints ''

# Larger than any buffer of a pipe, written before all is read, and read by none.
head -c 3000000 /dev/urandom >"$tmp/large"
expect 0 kvcli put large --file "$tmp/large"
expect 0 kvcli update large -- sh -c "cat '$tmp/large' -"
cat "$tmp/large" "$tmp/large" >"$tmp/twice"
expect 0 kvcli get large --output "$tmp/back"
cmp "$tmp/back" "$tmp/twice" || fail "a large value"
expect 0 kvcli update large -- echo small
expect 0 kvcli get large
prints $'small\n'

# Longer than the lease: nothing is stored.
expect 0 kvcli put key old
rm -f "$tmp/held" "$tmp/let-go"
start kvcli update key -- sh -c ": >'$tmp/held'; while [ -e '$tmp/held' ] && [ ! -e '$tmp/let-go' ]; do sleep 0.05; done; echo late" 2>"$tmp/hold.err"
updater=$pid
wait_for [ -e "$tmp/held" ] || fail "the filter doesn't run"
expect 0 kvcli update key -- echo new
touch "$tmp/let-go"
wait_exit "$updater"
[ "$status" = 3 ] || fail "an update whose lock was lost ended with $status"
grep -q 'lock' "$tmp/hold.err" || fail "it doesn't say so: $(cat "$tmp/hold.err")"
expect 0 kvcli get key
prints $'new\n'

# Many at once lose nothing.
rounds=$(scaled 20)
for ((w = 0; w < 4; w++)); do
	start bash -c "for ((i = 0; i < $rounds; i++)); do '$KVD_BUILD/kvcli' -s $KVD_ADDR update count -- awk '{ n = \$1 } END { print n + 1 }' || exit 1; done"
	workers[w]=$pid
done
for pid in "${workers[@]}"; do
	wait_exit "$pid"
	[ "$status" = 0 ] || fail "an updater failed"
done
expect 0 kvcli get count
prints "$((4 * rounds))"

# A flush waits for a locked key, and says so if that takes too long.
rm -f "$tmp/held" "$tmp/let-go"
expect 0 kvcli put locked value
start kvcli lock locked -- sh -c ": >'$tmp/held'; while [ -e '$tmp/held' ] && [ ! -e '$tmp/let-go' ]; do sleep 0.05; done"
holder=$pid
wait_for [ -e "$tmp/held" ] || fail "no lock"
expect 3 kvcli --timeout 100ms flush --yes
says "a key stayed locked"
expect 3 kvcli update locked --timeout 0 -- echo other
prints ''
expect 0 kvcli get locked
prints "value"
touch "$tmp/let-go"
wait_exit "$holder"
expect 0 kvcli flush --yes
[ -z "$(kvcli keys)" ] || fail "flush left keys"

# --------------------------------------------------------------------- batch
printf '%s\n' 'put b 1' 'lock b -- cat' 'lock b -- sh -c "exit 4"' 'update b -- sed s/1/2/' 'get b' \
	>"$tmp/commands"
expect 4 kvcli <"$tmp/commands"
prints $'OK\nOK\nERROR the command ended with status 4\nOK\n2\n'
stop_kvd
