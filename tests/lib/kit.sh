# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The kit of the integration tests: each sources it first. It ends what it
# started and removes what it made, whichever way the test ends.
#
# From outside, all optional:
#   KVD_BUILD        the build folder (build/default)
#   KVD_TEST_ADDR    address that kvd listens on (127.0.0.1)
#   KVD_TEST_DEVICE  its --device (none: by the address)
#   KVD_TEST_CLIENT_DEVICE  that of kvcli (none: by the address)
#   KVD_TEST_SCALE   size of the test in per cent (100)
# For the test: $tmp, a folder of its own; $soft, 1 on the software device.

set -u
KVD_SOURCE=${KVD_SOURCE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)}
KVD_BUILD=${KVD_BUILD:-$KVD_SOURCE/build/default}
KVD_TEST_ADDR=${KVD_TEST_ADDR:-127.0.0.1}
KVD_TEST_DEVICE=${KVD_TEST_DEVICE-}
KVD_TEST_CLIENT_DEVICE=${KVD_TEST_CLIENT_DEVICE-}
KVD_TEST_SCALE=${KVD_TEST_SCALE:-100}
KVD_ADDR='' KVD_PID='' kvd_log=''
unset SOFTVERBS_FAULT SOFTVERBS_FAULT_LOG SOFTVERBS_DEVICES SOFTVERBS_DOWN KVD_CREDENTIALS KVD_CREDENTIALS_FILE KVD_USERS_FILE KVD_NAMESPACE KVD_SERVER

case $KVD_TEST_DEVICE,$KVD_TEST_ADDR in
soft,* | ,127.* | ,::1) soft=1 ;;
*) soft=0 ;;
esac

# How long what should take a moment may take, on a busy or emulated machine.
patience_s=60

tmp=$(mktemp -d "${TMPDIR:-/tmp}/kvd-test.XXXXXX") || exit 99
cleanup_fns=() started_pids=() kvd_count=0

# ------------------------------------------------------------- how tests end

say() { echo "# $*"; }

fail() {
	echo "FAILED: $*"
	[ -z "$kvd_log" ] || { echo "--- the last kvd said"; tail -n 20 "$kvd_log"; }
	exit 1
}

skip() { echo "skipped: $*"; exit 77; }

# requires COMMAND...
requires() {
	local c
	for c in "$@"; do
		command -v "$c" >/dev/null || skip "$c is not installed"
	done
}

# kvd can keep its data on disk.
requires_durability() {
	"$KVD_BUILD/kvd" --version | grep -q 'durability: yes' || skip "kvd was built without RocksDB"
}

# cleanup_fn COMMAND ARG...: run at the end, last one first.
cleanup_fn() { cleanup_fns+=("$(printf '%q ' "$@")"); }

