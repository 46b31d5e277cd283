#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Operations of all kinds by clients on the same few keys, some killed meanwhile: the answers
# can be explained by operations that take effect one at a time. KVD_HISTORIES_S: so long, in
# seconds, and KVD_HISTORIES_SEED: from this seed.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
seconds=${KVD_HISTORIES_S:-$(scaled 50 10)}
start_kvd --memory 64M
"$KVD_BUILD/tests/torture/histories/histories" "$KVD_ADDR" 5 "$seconds" "$(scaled 20 3)" \
	"${KVD_HISTORIES_SEED:-1}" || fail "an episode can't be explained, or there were too few"
stop_kvd
