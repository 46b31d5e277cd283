#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""tests/conformance/rdmacore.py SCRATCH: rdma-core's own tests over pyverbs, on the device soft0.

Debian's python3-pyverbs has them among its documentation; they are unpacked into SCRATCH.  A test has
to pass, or stands in the table rdmacore.not with the reason why not.  A line of the table that no
test needs is wrong, too.  One line for each file: PASS:, FAIL: or SKIP:; nothing is there: 77.
"""
import fnmatch
import glob
import gzip
import os
import shutil
import sys
import unittest

SOURCE = "/usr/share/doc/rdma-core/tests"
TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rdmacore.not")


def unpack(scratch):
    """The tests as Python wants them: Debian compresses what is long."""
    to = os.path.join(scratch, "tests")
    os.makedirs(to)
    for path in glob.glob(os.path.join(SOURCE, "*.py")):
        shutil.copy(path, to)
    for path in glob.glob(os.path.join(SOURCE, "*.py.gz")):
        with gzip.open(path) as packed:
            with open(os.path.join(to, os.path.basename(path)[:-3]), "wb") as out:
                shutil.copyfileobj(packed, out)
    sys.path[:0] = [scratch, to]


def load():
    """The test cases by file.  They look up the address of a device in the kernel's files, where
    this one is not: they are told."""
    # pylint: disable=import-outside-toplevel,import-error
    sys.argv[1:] = ["--dev", "soft0"]
    from args_parser import parser

    parser.parse_args()
    import tests
    from tests import base

    def address(self, dev, port, gid_index):
        self.args.append([dev, port, gid_index, "127.0.0.1", "00:00:00:00:00:00"])

    base.RDMATestCase._get_ip_mac = address  # pylint: disable=protected-access
    for module in tests.__test_modules__:
        name = module.__name__.rsplit(".", 1)[-1]
        yield name, unittest.defaultTestLoader.loadTestsFromModule(module)


def read_table():
    """Lines of [when, pattern, reason, how many tests it was needed for]."""
    lines = []
    with open(TABLE, encoding="utf-8") as table:
        for line in table:
            words = line.split(None, 2)
            if words and not words[0].startswith("#"):
                assert len(words) == 3 and words[0] in ("not", "here"), line
                lines.append([words[0], words[1], words[2].strip(), 0])
    return lines


class Result(unittest.TestResult):
    """What was not passed: {id: why}."""

    def __init__(self):
        super().__init__()
        self.missed, self.passed = {}, []

    def addSuccess(self, test):
        self.passed.append(test.id())

    def addSkip(self, test, reason):
        self.missed[test.id()] = f"skipped: {reason}"

    def addError(self, test, err):
        self.missed[test.id()] = f"{err[0].__name__}: {err[1]}"

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err:
            self.addError(test, err)


def judge(name, suite, table):
    """Runs a file's tests.  None: all are of the table; or whether all is as that says."""
    result = Result()
    suite.run(result)
    wrong, listed = [], 0
    for test, why in result.missed.items():
        line = next((x for x in table if fnmatch.fnmatch(test, "tests." + x[1])), None)
        if line:
            line[3] += 1
            listed += 1
        else:
            wrong.append(f"  {test}: {why}")
    for test in result.passed:
        for line in table:
            if line[0] == "not" and fnmatch.fnmatch(test, "tests." + line[1]):
                line[3] += 1
                wrong.append(f"  {test} passes, and rdmacore.not says: {line[2]}")
    if not wrong and not result.passed:
        return None
    counts = f"{len(result.passed)} pass, {listed} of rdmacore.not"
    print(f"{'FAIL' if wrong else 'PASS'}: rdma-core's {name}: {counts}")
    print("".join(line + "\n" for line in wrong), end="", flush=True)
    return not wrong


def main():
    """All files."""
    if not os.path.exists(os.path.join(SOURCE, "__init__.py")):
        print("rdma-core's tests are not in " + SOURCE + " (package python3-pyverbs)")
        return 77
    unpack(sys.argv[1])
    table = read_table()
    judged = [judge(name, suite, table) for name, suite in load()]
    good = False not in judged
    print(f"{judged.count(None)} other files of rdma-core's have nothing for this device (rdmacore.not)")
    for line in table:
        if line[0] == "not" and not line[3]:
            good = False
            print(f"FAIL: rdma-core's {line[1]}: no test that doesn't pass is meant by this line")
    return 0 if good else 1


sys.exit(main())
