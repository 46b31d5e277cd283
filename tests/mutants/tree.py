# SPDX-License-Identifier: BSD-2-Clause
"""The copy of the source that has the mutations, its build and its tests."""
import hashlib
import os
import shutil
import subprocess

from draw import PARTS, Wrong
from run import build

LEAVE_OUT = {".git", "build", "autom4te.cache", "config.status", "__pycache__", ".deps", ".libs"}
MAKE_LIMIT_S = 3600
# The hardening of distributions, and what of UBSan needs no library, as CI's builds have all of it: what
# writes or reads one too many ends the program. The simulation undoes the former's checks of sizes.
CONFIGURE = ["--with-cmocka=yes", "CFLAGS=-O1 -w -fstack-protector-strong -fsanitize-undefined-trap-on-error "
             "-fsanitize=bounds,shift,signed-integer-overflow,integer-divide-by-zero"]
HARDENED = "-D_FORTIFY_SOURCE=3"
SWITCH = "tests/mutants/mutant.h"
# They build kvd from its sources, or install it, and would say of the copy what is true of it.
NOT_OF_A_BUILD = ("broken", "documented", "host", "html", "install", "manuals", "musl", "package", "tree")
ASK = """include Makefile
say-them:
	@echo 'flags: $(DEFS) $(DEFAULT_INCLUDES) $(INCLUDES) $(AM_CPPFLAGS) $(AM_CFLAGS)'
	@echo 'sources: $(sort $(SOURCES))'
	@echo 'unit: $(unit_tests)'
	@echo 'integration: $(integration_tests)'
	@echo 'cc: $(CC)'
"""


