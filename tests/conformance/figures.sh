# SPDX-License-Identifier: BSD-2-Clause
#
# Part of tests/conformance/check: what the device takes, by perftest's typical latencies, against
# its limits, and what datagrams take beside a connection's messages.
# shellcheck shell=bash disable=SC2154,SC2034 # check's variables

# bare WAY CPU CPU: what that takes there without the device, in us (tests/conformance/wake).
bare() {
	local told
	told=$($alone "$KVD_BUILD/tests/conformance/wake" "$2" "$3" "$1") || told="$1 0"
	echo "${told#* }"
}

most() { printf '%s\n' "$@" | sort -g | tail -n 1; }

# look_around CPU CPU [line|call]: how much others take of these CPUs (in per cent), what a bare
# wake-up costs there, and what that way does (in microseconds), the worst since they were set to 0. The
# way: a line of the cache, from one to the other; or a wake-up on the first one, which is system calls.
look_around() {
	local now
	now=$($alone "$KVD_BUILD/tests/conformance/quiet" "$1" "$2") || now=100
	taken=$(most "$taken" "$now")
	wake=$(most "$wake" "$(bare eventfd "$1" "$2")")
	case ${3-} in
	line) took=$(most "$took" "$(bare line "$1" "$2")") ;;
	call) took=$(most "$took" "$(bare eventfd "$1" "$1")") ;;
	*) took=$wake ;;
	esac
}

is_at_most() { awk "BEGIN { exit !($1 <= $2) }"; }

