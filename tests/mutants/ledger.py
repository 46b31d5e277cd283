# SPDX-License-Identifier: BSD-2-Clause
"""What is known of a draw, a line of JSON for each run of a test: an interrupted campaign goes on.

  {"draw": stamp, "seed": 1, "count": 100}
  {"base": test, "stamp": of the test, "status": 0, "s": 1.5, "reaches": [3, 17]}
  {"mutant": 17, "test": test, "stamp": of the test, "result": "failed", "s": 0.8}
"""
import json
import os
import threading

FOUND = ("failed", "timed out")


class Ledger:
    def __init__(self, path, draw, seed, count):
        self.path, self.base, self.runs, self.lock = path, {}, {}, threading.Lock()
        head = {"draw": draw, "seed": seed, "count": count}
        lines = self.read()
        if lines[:1] != [head]:
            if lines:
                os.replace(path, path + ".old")
                print(f"# the sources are others now: what was known of them is in {path}.old", flush=True)
            self.write(head)
        for line in lines[1:] if lines[:1] == [head] else []:
            self.take(line)

    def read(self):
        """Without a line that was being written at the end."""
        if not os.path.exists(self.path):
            return []
        with open(self.path, "rb+") as file:
            whole = file.read().rpartition(b"\n")[0:2]
            file.truncate(sum(map(len, whole)))
        return [json.loads(line) for line in whole[0].splitlines()]

    def write(self, line):
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def take(self, line):
        if "base" in line:
            self.base[line["base"]] = line
        else:
            self.runs.setdefault(line["mutant"], {})[line["test"]] = line

    def add(self, **line):
        """Any thread."""
        with self.lock:
            self.write(line)
            self.take(line)

    def known_base(self, test, stamp):
        line = self.base.get(test)
        return line if line and line["stamp"] == stamp else None

    def known_run(self, mutant, test, stamp):
        line = self.runs.get(mutant, {}).get(test)
        return line if line and line["stamp"] == stamp else None

    def killer(self, mutant):
        """What told of it, in whichever state that test was."""
        for line in self.runs.get(mutant, {}).values():
            if line["result"] in FOUND:
                return line
        return None
