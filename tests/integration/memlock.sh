#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A limit of locked memory that is too low is named, with what is needed.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
[ $soft = 0 ] || skip "the software device locks no memory"
requires setpriv

without_right() {
	(ulimit -l 1024 && exec setpriv --inh-caps=-ipc_lock --bounding-set=-ipc_lock \
		"$KVD_BUILD/kvd" --listen "$KVD_TEST_ADDR:0" --memory 64M --insecure \
		${KVD_TEST_DEVICE:+--device "$KVD_TEST_DEVICE"})
}
expect 1 timeout 30 bash -c "$(declare -f without_right); KVD_BUILD='$KVD_BUILD' \
	KVD_TEST_ADDR='$KVD_TEST_ADDR' KVD_TEST_DEVICE='$KVD_TEST_DEVICE' without_right"
says "ulimit -l"