clean_up() {
	local rc=$? i pid
	trap - EXIT INT TERM
	for ((i = ${#cleanup_fns[@]} - 1; i >= 0; i--)); do
		eval "${cleanup_fns[i]}"
	done
	for pid in ${started_pids[@]+"${started_pids[@]}"}; do
		# Waited for already? Then the number may be somebody else's by now.
		[ "$(parent_of "$pid")" = $$ ] || continue
		kill -KILL "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
	done
	rm -rf "$tmp"
	exit $rc
}
trap clean_up EXIT
trap 'exit 1' INT TERM

# ------------------------------------------------------------------ processes

parent_of() {
	local stat
	read -r stat 2>/dev/null <"/proc/$1/stat" || return 0
	stat=${stat##*) ? }
	echo "${stat%% *}"
}

# alive PID: it runs (a zombie doesn't).
alive() {
	local stat
	read -r stat 2>/dev/null <"/proc/$1/stat" || return 1
	case ${stat##*) } in
	Z* | X*) return 1 ;;
	esac
}

gone() { ! alive "$1"; }

# start COMMAND ARG...: in the background, ended with the test; sets $pid, which
# is kvcli's own where that is the command.
start() {
	[ "$1" != kvcli ] || set -- "$KVD_BUILD/kvcli" -s "$KVD_ADDR" \
		${KVD_TEST_CLIENT_DEVICE:+--device "$KVD_TEST_CLIENT_DEVICE"} "${@:2}"
	"$@" <&0 & # else it would get /dev/null
	pid=$!
	started_pids+=("$pid")
}

# nap SECONDS: without a process, which would take longer than most naps.
exec {nap_fd}<> <(:) # nobody writes into it
nap() { read -r -t "$1" -u "$nap_fd"; }

# wait_for COMMAND ARG...: until it is true; false after $patience_s. The longer, the less often it asks.
wait_for() {
	local end=$((SECONDS + patience_s)) ms=20
	until "$@"; do
		[ $SECONDS -lt $end ] || return 1
		nap 0.0$ms
		[ $ms -ge 95 ] || ms=$((ms + 5))
	done
}

# wait_exit PID: sets $status to its exit status; a test fails whose process
# doesn't end.
wait_exit() {
	wait_for gone "$1" || fail "process $1 doesn't end"
	wait "$1" 2>/dev/null # it would tell of a killed one
	status=$?
}

# ------------------------------------------------------------------- programs

kvd() { "$KVD_BUILD/kvd" "$@"; }

# To the kvd that was started last.
kvcli() {
	"$KVD_BUILD/kvcli" -s "$KVD_ADDR" ${KVD_TEST_CLIENT_DEVICE:+--device "$KVD_TEST_CLIENT_DEVICE"} "$@"
}

kvd_ready_or_gone() { [ -s "$ready_file" ] || gone "$KVD_PID"; }

# start_kvd ARG...: sets KVD_ADDR, KVD_PID, kvd_log. A second one is independent
# of the first.
start_kvd() {
	launch_kvd "$@"
	wait_for kvd_ready_or_gone || fail "kvd doesn't get ready"
	[ -s "$ready_file" ] || fail "kvd doesn't start"
	KVD_ADDR=$(cat "$ready_file")
	export KVD_ADDR
}

# Without users kvd serves nobody else's machine, unless it is told to.
insecure() {
	[ $soft = 0 ] || return 0
	case " $* " in
	*' --users '* | *' --insecure '*) ;;
	*) echo --insecure ;;
	esac
}

# The same without waiting.
launch_kvd() {
	kvd_count=$((kvd_count + 1))
	kvd_log=$tmp/kvd.$kvd_count.log
	ready_file=$tmp/ready.$kvd_count
	# shellcheck disable=SC2046 # one word or none
	start "$KVD_BUILD/kvd" --listen "$KVD_TEST_ADDR:0" --ready-file "$ready_file" $(insecure "$@") \
		${KVD_TEST_DEVICE:+--device "$KVD_TEST_DEVICE"} "$@" 2>"$kvd_log"
	KVD_PID=$pid
	export KVD_PID
}

# Whether kvd was built with a sanitizer, whose own memory says nothing of kvd's.
is_sanitized() { nm "$KVD_BUILD/kvd" 2>/dev/null | grep -q -m 1 -e __asan_init -e __tsan_init; }

# What a sanitizer found in a program is a failure, however it ended.
check_log() {
	! grep -m 3 -A 60 -E 'Sanitizer|runtime error:' "$1" || fail "a sanitizer reported something"
}

# stop_kvd: SIGTERM; it must exit with 0.
stop_kvd() {
	kill -TERM "$KVD_PID"
	wait_exit "$KVD_PID"
	check_log "$kvd_log"
	[ "$status" = 0 ] || fail "kvd ended with $status"
}

kill_kvd() {
	kill -KILL "$KVD_PID"
	wait_exit "$KVD_PID"
	check_log "$kvd_log"
}

# ---------------------------------------------------------------------- checks

# expect STATUS COMMAND ARG...: runs it with its output in $tmp/out and $tmp/err.
expect() {
	local want=$1
	shift
	status=0
	"$@" >"$tmp/out" 2>"$tmp/err" || status=$?
	[ "$status" = "$want" ] || {
		cat "$tmp/out" "$tmp/err"
		fail "status $status where $want was expected: $*"
	}
}

# says TEXT: the last expected command's standard error has it.
says() {
	grep -qF -- "$1" "$tmp/err" || { cat "$tmp/err"; fail "no '$1' in what it says"; }
}

# Exactly this text on standard output.
prints() {
	printf '%s' "$1" >"$tmp/want"
	cmp -s "$tmp/want" "$tmp/out" || { diff "$tmp/want" "$tmp/out"; fail "prints something else"; }
}

# scaled N [FLOOR]: N for the size that was asked for; at least FLOOR (1), below which the
# test proves nothing.
scaled() {
	local n=$(($1 * KVD_TEST_SCALE / 100)) floor=${2:-1}
	echo $((n > floor ? n : floor))
}

# reached WHAT FIGURE LEAST: that the test came to what it is about, often enough.
reached() {
	case $2 in '' | *[!0-9]*) fail "it proves nothing: '$2' $1" ;; esac
	[ "$2" -ge "$3" ] || fail "it proves nothing: $2 $1, and $3 are the least"
}

# check_faults FAULTS FILE: each of the faults that have a rate was injected, at least
# $faults_min times; FILE is what SOFTVERBS_FAULT_LOG named.
faults_min=1
check_faults() {
	local name
	for name in torn flip ack_lost error rnr overrun; do
		case ,$1, in *,"$name"=*) ;; *) continue ;; esac
		reached "faults of $1: $name" "$(cat "$2" 2>/dev/null | grep -cx "$name")" "$faults_min"
	done
}

