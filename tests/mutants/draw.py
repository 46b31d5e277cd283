# SPDX-License-Identifier: BSD-2-Clause
"""Which sites are drawn, and which of them are known to be no change at all."""
import hashlib
import os
import pickle
import re
from collections import defaultdict

from sites import KINDS, Sources, as_diff, render

PARTS = ("server/", "client/", "common/softverbs/", "common/")


class Wrong(Exception):
    """What is wrong with the tree, its build or a file of this folder."""


def part_of(file):
    return next((p for p in PARTS if file.startswith(p)), "")


def luck(seed, *names):
    """A place in an order of the seed's own. What is added to the tree leaves that of others."""
    return hashlib.sha256("\0".join([str(seed), *names]).encode()).digest()


def mixed(sites, seed):
    """One of each folder after the other."""
    folders = defaultdict(list)
    for place, site in sites:
        folders[os.path.dirname(site.file)].append((place, site.order(), site))
    kind = sites[0][1].kind
    names = sorted(folders, key=lambda name: luck(seed, kind, name))
    lists = [sorted(folders[name], reverse=True) for name in names]
    while lists:
        for sites_of_one in lists:
            yield sites_of_one.pop()[-1]
        lists = [one for one in lists if one]


def in_turn(named, seed):
    """All of (name, site): one of each kind in each part after the other."""
    groups = defaultdict(list)
    for name, site in named:
        groups[part_of(site.file), site.kind].append((luck(seed, site.kind, *name), site))
    turns = [mixed(groups[part, kind], seed) for part in PARTS for kind in KINDS if groups[part, kind]]
    while turns:
        going = []
        for turn in turns:
            site = next(turn, None)
            if site:
                going.append(turn)
                yield site
        turns = going


class Draw:
    """count sites of those that the sources have, numbered from 1; each compiles."""

    def __init__(self, top, flags, switch):
        self.top, self.texts, self.all = top, {}, []
        self.sources = Sources(top, flags)
        self.more = ["-include", switch, "-w"]

    def find(self, names, note, stamp):
        """The sites of these files, as a run before noted them or anew."""
        if os.path.exists(note):
            with open(note, "rb") as file:
                noted, self.all = pickle.load(file)
            if noted == stamp:
                return
        self.all = []
        for name in names:
            self.all += self.sources.sites(name, PARTS)
        with open(note, "wb") as file:
            pickle.dump((stamp, self.all), file)

    def text(self, name):
        if name not in self.texts:
            with open(os.path.join(self.top, name), "rb") as file:
                self.texts[name] = file.read()
        return self.texts[name]

    def compiles(self, name, sites):
        return not self.sources.errors(name, render(self.text(name), sites), self.more)

    def draw(self, seed, count):
        taken, files = [], defaultdict(list)
        waiting = in_turn([(self.name(site), site) for site in self.all], seed)
        while len(taken) < count:
            site = next(waiting, None)
            if not site:
                raise Wrong(f"the sources have {len(taken)} places for a mutation, fewer than {count}")
            site.number = len(taken) + 1
            if self.compiles(site.file, [*files[site.file], site]):
                files[site.file].append(site)
                taken.append(site)
        return taken

    def mutated(self, taken):
        """The text of each file that has some."""
        files = defaultdict(list)
        for site in taken:
            files[site.file].append(site)
        return {name: render(self.text(name), sites) for name, sites in files.items()}

    def name(self, site):
        """By what it changes, and not by where in its file it stands."""
        old, new = as_diff(self.text(site.file), site)
        return site.file, site.function, plain(old), plain(new)


# ------------------------------------------------------------- no change at all

def plain(lines):
    return re.sub(r"\s+", " ", " ".join(lines)).strip()


def read_equivalents(path):
    """Its name and its reason of each paragraph: # reason, file function, -lines, +lines."""
    found = {}
    with open(path, encoding="utf-8") as file:
        paragraphs = re.split(r"\n\s*\n", file.read())
    for paragraph in paragraphs:
        lines = [line for line in paragraph.split("\n") if line]
        reason = " ".join(line.lstrip("# ") for line in lines if line.startswith("#"))
        lines = [line for line in lines if not line.startswith("#")]
        if not lines:
            continue
        head = lines[0].split()
        if len(head) != 2 or not reason or any(line[0] not in "-+" for line in lines[1:]):
            raise Wrong(f"{path}: no reason, file and function, and changed lines: {paragraph}")
        sign = {s: plain(line[1:] for line in lines[1:] if line[0] == s) for s in "-+"}
        found[(*head, sign["-"], sign["+"])] = reason
    return found


def equivalents(draw, path):
    """Those of the tree; one that names nothing of it is no longer right."""
    found = read_equivalents(path) if os.path.exists(path) else {}
    names = {draw.name(site) for site in draw.all if any(site.file == f and site.function == g for f, g, _, _ in found)}
    for name in found:
        if name not in names:
            raise Wrong(f"{path}: the tree has no such place: {name[0]} {name[1]}: {name[2]}")
    return found
