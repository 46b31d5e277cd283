#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# debian/ builds packages, and they have what they should: in its full size only, as it
# builds everything anew.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
[ "$KVD_TEST_SCALE" -ge 100 ] || skip "it builds everything: at full size only"
requires dpkg-buildpackage dh dh_python3 git dpkg-deb
cd "$KVD_SOURCE" || fail "no source"
git rev-parse --show-toplevel >/dev/null 2>&1 || skip "the source is no checkout"

mkdir -p "$tmp/build/kvd" "$tmp/root"
git ls-files -z | xargs -0 cp --parents -P -t "$tmp/build/kvd"
cd "$tmp/build/kvd" || fail "no copy"
DEB_BUILD_OPTIONS="nocheck parallel=$(nproc)" timeout 1500 dpkg-buildpackage -b -us -uc >"$tmp/log" 2>&1 ||
	{ tail -n 40 "$tmp/log"; fail "dpkg-buildpackage"; }
for package in kvd kvd-tools kvfront libkvd0 libkvd-dev python3-kvd; do
	file=$(echo "$tmp/build/${package}"_0.*.deb)
	[ -e "$file" ] || fail "no package $package"
	dpkg-deb -x "$file" "$tmp/root" || fail "unpacking $package"
	[ -n "$(dpkg-deb -f "$file" Depends)" ] || fail "$package depends on nothing"
done
# What pkg-config wants of the .pc file comes with the package that has it.
for package in $(sed -n 's/^Requires.private: //p' "$tmp"/root/usr/lib/*/pkgconfig/kvd.pc); do
	dpkg-deb -f "$tmp"/build/libkvd-dev_0.*.deb Depends | grep -Eq "(^|, )$package-dev(,|\$)" ||
		fail "libkvd-dev doesn't depend on $package-dev"
done
if command -v lintian >/dev/null; then
	lintian --allow-root --fail-on error,warning "$tmp"/build/*.changes || fail "lintian"
else
	say "no lintian"
fi
root=$tmp/root
for file in usr/sbin/kvd usr/bin/kvcli usr/bin/kvbench usr/include/kvd.h etc/kvd/kvd.conf \
	lib/systemd/system/kvd.service usr/lib/sysusers.d/kvd.conf usr/lib/tmpfiles.d/kvd.conf \
	usr/share/doc/kvd/grafana.json usr/share/doc/kvd/kvd.conf.example usr/lib/python3/dist-packages/kvd/__init__.py \
	usr/share/man/man8/kvd.8.gz usr/share/man/man3/kvd_get.3.gz \
	usr/share/bash-completion/completions/kvcli \
	usr/sbin/kvfront lib/systemd/system/kvfront.service usr/share/man/man8/kvfront.8.gz; do
	[ -e "$root/$file" ] || fail "no $file in any package"
done
dpkg-deb -c "$tmp"/build/kvfront_0.*.deb >"$tmp/list" || fail "the contents of kvfront"
for file in usr/sbin/kvfront lib/systemd/system/kvfront.service usr/share/man/man8/kvfront.8.gz; do
	grep -q " \./$file\$" "$tmp/list" || fail "no $file in kvfront's own package"
done
"$root/usr/sbin/kvd" --check-config --config "$root/etc/kvd/kvd.conf" || fail "kvd of the package"
[ "$("$root/usr/bin/kvcli" --version)" = "$(kvcli --version)" ] || fail "kvcli of the package"
grep -q '^ExecStart=/usr/sbin/kvd ' "$root/lib/systemd/system/kvd.service" || fail "the unit's path"
grep -q '^ExecStart=/usr/sbin/kvfront ' "$root/lib/systemd/system/kvfront.service" || fail "kvfront's unit's path"
# They work together.
KVD_BUILD=$tmp/packaged
mkdir "$KVD_BUILD"
ln -s "$root/usr/sbin/kvd" "$root/usr/sbin/kvfront" "$root/usr/bin/kvcli" "$KVD_BUILD"
start_kvd --memory 64M
kvcli put name Ada && [ "$(kvcli get name)" = Ada ] || fail "put and get"
. "$KVD_SOURCE/tests/lib/front.sh"
start_front -t 1
talk_lines <<'END'
> get name\r\n
< VALUE name 0 3\r\nAda\r\nEND\r\n
END
stop_front
library=$(echo "$root"/usr/lib/*/libkvd.so.0)
if [ -x /usr/bin/python3 ]; then
	[ "$(KVD_LIBRARY=$library PYTHONPATH=$root/usr/lib/python3/dist-packages /usr/bin/python3 -c \
		"import kvd; print(kvd.connect('$KVD_ADDR').get('name').decode())")" = Ada ] || fail "python3-kvd"
fi
stop_kvd