def files_below(top):
    for path, folders, files in os.walk(top):
        folders[:] = [f for f in folders if f not in LEAVE_OUT]
        for file in files:
            if file not in LEAVE_OUT and not file.endswith((".o", ".lo", ".la", ".a", ".pyc")):
                yield os.path.relpath(os.path.join(path, file), top)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def put(path, text, like):
    """Written where it differs, so that make makes again what did; None: as it is there."""
    is_new = not os.path.lexists(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if is_new and text is None:
        shutil.copy2(like, path, follow_symlinks=False)
    elif not os.path.islink(like):
        text = read(like) if text is None else text
        if is_new or read(path) != text:
            with open(path, "wb") as file:
                file.write(text)
            os.chmod(path, os.stat(like).st_mode)


def with_lock_check(name, text):
    """As in builds with --enable-asan: who gives back a lock that nobody has ends the program."""
    if not name.endswith(".c") or b"pthread_mutex_unlock(" not in text:
        return text
    return b'#include "tests/lib/lock_check.h"\n#line 1\n' + text


class Tree:
    def __init__(self, source, tree, jobs):
        self.source, self.tree, self.jobs = source, tree, jobs
        self.build = os.path.join(tree, "build/mutants")
        self.said = None

    def write(self, mutated=None):
        """The copy, with these texts of some of its files; without them, all but their parts."""
        wanted = set(files_below(self.source))
        for name in sorted(wanted):
            path, like, text = os.path.join(self.tree, name), os.path.join(self.source, name), None
            if mutated is not None and name.startswith(PARTS):
                text = with_lock_check(name, mutated[name] if name in mutated else read(like))
            if mutated is not None or not name.startswith(PARTS) or not os.path.lexists(path):
                put(path, text, like)
        for name in set(files_below(self.tree)) - wanted:
            os.unlink(os.path.join(self.tree, name))

    def environment(self):
        """Of a test; without what a make above says to the ones below."""
        env = dict(os.environ, KVD_SOURCE=self.tree, KVD_BUILD=self.build)
        env.setdefault("KVD_TEST_SCALE", "10")
        env["CONFIG_SHELL"] = "/bin/sh"  # in which a link takes two thirds of bash's time
        for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "KVD_MUTANT", "KVD_MUTANTS_REACHED"):
            env.pop(name, None)
        if self.said:
            env["KVD_TEST_CC"] = self.said["cc"]
        return env

    def command(self, *words):
        done = build(words, self.build, self.environment(), MAKE_LIMIT_S)
        if done.status:
            raise Wrong(f"{words[0]} fails:\n" + done.said)

    def configure(self):
        os.makedirs(self.build, exist_ok=True)
        words = [*CONFIGURE, *os.environ.get("KVD_MUTANTS_CONFIGURE", "").split(),
                 f"CPPFLAGS={HARDENED} -include " + os.path.join(self.tree, SWITCH)]
        note = os.path.join(self.build, "configured")
        if not os.path.exists(note) or read(note) != repr(words).encode():
            # What was compiled for other options is no longer right.
            if os.path.exists(os.path.join(self.build, "Makefile")):
                self.command("make", "-s", "clean")
            self.command("../../configure", "-q", *words)
            with open(note, "wb") as file:
                file.write(repr(words).encode())
        asked = subprocess.run(["make", "-s", "-f", "-", "say-them"], cwd=self.build, env=self.environment(),
                               input=ASK, text=True, stdout=subprocess.PIPE, check=False)
        if asked.returncode:
            raise Wrong("make does not tell its sources and tests")
        said = dict(line.split(": ", 1) if ": " in line else (line.rstrip(":"), "")
                    for line in asked.stdout.splitlines() if ":" in line)
        self.said = {name: said.get(name, "").strip() for name in ("flags", "sources", "unit", "integration", "cc")}

    def make(self, is_unit=False):
        """All that tests need; of unit tests alone a half of it."""
        if is_unit:
            self.command("make", "-s", f"-j{self.jobs}", "check", "TESTS=", "check_PROGRAMS=$(unit_tests)",
                         "check_LIBRARIES=", "check_DATA=")
            return
        self.command("make", "-s", f"-j{self.jobs}", "all")
        self.command("make", "-s", f"-j{self.jobs}", "check", "TESTS=")

    # What it told.

    def flags(self):
        """Those that libclang needs, of the source instead of its copy."""
        words = self.said["flags"].split()
        kept = [w for w in words if w.startswith(("-D", "-I", "-std", "-pthread"))]
        out = []
        for word in kept:
            if word.startswith("-I"):
                path = os.path.normpath(os.path.join(self.build, word[2:]))
                word = "-I" + (self.source if path == self.tree else path)
            out.append(word)
        return [*out, "-w"]

    def sources(self):
        """Of this build, and of the parts that have mutations."""
        names = {os.path.normpath(name) for name in self.said["sources"].split()}
        tree = os.path.relpath(self.tree, self.build)
        names = {os.path.relpath(n, tree) if n.startswith("..") else n for n in names}
        return sorted(n for n in names if n.endswith(".c") and n.startswith(PARTS))

    def tests(self):
        """(kind, name) of all that look at what a program does."""
        unit = [("unit", name) for name in self.said["unit"].split()]
        scripts = [("integration", name) for name in self.said["integration"].split()]
        return unit + [s for s in scripts if os.path.basename(s[1]).removesuffix(".sh") not in NOT_OF_A_BUILD]

    def test_file(self, test):
        kind, name = test
        return os.path.join(self.build if kind == "unit" else self.tree, name)

    def test_command(self, test):
        path = self.test_file(test)
        return [path] if test[0] == "unit" else ["bash", path]

    def stamp(self, test):
        """Another one when the test is another."""
        path = self.test_file(test)
        return hashlib.sha256(read(path)).hexdigest()[:16] if os.path.exists(path) else ""


def stamp_of(names, top):
    """Of the files that have mutations, and of what finds them."""
    whole = hashlib.sha256()
    for name in sorted(names):
        whole.update(name.encode() + b"\0" + read(os.path.join(top, name)))
    return whole.hexdigest()[:16]
