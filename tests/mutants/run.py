# SPDX-License-Identifier: BSD-2-Clause
"""Runs a command within bounds: of time, of memory, of what it may do; nothing of it stays."""
import ctypes
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass

MEMORY_BYTES = 8 << 30
FILE_BYTES = 16 << 30
SAID_BYTES = 4096
TIMED_OUT = 124
PR_SET_PDEATHSIG = 1
CONTAIN = os.path.join(os.path.dirname(os.path.realpath(__file__)), "contain")
NAMESPACE = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]),
             "--pid", "--fork", "--kill-child", "--mount-proc"]


LIBC = ctypes.CDLL(None)
running, ends, lock = set(), threading.Event(), threading.Lock()


class Ended(Exception):
    """Nothing more is to run."""


@dataclass
class Done:
    status: int
    seconds: float
    said: str
    reached: bytes


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def limit():
    die_with_parent()
    # Whoever started this, in the background or not.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    # A file that gets too long is an error, as on a full disk.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def end_all():
    """From another thread: what runs, and what would."""
    with lock:
        ends.set()
        for process in running:
            kill(process)


def finish(process, limit_s):
    """Its status; behind it there is nothing left of its namespace or its group."""
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return TIMED_OUT
    finally:
        with lock:
            running.discard(process)
            kill(process)
        process.wait()


def remove(folder, patience_s=5):
    """While the last processes that have files there end."""
    end = time.monotonic() + patience_s
    while os.path.exists(folder) and time.monotonic() < end:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0 if not os.path.exists(folder) else 0.02)


def run(command, cwd, env, limit_s, before=limit):
    """With what it said last."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as out:
        with lock:
            if ends.is_set():
                raise Ended
            process = subprocess.Popen(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=before)
            running.add(process)
        status = finish(process, limit_s)
        if ends.is_set():
            raise Ended
        seconds = time.monotonic() - start
        out.seek(max(0, out.seek(0, os.SEEK_END) - SAID_BYTES))
        return Done(status, seconds, out.read().decode("utf-8", "replace"), b"")


def build(command, cwd, env, limit_s):
    """The same for the compiler, which is nobody's mutant."""
    return run(command, cwd, env, limit_s, die_with_parent)


def run_contained(command, tree, cwd, env, limit_s):
    """A test, and what its processes came by, if the environment names a file for that."""
    folder = tempfile.mkdtemp(prefix="kvd-m.")
    reached = os.path.join(folder, "reached")
    try:
        with open(reached, "wb") as file:
            file.write(bytes(65536))
        # Some of a test's processes are another user's.
        os.chmod(reached, 0o666)
        os.chmod(folder, 0o1777)
        done = run([*NAMESPACE, "bash", CONTAIN, folder, tree, *command], cwd, env, limit_s)
        if os.path.exists(reached):
            with open(reached, "rb") as file:
                done.reached = file.read()
        return done
    finally:
        remove(folder)


def why_not_contained(tree):
    """"" where that can be had."""
    done = run_contained(["true"], tree, tree, dict(os.environ), 60)
    return "" if done.status == 0 else done.said.strip()
