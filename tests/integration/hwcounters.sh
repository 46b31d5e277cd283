#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvcli counters: what devices count, by port and as a whole, with what it means; here of
# devices that are folders, in a mount namespace of the test's own.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
if [ "${1-}" != inside ]; then
	unshare -m true 2>"$tmp/why" || skip "no mount namespace of its own: $(cat "$tmp/why")"
	unshare -m bash "$0" inside
	exit
fi
mount -t tmpfs none /sys/class 2>"$tmp/why" || skip "can't cover /sys/class: $(cat "$tmp/why")"

# count DEVICE PATH VALUE
count() {
	mkdir -p "/sys/class/infiniband/$1/${2%/*}"
	echo "$3" >"/sys/class/infiniband/$1/$2"
}

expect 1 kvcli counters
says "no RDMA device that counts"

count mlx4_0 ports/1/counters/symbol_error 7
count mlx4_0 ports/1/counters/port_rcv_errors 0
count mlx4_0 ports/1/counters/of_nobody 3
count mlx4_0 diag_counters/sq_num_to 5
count mlx5_1 ports/1/hw_counters/out_of_sequence 11
count mlx5_1 ports/1/hw_counters/lifespan 12
expect 0 kvcli counters
cat "$tmp/out"
prints "mlx4_0 port 1
  of_nobody                                     3  
  symbol_error                                  7  ! errors on the line: look at the cable
mlx4_0 as a whole
  sq_num_to                                     5  ! no acknowledgement came in time: loss, or a peer that is gone
mlx5_1 port 1
  out_of_sequence                              11  ! packets came out of order: some were lost on the way
"
expect 0 kvcli counters --all
grep -q 'port_rcv_errors  *0 ' "$tmp/out" || fail "--all leaves zeros out"