# under_faults FAULTS COMMAND ARG...: runs it on a software device that has them. Then the
# caller asks `check_faults FAULTS "$tmp/faults"`, where its words aren't the command's output.
under_faults() {
	local faults=$1
	shift
	rm -f "$tmp/faults"
	SOFTVERBS_FAULT=$faults SOFTVERBS_FAULT_LOG=$tmp/faults "$@"
}

# flatten: JSON on standard input as lines "path.to.member value".
flatten() {
	tr -d '\n' | awk '{
		text = $0
		while (match(text, /"([^"\\]|\\.)*"[ ]*:?|[{}\[\],]|[^][{}," :]+/)) {
			t = substr(text, RSTART, RLENGTH)
			text = substr(text, RSTART + RLENGTH)
			if (t == "{" || t == "[") { depth++; name[depth] = ""; continue }
			if (t == "}" || t == "]") { depth--; continue }
			if (t == ",") continue
			if (t ~ /:$/) { sub(/"[ ]*:$/, "", t); name[depth] = substr(t, 2); continue }
			path = name[1]
			for (i = 2; i <= depth; i++) path = path "." name[i]
			gsub(/^"|"$/, "", t)
			print path, t
		}
	}'
}

# stat PATH: a figure of kvd, as in: stat memory.used_bytes
stat() {
	kvcli stats --json | flatten | awk -v path="$1" '$1 == path { print $2; n++ } END { exit !n }' ||
		fail "stats have no $1"
}

# compute EXPRESSION: true or false, of numbers with a point too. What is no number (nan, inf,
# a word) would be 0 to awk: it fails the test.
compute() {
	! sed -E 's/[0-9.]+([eE][-+]?[0-9]+)?//g' <<<"$*" | grep -q '[[:alpha:]_]' || fail "no number: $*"
	awk "BEGIN { exit !($*) }"
}

# CPU time of a process, in hundredths of a second.
cpu_ticks() {
	local stat
	read -r stat <"/proc/$1/stat"
	# shellcheck disable=SC2086
	set -- ${stat##*) }
	echo $((${12} + ${13}))
}

# The same in nanoseconds, of the threads that it has now.
cpu_ns() { cat "/proc/$1/task/"*/schedstat | awk '{ n += $1 } END { printf "%.0f", n }'; }

# A process stopped by a signal, with all its threads: the signal takes a moment.
is_stopped() { ! grep -hL '^State:.[Tt]' "/proc/$1/task/"*/status | grep -q .; }

resume_process() { kill -CONT "$1" 2>/dev/null; }

# stop_process PID: until somebody sends it SIGCONT, at the latest this kit at its end.
stop_process() {
	kill -STOP "$1"
	cleanup_fn resume_process "$1"
	wait_for is_stopped "$1" || fail "process $1 isn't stopped"
}

# ---------------------------------------------------------------------- batches

# open_batch ARG...: a kvcli that reads commands from descriptor 7 and answers
# on descriptor 8; sets batch_pid.
open_batch() {
	rm -f "$tmp/batch.in" "$tmp/batch.out"
	mkfifo "$tmp/batch.in" "$tmp/batch.out"
	start batch_client "$@"
	batch_pid=$pid
	exec 7>"$tmp/batch.in" 8<"$tmp/batch.out"
}

# Opening a pipe waits for the other end, so that is done in the background too.
batch_client() {
	exec "$KVD_BUILD/kvcli" -s "$KVD_ADDR" \
		${KVD_TEST_CLIENT_DEVICE:+--device "$KVD_TEST_CLIENT_DEVICE"} "$@" <"$tmp/batch.in" >"$tmp/batch.out"
}

# ask COMMAND: sets $answer to the line that it answers with.
ask() {
	printf '%s\n' "$1" >&7
	IFS= read -r -t "$patience_s" -u 8 answer || fail "no answer to: $1"
}

# close_batch STATUS
close_batch() {
	exec 7>&- 8<&-
	wait_exit "$batch_pid"
	[ "$status" = "$1" ] || fail "the batch ended with $status, not $1"
}
