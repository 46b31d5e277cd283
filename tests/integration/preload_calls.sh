#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# What libsoftverbs-preload.so has in a program that uses little of it: calls that none of the
# examples makes, memory on page boundaries, and libraries that the program has not loaded.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
requires python3
preload=$KVD_BUILD/common/softverbs/.libs/libsoftverbs-preload.so
[ -e "$preload" ] || skip "built without libsoftverbs-preload.so"
export SOFTVERBS_FABRIC=preload-calls-$$

# under COMMAND...: with the library; its words go to $tmp/said.
under() { LD_PRELOAD=$preload timeout "$patience_s" "$@" >"$tmp/said" 2>&1; }

under "$KVD_BUILD/tests/conformance/calls" || { cat "$tmp/said"; fail "calls"; }
grep -q "^all calls" "$tmp/said" || { cat "$tmp/said"; fail "calls don't say that they made all"; }

cat >"$tmp/memory" <<'PYTHON'
import ctypes, os, sys, threading

c = ctypes.CDLL(None)
page = os.sysconf("SC_PAGESIZE")
for name in ("memalign", "aligned_alloc", "malloc", "realloc"):
    getattr(c, name).restype = ctypes.c_void_p
c.memalign.argtypes = c.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
c.posix_memalign.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
c.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
c.free.argtypes = c.malloc_usable_size.argtypes = [ctypes.c_void_p]
c.malloc_usable_size.restype = ctypes.c_size_t


def posix_memalign(alignment, size):
    to = ctypes.c_void_p()
    assert c.posix_memalign(ctypes.byref(to), alignment, size) == 0
    return to.value


def is_shared(addr):
    """Whether peers may map it."""
    with open("/proc/self/maps", encoding="ascii") as maps:
        for line in maps:
            first, end = (int(n, 16) for n in line.split()[0].split("-"))
            if first <= addr < end:
                return "softverbs-mem" in line
    return False


def on_pages():
    for make in (posix_memalign, c.memalign, c.aligned_alloc):
        addr = make(page, 3 * page)
        assert addr % page == 0 and is_shared(addr) == wanted, make
        assert c.malloc_usable_size(addr) >= 3 * page
        ctypes.memset(addr, 7, 3 * page)
        longer = c.realloc(addr, 5 * page)
        assert ctypes.string_at(longer, 3 * page) == bytes([7]) * 3 * page and not is_shared(longer)
        assert not wanted or not is_shared(addr)
        c.free(longer)
        addr = make(page, page)
        ctypes.memset(addr, 8, page)
        shorter = c.realloc(addr, 100)
        assert ctypes.string_at(shorter, 100) == bytes([8]) * 100
        c.free(shorter)


def of_no_bytes():
    """realloc() to nothing frees."""
    addr = posix_memalign(page, page)
    if wanted:
        assert c.malloc_usable_size(addr) == page and c.realloc(addr, 0) is None and not is_shared(addr)
    else:
        c.free(addr)


def elsewhere():
    """Other boundaries, and none."""
    for addr in (posix_memalign(2 * page, page), posix_memalign(64, 100), c.memalign(64, page), c.malloc(page)):
        assert addr and not is_shared(addr)
        c.free(addr)


def many():
    """Those beyond the library's own are the system's; their places are used again."""
    for _ in range(3):
        all_of = [posix_memalign(page, page) for _ in range(300)]
        assert len(set(all_of)) == 300
        assert sum(map(is_shared, all_of)) == (256 if wanted else 0)
        for addr in all_of:
            c.free(addr)
        assert not wanted or not any(map(is_shared, all_of))


def by_several():
    """No page is two threads', and each is known when it is freed."""
    def churn(mark):
        for _ in range(3000):
            addr = posix_memalign(page, page)
            ctypes.memset(addr, mark, page)
            if ctypes.string_at(addr, page) != bytes([mark]) * page:
                wrong.append(addr)
            c.free(addr)

    wrong, threads = [], [threading.Thread(target=churn, args=(n + 1,)) for n in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong, wrong


wanted = sys.argv[1] == "shared"
on_pages()
of_no_bytes()
elsewhere()
many()
by_several()
print("as it should be")
PYTHON
for value in '' 1; do
	SOFTVERBS_MEMALIGN=$value under python3 "$tmp/memory" shared || { cat "$tmp/said"; fail "SOFTVERBS_MEMALIGN=$value"; }
done
SOFTVERBS_MEMALIGN=0 under python3 "$tmp/memory" private || { cat "$tmp/said"; fail "SOFTVERBS_MEMALIGN=0"; }

# The system's libraries are loaded for who did not, and wants other devices.
cat >"$tmp/devices" <<'PYTHON'
import ctypes

c = ctypes.CDLL(None)
c.ibv_get_device_list.restype = c.rdma_create_event_channel.restype = ctypes.c_void_p


def loaded():
    with open("/proc/self/maps", encoding="ascii") as maps:
        text = maps.read()
    return [name for name in ("libibverbs.so", "librdmacm.so") if name in text]


assert not loaded(), loaded()
count = ctypes.c_int()
devices = c.ibv_get_device_list(ctypes.byref(count))
assert devices and count.value >= 1

# What kind a GID of soft0 is no public header has, and ibv_devinfo asks for.
c.ibv_open_device.restype = ctypes.c_void_p
c.ibv_open_device.argtypes = [ctypes.c_void_p]
c.ibv_query_gid_type.argtypes = [ctypes.c_void_p, ctypes.c_uint8, ctypes.c_uint, ctypes.c_void_p]
device = c.ibv_open_device(ctypes.cast(devices, ctypes.POINTER(ctypes.c_void_p))[0])
kind = ctypes.c_int(7)
assert device and c.ibv_query_gid_type(device, 1, 0, ctypes.byref(kind)) == 0 and kind.value == 1
assert c.ibv_query_gid_type(device, 2, 0, ctypes.byref(kind)) == -1
assert c.ibv_query_gid_type(device, 1, 99, ctypes.byref(kind)) == -1
c.rdma_create_event_channel() # where the system has no rdma_cm it says so
assert "librdmacm.so" in loaded(), loaded()
print("as it should be")
PYTHON
SOFTVERBS_CM=system under python3 "$tmp/devices" || { cat "$tmp/said"; fail "libraries that are not loaded"; }

# The nodes of the devices that there may be: everybody may open them; others are what they are.
cat >"$tmp/nodes" <<'PYTHON'
import ctypes, os

c = ctypes.CDLL(None)
calls = [lambda path: c.access(path, os.R_OK | os.W_OK)]
calls += [lambda path, call=call: call(path, ctypes.create_string_buffer(1024))
          for call in (getattr(c, name, None) for name in ("stat", "stat64")) if call]
for call in calls:
    for name in (b"soft0", b"soft1", b"soft2", b"soft3"):
        assert call(b"/dev/infiniband/" + name) == 0, name
    for name in (b"soft", b"soft/", b"soft4", b"soft00", b"soft0x", b"Soft0", b"hard0"):
        assert call(b"/dev/infiniband/" + name) == -1, name
    assert call(b"/dev/null") == 0
print("as it should be")
PYTHON
under python3 "$tmp/nodes" || { cat "$tmp/said"; fail "nodes of devices"; }
