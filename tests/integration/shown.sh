#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Every command that README.md or a manual shows is run as it stands there, in their
# order, in a network of its own; only sizes and times are made small. What one prints
# is compared where it is shown too. A command that can't be run here is named below,
# with the reason; a new one runs, or fails the test.
if [ -z "${KVD_SHOWN_INSIDE-}" ]; then
	. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
	[ $soft = 1 ] || skip "it shows what a new user does, on the software device"
	requires ip unshare
	user=()
	[ "$(id -u)" = 0 ] || user=(--user --map-root-user)
	unshare "${user[@]}" --net true 2>/dev/null || skip "no network namespaces for this user"
	KVD_SHOWN_INSIDE=1 KVD_SOURCE=$KVD_SOURCE KVD_BUILD=$KVD_BUILD unshare "${user[@]}" --net bash "$0"
	exit
fi
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
ip link set lo up || fail "no loopback"
for address in 192.0.2.7 192.0.2.10; do
	ip address add $address/32 dev lo || fail "no address $address"
done

here=$tmp/tree/build/default
mkdir -p "$here" "$tmp/tree/bench" "$tmp/bin"
ln -s "$KVD_SOURCE/bench/workloads" "$tmp/tree/bench/workloads"
for program in kvd kvcli kvbench kvfront; do
	[ -x "$KVD_BUILD/$program" ] || continue
	ln -s "$KVD_BUILD/$program" "$here/$program"
	ln -s "$KVD_BUILD/$program" "$tmp/bin/$program"
done
PATH=$tmp/bin:$PATH
unset -f kvd kvcli # the kit's
cd "$here" || fail "no folder"

# What the commands expect to find.
furnish() {
	umask 077
	mkdir -p src
	echo 'int x;' >src/x.c
	echo report >report.pdf
	printf '#!/bin/sh\nexit 0\n' >deploy.sh
	chmod +x deploy.sh
}
furnish

# As if it were installed.
if [ -e "$KVD_BUILD/client/.libs/libkvd.so" ]; then
	printf '#!/bin/sh\necho "-I%s/client -L%s/client/.libs -lkvd"\n' "$KVD_SOURCE" "$KVD_BUILD" \
		>"$tmp/bin/pkg-config"
	chmod +x "$tmp/bin/pkg-config"
	export LD_LIBRARY_PATH=$KVD_BUILD/client/.libs
	sed -n '/^#include <err.h>/,/^\.Ed/p' "$KVD_SOURCE/doc/libkvd.3" | sed '/^\.Ed/d; s/\\e/\\/g' >example.c
fi

# ------------------------------------------------------------------- running

small() {
	sed -E -e "s|/etc/|$tmp/etc/|g" -e "s|/var/|$tmp/var/|g" -e "s,/(tmp|run/user/1000)/kv\.sock,$tmp/kv.sock,g" -e 's/--memory [0-9]+G/--memory 64M/' -e 's/(recordcount|operationcount)=[0-9]+/\1=1000/g' \
		-e 's/kvd .*--listen 192\.0\.2\.[0-9.]+/& --device soft/' -e 's/--duration [0-9]+/--duration 1/' -e 's/kvcli top/& --interval 50ms/' -e 's/kvbench raw -s .*/& --duration 20ms/' <<<"$1"
}

server_pid=''
end_server() {
	[ -n "$server_pid" ] || return 0
	kill -TERM "$server_pid"
	wait_exit "$server_pid"
	server_pid=''
}

serves() { grep -Eq "$1" "$tmp/server.log" || ! alive "$server_pid"; }

# serve PATTERN COMMAND: in the background, until it says the pattern.
serve() {
	end_server
	eval "start ${2%&}" >"$tmp/server.log" 2>&1
	server_pid=$pid
	wait_for serves "$1"
	alive "$server_pid" || { cat "$tmp/server.log"; fail "$origin: $2"; }
}

# front COMMAND: kvfront in the background, until it listens; it ends with the next, or the test.
front_pid=''
front() {
	if [ -n "$front_pid" ]; then
		kill -TERM "$front_pid"
		wait_exit "$front_pid"
	fi
	eval "start ${1%&}" >"$tmp/front.log" 2>&1
	front_pid=$pid
	wait_for grep -q . "$tmp/front.log" && alive "$pid" || { cat "$tmp/front.log"; fail "$origin: $1"; }
}

# A kvd on the default address, unless one runs there.
default_server() {
	[ "$serving" = default ] || serve serving "kvd --memory 64M"
	serving=default
}

run_one() {
	local command=$1
	status=0
	[ -z "${KVD_SHOWN_TIMES-}" ] || say "$SECONDS s: $command"
	timeout 120 bash -c "$command" </dev/null >"$tmp/out" 2>"$tmp/err" || status=$?
	[ $status -le ${allowed:-0} ] || { cat "$tmp/out" "$tmp/err"; fail "$origin: status $status: $command"; }
}

