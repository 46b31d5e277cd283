# SPDX-License-Identifier: BSD-2-Clause
"""What a campaign says: lines as it goes on, and in the end who survived."""
import os
import sys

from sites import as_diff, line_of

VERDICTS = ("killed", "survived", "not reached", "no change", "unknown")
SURVIVORS = ("survived", "not reached")


class Screen:
    """On a terminal the last line says what goes on."""

    def __init__(self):
        self.is_terminal = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"

    def going(self, text):
        if self.is_terminal:
            print(f"\r\033[K{text[:78]}", end="", flush=True)

    def line(self, text):
        print(("\r\033[K" if self.is_terminal else "") + text, flush=True)


def show(draw, site, why):
    """As tests/mutants/equivalent wants it."""
    old, new = as_diff(draw.text(site.file), site)
    print(f"# {site.number}, {site.kind}, line {line_of(draw.text(site.file), site)}: {why}")
    print(f"{site.file} {site.function}")
    for sign, lines in (("-", old), ("+", new)):
        for line in lines:
            print(sign + line)
    print()


def report(draw, taken, verdict, budget):
    """Status 0 where no more than budget per cent survived."""
    verdicts = {site.number: verdict(site) for site in taken}
    print()
    for site in sorted(taken, key=lambda s: (s.file, s.start)):
        what, why = verdicts[site.number]
        if what in SURVIVORS:
            show(draw, site, f"{what}: {why}")
    table(taken, verdicts)
    counts = {v: sum(1 for what, _ in verdicts.values() if what == v) for v in VERDICTS}
    alive, judged = sum(counts[v] for v in SURVIVORS), len(taken) - counts["no change"] - counts["unknown"]
    per_cent = 100 * alive / judged if judged else 0
    print(", ".join(f"{counts[v]} {v}" for v in VERDICTS))
    print(f"{alive} of {judged} alive: {per_cent:.1f} %, and {budget:g} % may be")
    return 1 if per_cent > budget else 3 if counts["unknown"] else 0


def table(taken, verdicts):
    """How many of each folder."""
    folders = {}
    for site in taken:
        row = folders.setdefault(os.path.dirname(site.file), dict.fromkeys(VERDICTS, 0))
        row[verdicts[site.number][0]] += 1
    print(f"{'':28}" + "".join(f"{v:>13}" for v in VERDICTS))
    for folder in sorted(folders):
        print(f"{folder:28}" + "".join(f"{folders[folder][v]:13}" for v in VERDICTS))
    print()
