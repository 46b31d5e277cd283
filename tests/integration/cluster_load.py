#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Changes keys of a cluster, whoever is primary, and knows what was acknowledged.

  cluster_load.py KVCLI ADDRESSES STOP WRITERS KEYS

ADDRESSES is a file of clients' addresses, one a line, which may change; the program ends when there
is a file STOP.  Each writer has keys of its own, one change in flight, and reads some of them.  A
key is what was acknowledged last, or what was asked for later and had no answer: anything else is
told, with status 1.  So is a key at the end that can't be read.
"""
import os
import random
import select
import subprocess
import sys
import threading
import time

KVCLI, ADDRESSES, STOP = sys.argv[1:4]
WRITERS, KEYS = int(sys.argv[4]), int(sys.argv[5])
PATIENCE_S = 120
wrong, lock = [], threading.Lock()


def is_over():
    return os.path.exists(STOP)


class Gone(Exception):
    """The connection ended: what was asked for last may have happened."""


class Refused(Exception):
    """That one is not the primary: nothing happened."""


class Session:
    def __init__(self, address):
        self.buffer = b""
        self.p = subprocess.Popen([KVCLI, "-s", address], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def ask(self, command):
        try:
            self.p.stdin.write(command.encode() + b"\n")
            self.p.stdin.flush()
        except OSError as why:
            raise Gone(str(why)) from why
        line = self.line()
        if "does not serve" in line:
            raise Refused(line)
        if line.startswith(("ERROR", "kvcli:")):
            raise Gone(line)
        return line

    def line(self):
        end = time.monotonic() + 30
        while b"\n" not in self.buffer:
            if not select.select([self.p.stdout], [], [], max(0, end - time.monotonic()))[0]:
                raise Gone("no answer")
            more = os.read(self.p.stdout.fileno(), 65536)
            if not more:
                raise Gone("kvcli ended")
            self.buffer += more
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode()

    def close(self):
        self.p.kill()
        self.p.wait()
        self.p.stdin.close()
        self.p.stdout.close()


class Writer(threading.Thread):
    def __init__(self, number):
        super().__init__()
        self.random = random.Random(number)
        self.keys = [f"load{number}-{k}" for k in range(KEYS)]
        self.now = {k: None for k in self.keys}    # as it was acknowledged; None: not there
        self.may_be = {k: [] for k in self.keys}   # asked for since, without an answer
        self.session, self.turn = None, number
        self.changes = self.reads = self.unknown = 0
        self.gap_s, self.last = 0, time.monotonic()

    def reconnect(self):
        if self.session:
            self.session.close()
            self.session = None
            time.sleep(0.005)
        with open(ADDRESSES, encoding="ascii") as file:
            all_of_them = file.read().split()
        self.turn += 1
        if all_of_them:
            self.session = Session(all_of_them[self.turn % len(all_of_them)])

    def change(self, key):
        kind = self.random.random()
        value = None
        if kind > 0.1:
            pad = 30000 if kind > 0.99 else self.random.randrange(200)
            value = f"{self.changes + self.unknown}-{self.random.getrandbits(60):x}" + "x" * pad
        self.may_be[key].append(value)
        try:
            self.session.ask(f"put {key} {value}" if value else f"del {key}")
        except Refused:
            self.may_be[key].pop()
            raise
        except Gone:
            self.unknown += 1
            raise
        self.now[key] = value
        self.may_be[key] = []
        self.changes += 1
        self.gap_s = max(self.gap_s, time.monotonic() - self.last)
        self.last = time.monotonic()

    def read(self, key):
        line = self.session.ask(f"get {key}")
        value = None if line == "(not found)" else line
        self.reads += 1
        if value == self.now[key]:
            return
        if value in self.may_be[key]:
            self.now[key] = value
            self.may_be[key] = self.may_be[key][self.may_be[key].index(value) + 1:]
            return
        may_be = [str(v)[:40] for v in self.may_be[key]]
        with lock:
            wrong.append(f"{key} is {str(value)[:40]}, acknowledged was {str(self.now[key])[:40]}, "
                         f"without an answer: {may_be}")
        self.now[key] = value

    def once(self, step, key):
        try:
            if not self.session:
                self.reconnect()
            if self.session:
                step(key)
                return True
        except (Gone, Refused):
            self.reconnect()
        return False

    def run(self):
        while not is_over():
            key = self.random.choice(self.keys)
            self.once(self.read if self.random.random() < 0.2 else self.change, key)
        end = time.monotonic() + PATIENCE_S
        for key in self.keys:
            while not self.once(self.read, key):
                if time.monotonic() > end:
                    with lock:
                        wrong.append(f"{key} can't be read")
                    return
        if self.session:
            self.session.close()


def main():
    writers = [Writer(n) for n in range(WRITERS)]
    for w in writers:
        w.start()
    for w in writers:
        w.join()
    for line in wrong[:20]:
        print("WRONG: " + line)
    print(f"changes {sum(w.changes for w in writers)}")
    print(f"reads {sum(w.reads for w in writers)}")
    print(f"unknown {sum(w.unknown for w in writers)}")
    print(f"gap_ms {max(w.gap_s for w in writers) * 1000:.0f}")
    return 1 if wrong else 0


sys.exit(main())