serving=none ran=0 left=0
run_shown() {
	local command
	command=$(small "$1")
	case $command in
	./quickstart* | ./runtests*) left=$((left + 1)); [ -x "$KVD_SOURCE/${command%% *}" ] || fail "no $command" ;; # they run this
	./bootstrap | ./configure* | make | 'make install' | ldconfig | systemd-sysusers*) left=$((left + 1)) ;; # tests/integration/install.sh
	'modprobe rdma_rxe' | 'rdma link add'*) left=$((left + 1)) ;; # by tests/vm/guest, in a kernel of its own
	*ADDRESS-OF-*) left=$((left + 1)) ;;                          # the same
	export\ LD_PRELOAD=* | ibv_rc_pingpong* | *\ ./client) left=$((left + 1)) ;; # tests/conformance/check runs them
	systemctl* | journalctl* | apt-get* | dnf* | debuild* | dpkg* | make\ deb*) left=$((left + 1)) ;; # tests/integration/service.sh, package.sh
	'cc example.c'*)
		[ -e example.c ] || { say "no shared library: $command"; return; }
		run_one "$command -o example"
		default_server
		run_one ./example
		;;
	*--data-dir* | *kvcli\ backup* | cp\ -a\ *)
		if ! "$KVD_BUILD/kvd" --version | grep -q 'durability: yes'; then
			left=$((left + 1))
		elif [[ $command == kvd\ * ]]; then
			serve serving "$command"
			serving=default
		else
			run_one "$command"
		fi
		;;
	'kvd &') default_server ;;
	*kvfront\ * | memc*)
		if [ ! -x "$KVD_BUILD/kvfront" ] || ! command -v memccat >/dev/null; then
			left=$((left + 1))
		elif [[ $command == memc* ]]; then
			run_one "$command"
		else
			default_server
			front "$command"
		fi
		;;
	head\ *basenc* | umask\ * | *--check-config* | *kvd\ init* | *kvcli\ user\ *--users*) run_one "$command" ;;
	*kvd\ -*)
		serve serving "$command"
		serving=default
		case $command in *192.0.2.*) serving=other ;; esac
		;;
	*'kvbench raw --listen'*) serve . "$command"; serving=other ;;
	*' -s 192.0.2.'* | *noop:*) run_one "$command" ;;
	*kvcli* | *kvbench* | python3*) default_server; run_one "$command" ;;
	*) fail "$origin shows a command that this test does not know: $command" ;;
	esac
	ran=$((ran + 1))
}

# ---------------------------------------------------------------------- pages

# Commands on standard input; behind "$ " or "name$ " one whose output may follow.
run_lines() {
	local line command=''
	origin=$1
	rm -rf "$tmp/etc" admin.key
	mkdir "$tmp/etc"
	mkdir -p "$tmp/var/lib" "$tmp/var/backups"
	: >"$tmp/shown"
	while IFS= read -r line <&3; do
		if [ -z "$line" ]; then # the end of a block
			compare_output "$command"
			command=''
		elif [[ $line =~ ^[a-z]*\$\ +(.*) ]]; then
			compare_output "$command"
			command=${BASH_REMATCH[1]}
			allowed=1 run_shown "$command" # (not found) is an answer
		elif [ -n "$command" ]; then
			printf '%s\n' "$line" >>"$tmp/shown"
		else
			run_shown "$(sed -E 's/ +# .*//' <<<"$line")"
		fi
	done 3<"$tmp/lines"
	compare_output "$command"
}

compare_output() {
	[ -s "$tmp/shown" ] || return 0
	diff "$tmp/shown" "$tmp/out" || fail "$origin: $1 prints something else"
	: >"$tmp/shown"
}

sed -E 's/^    //; t; s/.*//' "$KVD_SOURCE/README.md" >"$tmp/lines"
[ "$(grep -c . <"$tmp/lines")" -ge 10 ] || fail "README.md's commands were not found"
run_lines README.md

# Commands are what stands behind .Dl, and the blocks of EXAMPLES; not those of C, of
# Python or of a configuration.
for page in "$KVD_SOURCE"/doc/*.[1-8]; do
	awk -v page="${page##*/}" '
		/^\.Sh/ { examples = /EXAMPLES/ }
		/^\.Dl/ { sub(/^\.Dl /, ""); print; next }
		/^\.Bd -literal/ && examples { block = 1; first = 1; next }
		/^\.Ed/ { block = 0; print ""; next }
		block && first { other = /^(#|import |from )/; first = 0 }
		block && !other { print }' "$page" |
		sed -e 's/\\e/\\/g' -e 's/\\(aq/'"'"'/g' -e 's/\\(dq/"/g' >"$tmp/lines"
	run_lines "${page##*/}"
done
end_server
say "$ran commands, and $left that are run elsewhere"
