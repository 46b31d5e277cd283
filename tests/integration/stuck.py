# SPDX-License-Identifier: BSD-2-Clause
"""Stops the busiest thread of a kvd for some seconds and asks its /healthz meanwhile; run by
stuck.sh, as stuck.py PID PORT. Status 77 where a thread can't be stopped."""

import ctypes
import os
import sys
import time
import urllib.error
import urllib.request

PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000
PATIENCE_S, STUCK_S = 60, 3
libc = ctypes.CDLL(None, use_errno=True)
pid, port = int(sys.argv[1]), int(sys.argv[2])


def ticks(tid):
    with open(f"/proc/{pid}/task/{tid}/stat", encoding="utf-8") as file:
        words = file.read().rpartition(")")[2].split()
    return int(words[11]) + int(words[12])


def busiest():
    """Once it stands out."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        used = sorted((ticks(tid), int(tid)) for tid in os.listdir(f"/proc/{pid}/task"))
        if used[-1][0] > 20 + 2 * used[-2][0]:
            return used[-1][1]
        time.sleep(0.02)
    sys.exit("no thread is busy")


def trace(request, tid):
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(request, tid, None, None):
        print(f"can't stop a thread: {os.strerror(ctypes.get_errno())}")
        sys.exit(77)


def healthz():
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def until(status):
    """What is said with it, and how long that took."""
    begun = time.monotonic()
    while time.monotonic() < begun + PATIENCE_S:
        got, text = healthz()
        if got == status:
            return text, time.monotonic() - begun
        time.sleep(0.02)
    sys.exit(f"/healthz: {got} {text!r} instead of {status}")


# One that has nothing to do is well.
end = time.monotonic() + STUCK_S + 1
while time.monotonic() < end:
    status, text = healthz()
    assert (status, text[:4]) == (200, "ok: "), (status, text)
    time.sleep(0.02)
worker = busiest()
assert healthz()[0] == 200, "the worker is not stopped yet"
trace(PTRACE_SEIZE, worker)
trace(PTRACE_INTERRUPT, worker)
os.waitpid(worker, WALL)
text, took_s = until(503)
assert text.startswith("worker 0 does nothing since"), text
assert STUCK_S - 0.1 < took_s < STUCK_S + 7, f"told after {took_s:.1f} s"
trace(PTRACE_DETACH, worker)
until(200)
