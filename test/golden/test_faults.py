#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""test_faults.py KYMO: replays the golden traces of the fault corpus (make_faults.py recorded
them), and holds the first finding of each against what the program said of itself.

A fault of test/corpus/not_yet_found.txt must not be found: who makes its finding takes it out.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "corpus"), str(HERE.parent.parent / "tools")]
import corpus  # noqa: E402
import make_faults  # noqa: E402
import unittest_tap  # noqa: E402
import variants  # noqa: E402

TRACES = HERE / "faults"
BYTES_MAX, ALL_BYTES_MAX = 150_000, 5_000_000
KYMO = sys.argv[1]
# No clear run of theirs is small enough: block_in_place() does others little harm, a leak needs
# seconds, and floods of timers and of wakes that harm have a million events a second.
WITHOUT_TRACE = {"in_place", "timer_flood", "wake_storm"}
# Runs that once misled kymo, or that no program of the corpus makes. futurelock_left: tasks that
# took the lock and wait elsewhere have its await point beside the newer one. asked_back, full_both:
# two tasks wait for each other's answer, or for room in each other's channel. answer_lost: the
# sender of a oneshot is kept in a map. pool_hogged: those that stand in line are not those that
# fill the pool. yield_spin: yield_now() in a loop.
KEPT = {"futurelock_left", "asked_back", "answer_lost", "full_both", "pool_hogged", "yield_spin"}


def unpacked(path):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "plain.trc")
        subprocess.run([KYMO, "convert", "-q", "--recompress", "--compress=none", "-o", out, path],
                       check=True)
        return out.read_bytes()


class Golden(unittest.TestCase):
    def test_each_program_has_a_small_trace(self):
        faults, healthy = corpus.programs()
        sizes = {path.name.removesuffix(".trc.zst"): path.stat().st_size
                 for path in TRACES.glob("*.trc.zst")}
        self.assertEqual(set(sizes), set(faults + healthy) - WITHOUT_TRACE | KEPT)
        self.assertLessEqual(max(sizes.values()), BYTES_MAX)
        self.assertLessEqual(sum(sizes.values()), ALL_BYTES_MAX)

    def test_no_trace_has_a_path_of_the_machine_that_made_it(self):
        for path in TRACES.glob("*.trc.zst"):
            raw = unpacked(path)
            self.assertEqual(make_faults.neutral(raw), raw, path)

    def test_only_faults_are_listed_as_not_yet_found(self):
        listed = corpus.not_yet_found()
        self.assertEqual(sorted(set(listed)), listed)
        self.assertLessEqual(set(listed), set(corpus.programs()[0]))

    def test_kymo_says_the_same_of_a_trace_with_other_names_and_threads(self):
        for name in ("sleep_in_poll", "permits", "cpu_poll"):
            plain = unpacked(TRACES / f"{name}.trc.zst")
            renamed, names = variants.renamed(plain, seed=1)
            renumbered, threads = variants.renumbered(plain, seed=1)
            self.assertNotEqual(renamed, plain)
            self.assertNotEqual(list(threads), list(threads.values()))
            expected = self.said_of(plain)
            back = self.said_of(renamed)
            for old, new in names.items():
                back = back.replace(new, old)
            self.assertEqual(back, expected)
            back = self.said_of(renumbered)
            for old, new in threads.items():
                back = back.replace(f'"thread": {new},', f'"thread": "{old}",')
            self.assertEqual(back.replace('"', ""), expected.replace('"', ""))

    def test_losses_change_no_answer(self):
        """A tenth of what the workers recorded is missing: a finding may be withheld, and none
        leads that is not said of the whole trace."""
        for name in corpus.programs()[0]:
            if name in WITHOUT_TRACE or name in corpus.not_yet_found():
                continue
            raw = unpacked(TRACES / f"{name}.trc.zst")
            whole = {(one["id"], one["culprit"]["task"])
                     for one in corpus.findings(KYMO, TRACES / f"{name}.trc.zst")}
            for seed in range(2):
                part, _ = variants.dropped(raw, seed)
                with tempfile.NamedTemporaryFile(suffix=".trc") as file:
                    file.write(part)
                    file.flush()
                    found = corpus.findings(KYMO, file.name)
                if found:
                    self.assertIn((found[0]["id"], found[0]["culprit"]["task"]), whole,
                                  (name, seed))

    def test_a_healthy_process_beside_it_changes_no_answer(self):
        """Read together with the trace of another process, in either order."""
        healthy = [TRACES / f"{name}.trc.zst" for name in corpus.programs()[1]]
        for number, name in enumerate(corpus.programs()[0]):
            if name in WITHOUT_TRACE:
                continue
            trace, beside = TRACES / f"{name}.trc.zst", healthy[number % len(healthy)]
            alone = corpus.ask(KYMO, "report", "--json", trace)
            both = corpus.ask(KYMO, "report", "--json",
                              *((trace, beside) if number % 2 else (beside, trace)))
            self.assertEqual(len(both), len(alone) + 1, name)
            start_ns = alone[0]["trace"]["start_mono_ns"]
            self.assertEqual([said["findings"] for said in both
                              if said["trace"]["start_mono_ns"] == start_ns],
                             [alone[0]["findings"]], name)

    def said_of(self, raw):
        """What is said of causes: of the delays, and the findings."""
        with tempfile.NamedTemporaryFile(suffix=".trc") as file:
            file.write(raw)
            file.flush()
            why = corpus.ask(KYMO, "why", "--json", "--over", "100us", file.name)
            self.assertGreater(why[0]["slow_delays"], 0)
            found = corpus.findings(KYMO, file.name) or []
        for one in found:
            one.pop("key", None)  # it is made from names
        return json.dumps([why, found])

    def case(self, name):
        statement = json.loads((TRACES / f"{name}.json").read_text())
        trace = TRACES / f"{name}.trc.zst"
        self.assertEqual(statement["fault"], name)
        self.assertIn(statement["verdict"], ("healthy",) if name.startswith("healthy_")
                      else ("fault",))
        found = corpus.findings(KYMO, trace) or []
        result = corpus.judge(statement, found)
        said = [(one["id"], corpus.names_of(one.get("culprit"))) for one in found]
        if name in corpus.not_yet_found():
            self.assertNotEqual(result, "right", f"take it out of {corpus.NOT_YET_FOUND}")
        else:
            self.assertEqual(result, "right", said)


def add_case(name):
    setattr(Golden, f"test_{name}", lambda self: self.case(name))


for program in [*sum(corpus.programs(), []), *sorted(KEPT)]:
    if program not in WITHOUT_TRACE:
        add_case(program)

if __name__ == "__main__":
    unittest_tap.main(sys.argv[2:])
