# SPDX-License-Identifier: BSD-2-Clause
"""Runs the tests: first with no mutation on, then each mutant's until one of them fails."""
import os
import time
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch

from draw import Wrong
from ledger import FOUND
from run import TIMED_OUT, end_all, run_contained

SKIPPED = 77
FINE = (0, SKIPPED)
BASE_LIMIT_S = int(os.environ.get("KVD_MUTANTS_LIMIT_S", "600"))
LEAST_LIMIT_S = int(os.environ.get("KVD_MUTANTS_LEAST_S", "15"))


class OutOfTime(Exception):
    """What is left is for the next time."""


class Campaign:
    def __init__(self, tree, ledger, taken, known, given, end, screen):
        self.tree, self.ledger, self.taken, self.known = tree, ledger, taken, known
        self.end, self.screen, self.jobs, globs = end, screen, given.jobs, given.tests
        self.tests = [t for t in tree.tests() if not globs or any(fnmatch(t[1], g) for g in globs)]
        self.stamps = {name: tree.stamp((kind, name)) for kind, name in self.tests}

    def run(self, test, limit_s, **more):
        """No longer than there is time; what was cut off so says nothing."""
        left_s = self.end - time.monotonic() if self.end else limit_s
        if left_s <= 0:
            raise OutOfTime
        env = {**self.tree.environment(), **more}
        done = run_contained(self.tree.test_command(test), self.tree.tree, self.tree.build, env, min(limit_s, left_s))
        if done.status == TIMED_OUT and left_s < limit_s:
            raise OutOfTime
        return done

    def each(self, work, of):
        """As many at once as there are jobs; without what is left, where one of them ends it."""
        with ThreadPoolExecutor(self.jobs) as at_work:
            done = [at_work.submit(work, one) for one in of]
            try:
                for one in done:
                    one.result()
            except BaseException:
                at_work.shutdown(wait=False, cancel_futures=True)
                end_all()
                raise

    # With nothing on.

    def base(self):
        """How long each test takes, and by which mutations it comes; one that has failed is asked again."""
        known = {t: self.ledger.known_base(t[1], self.stamps[t[1]]) for t in self.tests}
        self.each(self.base_of, [t for t in self.tests if not known[t] or known[t]["status"] not in FINE])
        unfit = [name for kind, name in self.tests if kind == "unit"
                 and self.ledger.known_base(name, self.stamps[name])["status"] not in FINE]
        if unfit:
            raise Wrong(f"unit tests that fail with nothing on are to be mended first: {' '.join(unfit)}")

    def base_of(self, test):
        self.screen.going(f"as it is: {self.tests.index(test) + 1}/{len(self.tests)} {test[1]}")
        for _ in range(2):
            done = self.run(test, BASE_LIMIT_S, KVD_MUTANTS_REACHED="/tmp/reached")
            if done.status in FINE:
                break
        reaches = [number for number, byte in enumerate(done.reached) if byte]
        self.ledger.add(base=test[1], stamp=self.stamps[test[1]], status=done.status, s=round(done.seconds, 2),
                        reaches=reaches)
        if done.status not in FINE:
            self.screen.line(f"# {test[1]} is not used: it fails with nothing on (status {done.status})")

    # With one on.

    def fit(self):
        """Those that pass with nothing on: unit tests first, and the shortest of each kind."""
        kinds = {name: kind != "unit" for kind, name in self.tests}
        base = {name: self.ledger.known_base(name, self.stamps[name]) for name in kinds}
        fit = [t for t in self.tests if base[t[1]] and base[t[1]]["status"] == 0]
        return sorted(fit, key=lambda t: (kinds[t[1]], base[t[1]]["s"]))

    def of(self, site):
        return [t for t in self.fit() if site.number in self.ledger.base[t[1]]["reaches"]]

    def result(self, site, test):
        """Of a script, which is about several processes and their times, twice if it failed."""
        limit_s = LEAST_LIMIT_S + 4 * self.ledger.base[test[1]]["s"]
        for _ in range(1 if test[0] == "unit" else 2):
            done = self.run(test, limit_s, KVD_MUTANT=str(site.number))
            if done.status in FINE:
                return "passed", done
        return "timed out" if done.status == TIMED_OUT else "failed", done

    def judge(self, site):
        """Until a test fails; what is known already is not run again."""
        for test in self.of(site):
            stamp = self.stamps[test[1]]
            if not self.ledger.known_run(site.number, test[1], stamp):
                self.screen.going(f"{site.number}/{len(self.taken)} {site.file} by {test[1]}")
                result, done = self.result(site, test)
                self.ledger.add(mutant=site.number, test=test[1], stamp=stamp, result=result,
                                s=round(done.seconds, 2))
            if self.ledger.known_run(site.number, test[1], stamp)["result"] in FOUND:
                return

    def judge_and_tell(self, site):
        self.judge(site)
        self.screen.line(f"{site.number} {site.file} {site.function}: {self.verdict(site)[1]}")

    def judge_all(self):
        self.each(self.judge_and_tell, [site for site in self.taken
                                        if site.number not in self.known and not self.ledger.killer(site.number)])

    def verdict(self, site):
        """(one of report.VERDICTS, and what it is told with)"""
        if site.number in self.known:
            return "no change", f"no change: {self.known[site.number]}"
        killer = self.ledger.killer(site.number)
        if killer:
            return "killed", f"{killer['test']} {killer['result']}"
        asked = self.of(site)
        left = [t for t in self.tests if not self.ledger.known_base(t[1], self.stamps[t[1]])]
        left += [t for t in asked if not self.ledger.known_run(site.number, t[1], self.stamps[t[1]])]
        if left:
            return "unknown", f"{len(left)} tests have not been run"
        if not asked:
            return "not reached", "no test comes by"
        return "survived", f"{len(asked)} tests come by, the last {asked[-1][1]}"
