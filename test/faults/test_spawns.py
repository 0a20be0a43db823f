# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Who spawned each task and submitted each closure, beside what the program did."""
import collections
import json
import unittest

from faults import Faults, program

PARENTS = {"spawns::front_child": "spawns::front", "spawns::back_child": "spawns::back",
           "spawns::back_closure": "spawns::back", "spawns::crowd_closure": "spawns::crowd",
           "spawns::closure_child": "spawns::spawning_closure", "spawns::root_child": "block_on",
           "spawns::front": "block_on", "spawns::back": "block_on", "spawns::crowd": "block_on",
           "spawns::spawning_closure": "block_on"}
CLOSURES = {"spawns::back": "spawns::back_closure", "spawns::crowd": "spawns::crowd_closure"}
ASKED_MAX = 40


def plain(name):
    """spawns::back::{{closure}}::{{closure}} is a closure of the task spawns::back::{{closure}}."""
    for own, closure in CLOSURES.items():
        if f"{own}::{{{{closure}}}}::{{{{closure}}}}" in (name or ""):
            return closure
    for own in sorted(PARENTS, key=len, reverse=True):
        if own in (name or ""):
            return own
    return name


def kinds_of(site):
    return {plain(name) for name in site.split(" or ")}


class Spawns(Faults):
    def rows(self, one, what):
        rows = json.loads(one.kymo("query", "--json", what, one.trace))["rows"]
        return [tuple(row.values()) for row in rows]

    def check(self, path):
        one = self.record(path)
        rounds = one.statement["rounds"]
        rows = self.rows(one, "SELECT task, site, parent_site, parents FROM tasks "
                              "WHERE is_root = 0")
        counts, exact, several = collections.Counter(), collections.Counter(), []
        for task, site, parent, count in rows:
            # Code that the linker made one has several names.
            if not site or "same code" in site:
                continue
            kinds = kinds_of(site)
            if not kinds <= set(PARENTS):
                continue
            allowed = {PARENTS[kind] for kind in kinds}
            if len(kinds) == 1:
                counts[min(kinds)] += 1
                exact[min(kinds)] += parent is not None
            if parent is not None:
                self.assertTrue(kinds_of(parent) & allowed, (task, site, parent))
            else:
                self.assertNotEqual(count, 1)
                several.append((task, allowed))
        for kind in ("spawns::front_child", "spawns::back_child"):
            self.assertEqual(counts[kind], rounds)
            self.assertGreaterEqual(exact[kind], 1, (exact, counts))
        self.assertEqual(counts["spawns::root_child"], rounds / 2)
        # Where several could have been, the one that was is among them.
        for task, allowed in several[:ASKED_MAX]:
            life = json.loads(one.kymo("task", "--json", task, one.trace))
            named = set().union(*(kinds_of(by["site"]) for by in life["spawn"]["by"]))
            self.assertTrue(named & allowed, (task, life["spawn"]))
        return one, counts, exact

    def test_spawn__is_of_who_did_it(self):
        one, counts, exact = self.check("spawns")
        print(f"# exact: {sum(exact.values())} of {sum(counts.values())}")
        waited = one.statement["waited"]
        # The crowd comes last.
        rows = self.rows(one, "SELECT wait_ns, wait_max_ns FROM blocking ORDER BY task DESC "
                              f"LIMIT {len(waited)}")
        self.assertLessEqual(sum(row[0] for row in rows), sum(waited))
        self.assertTrue(all(row[0] <= row[1] for row in rows))
        self.assertGreaterEqual(max(row[0] for row in rows), 10_000_000)
        self.assertEqual(one.report()["pool_threads_in_line"], one.statement["threads"])
        text = one.kymo("view", "spawns", one.trace)
        self.assertIn("spawns::front_child", text)
        life = one.kymo("task", str(self.rows(
            one, "SELECT task FROM tasks WHERE site LIKE '%front_child%' AND parent IS NOT NULL "
                 "LIMIT 1")[0][0]), one.trace)
        self.assertRegex(life, r"spawned .* before, by task \d+ \(spawns::front")

    def test_spawn__on_one_worker(self):
        path = program("spawns")
        one = self.record(path, "--workers", 1)
        rows = self.rows(one, "SELECT count(*) FROM tasks WHERE parents > 0")
        self.assertGreater(rows[0][0], 0)

    def test_spawn__with_fat_lto(self):
        self.check(program("spawns", config=('lto="fat"',)))

    def test_spawn__on_the_oldest_tokio(self):
        self.check(program("spawns", tokio="v1_38"))

    def test_spawn__of_a_stripped_program_is_said_not_to_be_known(self):
        one = self.record(program("spawns", config=("strip=true",)))
        self.assertEqual(self.rows(one, "SELECT count(*) FROM tasks WHERE parents > 0")[0][0], 0)
        self.assertIn("who spawned", one.report_text())


if __name__ == "__main__":
    unittest.main()
