#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The Python module: its tests, what its README shows, its types; its structures are as
# long as C's.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
python=/usr/bin/python3 # Debian's, which has Debian's NumPy
[ -x $python ] || skip "$python is not installed"
export KVD_LIBRARY=$KVD_BUILD/client/.libs/libkvd.so
[ -e "$KVD_LIBRARY" ] || skip "built without shared libraries"
cc=${KVD_TEST_CC:-cc}
requires ${cc%% *}

cat >"$tmp/sizes.c" <<'END'
#include <kvd.h>
#include <stdio.h>
int main(void)
{
	printf("KVD_SIZEOF_OPTIONS=%zu KVD_SIZEOF_CHANGE=%zu KVD_SIZEOF_ITEM=%zu KVD_SIZEOF_COMPLETION=%zu\n",
	       sizeof(struct kvd_options), sizeof(struct kvd_change), sizeof(struct kvd_item),
	       sizeof(struct kvd_completion));
	return 0;
}
END
$cc -I"$KVD_SOURCE/client" "$tmp/sizes.c" -o "$tmp/sizes" || fail "compiling"
export $("$tmp/sizes")
export PYTHONPATH=$KVD_SOURCE/python PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=error

start_kvd --memory 256M
$python "$KVD_SOURCE/python/test_kvd.py" >"$tmp/out" 2>&1 || { cat "$tmp/out"; fail "python/test_kvd.py"; }
tail -n 3 "$tmp/out"

# What the README shows, on this kvd instead of the default address.
sed "s|kvd.connect() |kvd.connect('$KVD_ADDR') |" "$KVD_SOURCE/python/README.md" >"$tmp/README.md"
if $python -c 'import numpy' 2>/dev/null; then
	$python -m doctest -o ELLIPSIS "$tmp/README.md" >"$tmp/out" 2>&1 || { cat "$tmp/out"; fail "python/README.md"; }
fi

# kvd goes away: an error that says so, and it works again with the next one.
stop_kvd

if $python -m mypy --version >/dev/null 2>&1; then
	(cd "$KVD_SOURCE/python" && $python -m mypy --cache-dir "$tmp/mypy" --strict kvd test_kvd.py) ||
		fail "mypy --strict"
else
	say "without mypy"
fi
