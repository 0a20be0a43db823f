# SPDX-License-Identifier: Apache-2.0 OR MIT
"""block_in_place: which thread has the worker when, and what no worker waits for."""
from faults import Faults, program


class Moves(Faults):
    def check_moves(self, run):
        """They chain, and there are not more of them than calls."""
        serves = {}
        moves = [(at, one) for at, _, one in run.events("BlockInPlaceEvent")]
        for at, one in moves:
            self.assertNotEqual(one["from_tid"], one["to_tid"], (at, one))
            before = serves.get(one["worker_id"], one["from_tid"])
            self.assertEqual(one["from_tid"], before, (at, one))
            serves[one["worker_id"]] = one["to_tid"]
        self.assertGreater(len(moves), 0)
        self.assertLessEqual(len(moves), run.statement["calls"])
        return moves

    def check_report(self, run, workers):
        report = run.report()
        self.assertEqual(len(report["workers"]), workers)
        info = run.info()
        length = info["last_ns"] - info["first_ns"]
        for one in report.get("kernel_counts", []):
            self.assertLessEqual(one["span_ns"], length, one)
        return report

    def check_handed_over(self, run, report, moves):
        """What another thread served the worker in is no poll that kept a worker."""
        taken = {(at, one["from_tid"]) for at, one in moves}
        rests = {(at, one["tid"]) for at, _, one in run.events("NestedPollStartEvent")
                 if one["depth"] == 0} & taken
        self.assertGreater(len(rests), 0)
        self.assertEqual(report["polls_handed_over"]["count"], len(rests))
        worst = {(one["start_ns"], one["tid"]) for one in report["worst_polls"]}
        self.assertEqual(worst & rests, set())

    def check(self, path, workers):
        run = self.record(path, "--seconds", 3, "--workers", workers,
                          options=("--ring-bytes", "64M"))
        self.assertEqual(run.info()["losses"], [])
        moves = self.check_moves(run)
        self.check_handed_over(run, self.check_report(run, workers), moves)
        return run, moves

    def test_one_worker(self):
        run, moves = self.check("moves", 1)
        self.assertGreaterEqual(len(moves), run.statement["changes"])

    def test_two_workers(self):
        self.check("moves", 2)

    def test_oldest_tokio(self):
        self.check(program("moves", "v1_38"), 2)

    def test_lossy(self):
        """Records of a thread may be lost; its worker is still one of the two."""
        run = self.record("moves", "--seconds", 3, options=("--ring-bytes", "1M"))
        self.check_report(run, 2)
