# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# A disk that gets full, behind kit.sh: a file system in memory, which nobody else sees.

# small_disk SIZE: the test is started again where it may mount; then sets disk.
small_disk() {
	requires unshare
	if [ -z "${KVD_TEST_MOUNTED-}" ]; then
		# Who is not root is, in a namespace of users.
		local alone=(unshare -m)
		[ "$(id -u)" = 0 ] || alone=(unshare -rm)
		"${alone[@]}" true 2>/dev/null || skip "no namespaces, to mount a small disk"
		rm -rf "$tmp" # exec leaves nobody to do that
		KVD_TEST_MOUNTED=1 exec "${alone[@]}" "$0"
	fi
	disk=$tmp/disk
	mkdir "$disk" && mount -t tmpfs -o size="$1" none "$disk" || skip "no tmpfs"
	cleanup_fn umount -l "$disk" # a test that failed has programs on it still
}

fill_but() { # KIB
	local left
	left=$(($(df --output=avail -k "$disk" | tail -n 1) - $1))
	[ $left -le 0 ] || dd if=/dev/zero of="$disk/filler" bs=1k count=$left >/dev/null 2>&1
}
make_room() { rm -f "$disk/filler"; }