# figure NAME LIMIT_US CPUS COMMAND...: the typical latency of the best of some tries is
# in the limit, US; "US,WAYxN" is N times what that way of look_around() takes before or after that
# try, where it is more ("wake": a bare wake-up). A line takes 0.3 us in some virtual machines.
# Five tries that were too slow on quiet CPUs are a failure: those of a virtual machine may be far
# apart for some seconds, and a SEND takes 1.3 us then, not 0.4.  On busy ones they prove
# nothing: the later tries run before all others (a fraction of a second, where that is
# allowed), and then the figure is told, and the load.
figure() {
	local name=$1 limit=$2 cpus=$3 best='' value quiet=0 busiest=0 wake taken took most_us alone='' try
	local least_us=${2%,*} way='' times=0
	shift 3
	[[ $limit != *,* ]] || { way=${limit#*,} times=${limit##*x} way=${way%x*}; }
	for try in 1 2 3 4 5 6 7 8; do
		begin
		[ $try -lt 6 ] || alone=$real_time
		[ $try = 1 ] || retry "$name" "${best:-no figure} us instead of $limit: try $try"
		taken=0 wake=0 took=0
		look_around "${cpus%/*}" "${cpus#*/}" "$way"
		pair once "$name" "$alone taskset -c ${cpus%/*} $* -p PORT" \
			"$alone taskset -c ${cpus#*/} $* -p PORT localhost" || continue
		look_around "${cpus%/*}" "${cpus#*/}" "$way"
		# perftest's table: size, iterations, least, most, typical, average...
		value=$(awk '/^ [0-9]+ +[0-9]+ / { value = $5 } END { print value }' "$tmp/client")
		most_us=$(most "$least_us" "$(awk "BEGIN { print $took * $times }")")
		if is_at_most "$value" "$most_us"; then
			pass "$name: $value us (at most $most_us; a bare wake-up $wake${way:+, $way $took})${alone:+, before all others on a busy machine}"
			return
		fi
		best=$(printf '%s\n' $best $value | sort -g | head -n 1)
		# Before and after it these CPUs were free.
		if [ -z "$alone" ] && is_at_most "$taken" 2; then quiet=$((quiet + 1)); fi
		busiest=$(most "$busiest" "$taken")
		[ $quiet -lt 5 ] || break
	done
	if [ -z "$best" ] || [ $quiet -ge 5 ]; then
		no "$name" "${best:-no figure} us, too slow (${value-} is more than $most_us), and the CPUs were free ($why)"
	else
		skip "$name: $best us instead of $most_us, not judged: others took up to $busiest % of these CPUs, a bare wake-up took $wake us (load $(cut -d' ' -f1-3 /proc/loadavg))"
	fi
}

# typical COMMAND...: perftest's typical latency of that pair into $value; false: it failed.
typical() {
	begin
	pair once "$*" "$alone taskset -c ${cpus%/*} $* -p PORT" \
		"$alone taskset -c ${cpus#*/} $* -p PORT localhost" || return
	value=$(awk '/^ [0-9]+ +[0-9]+ / { value = $5 } END { print value }' "$tmp/client")
	[ -n "$value" ]
}

# median RATIO...
median() { printf '%s\n' "$@" | sort -g | awk '{ at[NR] = $1 } END { print NR ? at[int((NR + 1) / 2)] : "none" }'; }

# ratio NAME LIMIT CPUS "COMMAND" "COMMAND OF WHAT IT IS HELD AGAINST": the two in turn, in pairs; the
# median of the first one's typical latencies over the other's.  Judged as a figure() is: where three
# pairs had their CPUs for themselves, by those; where others took these CPUs, before all others for the
# part of a second that it takes; and if that doesn't do, the ratio is told, and the load.  A pair whose
# second one takes more than $slow_us says what others took, and doesn't count.
ratio() {
	local name=$1 limit=$2 cpus=$3 value one_us quiet=() all=() busiest=0 wake taken took alone='' try told
	local slow_us=2
	for try in 1 2 3 4 5 6 7 8 9 10; do
		[ $try -lt 6 ] || alone=$real_time
		[ $try != 6 ] || all=()
		taken=0 wake=0
		look_around "${cpus%/*}" "${cpus#*/}"
		# shellcheck disable=SC2086 # commands with arguments
		typical $4 && one_us=$value && typical $5 || { retry "$name" "$why"; continue; }
		look_around "${cpus%/*}" "${cpus#*/}"
		busiest=$(most "$busiest" "$taken")
		is_at_most "$value" $slow_us || { why="$one_us us over $value us: neither had its CPU"; continue; }
		value=$(awk "BEGIN { printf \"%.2f\", $one_us / $value }")
		all+=("$value")
		[ -n "$alone" ] || ! is_at_most "$taken" 2 || quiet+=("$value")
		[ ${#quiet[@]} -lt 3 ] || break
		[ $try = 5 ] && [ ${#all[@]} -ge 3 ] && is_at_most "$(median "${all[@]}")" "$limit" && break
	done
	[ ${#quiet[@]} -lt 3 ] || all=("${quiet[@]}")
	told="$(median "${all[@]}"), at most $limit: %s (median of ${#all[@]} pairs${alone:+, before all others on a busy machine})"
	# shellcheck disable=SC2059 # of ours
	if [ ${#all[@]} -ge 3 ] && is_at_most "$(median "${all[@]}")" "$limit"; then
		pass "$name: $(printf "$told" ok)"
	elif [ ${#quiet[@]} -ge 3 ]; then
		no "$name" "$(printf "$told" MISSED), and the CPUs were free"
	elif [ $busiest = 0 ]; then
		no "$name" "no pair ended well: $why"
	else
		[ ${#all[@]} -ge 3 ] || told="${#all[@]} pairs of $try count: %s"
		# shellcheck disable=SC2059
		skip "$name: $(printf "$told" MISSED), not judged: others took up to $busiest % of these CPUs, a bare wake-up took $wake us (load $(cut -d' ' -f1-3 /proc/loadavg))"
	fi
}

# tell_wakes CPU CPU: what the kernel itself needs to wake another process there.
tell_wakes() {
	local wake=$KVD_BUILD/tests/conformance/wake
	echo "bare wake-ups, CPU $1 and CPU $2, us:" $($real_time "$wake" "$@")
	echo "the same, CPUs that don't idle:" $("$wake" --awake "$@")
}

group_figures() {
	local n few real_time='chrt -f 10'
	$real_time true 2>/dev/null || real_time=
	n=$(iterations 20000) few=$(iterations 2000)
	if [ "$(nproc)" -ge 2 ]; then
		figure "READ 64 B" 0.15 0/1 ib_read_lat -d soft0 -F -s 64 -n "$n"
		figure "CAS" 0.15 0/1 ib_atomic_lat -d soft0 -F -A CMP_AND_SWAP -n "$n"
		figure "SEND 64 B" 1.0,linex6 0/1 ib_send_lat -d soft0 -F -s 64 -n "$n"
		ratio "UD's latency over RC's" 1.5 0/1 "ib_send_lat -d soft0 -F -s 64 -c UD -n $n" \
			"ib_send_lat -d soft0 -F -s 64 -c RC -n $n"
		tell_wakes 0 1
		figure "SEND 64 B with events" 4,callx1.2 0/1 ib_send_lat -d soft0 -F -s 64 -e -n "$n"
		# Always asleep: one wake-up and what the device adds, not two. (What a CPU needs to
		# leave its idle state differs with how long it was idle, from 10 to 30 us in a
		# virtual machine, so no fixed sum above a bare wake-up would do.)
		SOFTVERBS_SPIN_US=0 figure "SEND 64 B with events, without a spin" 0,wakex2 0/1 \
			ib_send_lat -d soft0 -F -s 64 -e -n "$few"
	else
		skip "figures on two cores (there is one)"
	fi
	tell_wakes 0 0
	figure "SEND 64 B on one core" 20 0/0 ib_send_lat -d soft0 -F -s 64 -n "$few"
	figure "SEND 64 B with events on one core" 20 0/0 ib_send_lat -d soft0 -F -s 64 -e -n "$few"
	SOFTVERBS_SPIN_US=0 figure "SEND 64 B with events on one core, without a spin" 20 0/0 \
		ib_send_lat -d soft0 -F -s 64 -e -n "$few"
}
