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
	printf("KVD_SIZEOF_OPTIONS=%zu KVD_SIZEOF_CHANGE=%zu KVD_SIZEOF_ITEM=%zu KVD_SIZEOF_COMPLETION=%zu "
	       "KVD_SIZEOF_INFO=%zu KVD_SIZEOF_COUNTERS=%zu\n",
	       sizeof(struct kvd_options), sizeof(struct kvd_change), sizeof(struct kvd_item),
	       sizeof(struct kvd_completion), sizeof(struct kvd_info),
	       sizeof(struct kvd_counters));
	return 0;
}
END
$cc -I"$KVD_SOURCE/client" "$tmp/sizes.c" -o "$tmp/sizes" || fail "compiling"
export $("$tmp/sizes")
export PYTHONPATH=$KVD_SOURCE/python PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=error

start_kvd --memory 256M --namespace photos:memory=32M
for test in test_kvd test_keys; do
	$python "$KVD_SOURCE/python/$test.py" >"$tmp/out" 2>&1 || { cat "$tmp/out"; fail "python/$test.py"; }
	tail -n 3 "$tmp/out"
done

# What the README shows, on this kvd instead of the default address.
sed "s|kvd.connect() |kvd.connect('$KVD_ADDR') |; s|aio.connect()|aio.connect('$KVD_ADDR')|" "$KVD_SOURCE/python/README.md" >"$tmp/README.md"
if $python -c 'import numpy' 2>/dev/null; then
	$python -m doctest -o ELLIPSIS "$tmp/README.md" >"$tmp/out" 2>&1 || { cat "$tmp/out"; fail "python/README.md"; }
fi

# One version everywhere, a wheel that has all of the module, and the same tests with what
# is compiled of it.
[ "$($python -c 'import kvd; print(kvd.__version__)')" = "$("$KVD_BUILD/kvcli" --version | sed 's/kvcli //')" ] ||
	fail "the module is of another version"
if $python -c 'import setuptools, wheel' 2>/dev/null; then
	cp -r "$KVD_SOURCE/python" "$tmp/python"
	(cd "$tmp/python" && CFLAGS=-I$KVD_SOURCE/client PYTHONWARNINGS=ignore $python setup.py -q build_ext --inplace \
		bdist_wheel) >"$tmp/out" 2>&1 || { cat "$tmp/out"; fail "the wheel"; }
	$python -m zipfile -l "$tmp"/python/dist/kvd-*.whl >"$tmp/list" || fail "no wheel"
	for file in "$KVD_SOURCE"/python/kvd/*; do
		[ "${file##*/}" = __pycache__ ] || grep -q "^kvd/${file##*/} " "$tmp/list" || fail "the wheel has no ${file##*/}"
	done
	if [ -e "$($python -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ]; then
		grep -q '^kvd/_fast.abi3.so ' "$tmp/list" || { cat "$tmp/out"; fail "the wheel has no compiled part"; }
		KVD_COMPILED=1 PYTHONPATH=$tmp/python $python "$tmp/python/test_kvd.py" >"$tmp/out" 2>&1 ||
			{ cat "$tmp/out"; fail "python/test_kvd.py with the compiled part"; }
		tail -n 3 "$tmp/out"
	else
		say "without Python.h"
	fi
else
	say "without setuptools and wheel"
fi
stop_kvd

# Users, and those of a namespace.
umask 077
kvd init --users "$tmp/users" >"$tmp/admin" 2>/dev/null || fail "init"
kvd init --users "$tmp/users.photos" --user ada >"$tmp/ada" 2>/dev/null || fail "init"
start_kvd --memory 64M --users "$tmp/users" --namespace "photos:memory=32M,users=$tmp/users.photos"
cat >"$tmp/users.py" <<'END'
import os, sys
import kvd

addr, admin, ada = os.environ["KVD_ADDR"], *sys.argv[1:]


def denied(words: str = "denied", **options: str) -> None:
    try:
        kvd.connect(addr, **options)
    except kvd.Error as e:
        assert e.code == -15 and words in str(e), str(e)
        assert isinstance(e, PermissionError)
        return
    raise SystemExit(f"let in: {options}")


with kvd.connect(addr, credentials=admin) as store, \
        kvd.connect(addr, credentials=ada, namespace="photos") as photos:
    store["key"] = b"default"
    assert photos.get("key") is None
    photos["key"] = b"of photos"
    assert store["key"] == b"default" and photos["key"] == b"of photos"
denied(credentials=ada)
denied(credentials=admin, namespace="photos")
denied(credentials=ada, namespace="nowhere")
denied("who you are", credentials="")
END
$python "$tmp/users.py" "$tmp/admin" "$tmp/ada" >"$tmp/out" 2>&1 || { cat "$tmp/out"; fail "users"; }
stop_kvd

if $python -m mypy --version >/dev/null 2>&1; then
	(cd "$KVD_SOURCE/python" && $python -m mypy --cache-dir "$tmp/mypy" --strict kvd test_kvd.py \
		test_keys.py test_aio.py test_aio_killed.py test_lmcache.py) ||
		fail "mypy --strict"
else
	say "without mypy"
fi
