#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Records the programs of the fault corpus with fresh seeds and holds kymo's first finding against
the harm that each program measured itself (corpus.py).

    run.py [--build DIR] [--seed N] [--runs N] [--seconds N] [--keep DIR] [--peer] [NAME...]

Prints TAP, and as comments each run (with the seed that makes it again), the confusion matrix, and
how much of the slow time `kymo why` could not split or place.
"""
import argparse
import collections
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time

import corpus
import peer

BAD = ("missed", "wrong", "culprit", "alarm")


def slow_time(kymo, trace):
    """(slow ns, unsplit ns, unknown ns, ns without a record) of all delays beyond 1 ms."""
    sums = [0, 0, 0, 0]
    for said in corpus.ask(kymo, "why", "--json", trace):
        sums[0] += said["slow_ns"]
        for part, ns in said["parts"].items():
            which = 1 if "unsplit" in part else 2 if part.startswith("unknown") else \
                3 if part == "recorder_gap" else 0
            sums[which] += ns if which else 0
    return sums


class Corpus:
    def __init__(self, options):
        self.kymo = options.build / "kymo"
        self.options = options
        self.programs = corpus.build(options.build / "corpus")
        self.peer = peer.Peer(self.kymo) if options.peer else None
        self.rows = []

    def run(self, name, seed, folder):
        said = corpus.record(self.kymo, self.programs / name, folder, "--seed", str(seed),
                             "--seconds",
                             str(max(self.options.seconds, corpus.SECONDS_MIN.get(name, 0))))
        found = corpus.findings(self.kymo, folder / "traces")
        row = {"name": name, "seed": seed, "statement": said, "has_engine": found is not None,
               "first": found[0]["id"] if found else None,
               "culprit": corpus.names_of(found[0].get("culprit")) if found else None,
               "result": corpus.judge(said, found or []),
               "slow_time": slow_time(self.kymo, folder / "traces")}
        self.rows.append(row)
        print(f"# {name:18} --seed {seed:<10} {said['verdict']:8} workers {said['workers']} size "
              f"{said['size']:<8} {row['result']:8} {row['first'] or '-'} {row['culprit'] or ''}",
              flush=True)
        if self.peer:
            print("#   dial9's scan: ", *self.peer.judge(said, folder / "traces"), flush=True)
        return row

    def runs(self, name):
        rows = []
        for number in range(self.options.runs):
            seed = (self.options.seed * 1_000 + number) % 2**31
            folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.options.keep))
            try:
                rows.append(self.run(name, seed, folder))
            finally:
                if not self.options.is_kept:
                    shutil.rmtree(folder, ignore_errors=True)
        return rows

    def print_matrix(self):
        counts = collections.defaultdict(collections.Counter)
        for row in self.rows:
            said = row["statement"]
            what = row["name"] if said["verdict"] != "healthy" else "(no harm measured)"
            counts[what][row["first"] or "(nothing)"] += 1
        print("# first finding of each cause:")
        for name, firsts in sorted(counts.items()):
            print(f"#   {name:20}", ", ".join(f"{first} {n}" for first, n in firsts.most_common()))
        sums = [sum(row["slow_time"][i] for row in self.rows) for i in range(4)]
        share = [100 * part / max(sums[0], 1) for part in sums[1:]]
        print(f"# of {sums[0] / 1e9:.2f} s in delays beyond 1 ms: unsplit {share[0]:.1f} %, "
              f"unknown {share[1]:.2f} %, in losses {share[2]:.2f} %")

    def print_peer(self):
        kymo = [(row["statement"]["verdict"], row["result"]) for row in self.rows]
        print("# of the same runs:        kymo   dial9's scan")
        for label, verdict, wanted in (("cause first", "fault", ("right",)),
                                       ("cause among others", "fault", ("right", "later")),
                                       ("alarms of healthy runs", "healthy", ("alarm",))):
            cells = [f"{sum(v == verdict and r in wanted for v, r in rows)} of "
                     f"{sum(v == verdict for v, _ in rows)}" for rows in (kymo, self.peer.rows)]
            print(f"#   {label:24} {cells[0]:8} {cells[1]}")
        self.peer.close()

    def summary(self):
        results = collections.Counter(row["result"] for row in self.rows)
        verdicts = collections.Counter(row["statement"]["verdict"] for row in self.rows)
        return {"runs": len(self.rows), "results": results, "verdicts": verdicts,
                "seed": self.options.seed}


def case(number, name, rows, is_listed):
    """One line of TAP for all runs of a program."""
    bad = [row for row in rows if row["result"] in BAD]
    found = [row for row in rows if row["statement"]["verdict"] == "fault"
             and row["result"] == "right"]
    if is_listed:  # what is not missed any more leaves the list
        bad = [row for row in bad if row["result"] == "alarm"]
        is_ok = not bad and not found
        why = f"found, so take it out of {corpus.NOT_YET_FOUND.name}" if found else ""
    else:
        is_ok, why = not bad, ""
    print(f"{'ok' if is_ok else 'not ok'} {number} - {name}")
    if not is_ok:
        for row in found if is_listed else bad:
            print(f"# {row['result']}: --seed {row['seed']}, first {row['first']} "
                  f"{row['culprit'] or ''} {why}")
    return is_ok


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=corpus.ROOT / "build")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--runs", type=int, default=3, help="of each program (3)")
    parser.add_argument("--seconds", type=int, default=2, help="that each runs (2)")
    parser.add_argument("--keep", type=pathlib.Path, help="keep the traces there")
    parser.add_argument("--peer", action="store_true",
                        help="what dial9's red-flag scan says of the same recordings")
    parser.add_argument("names", nargs="*", help="of programs; none: all")
    options = parser.parse_args()
    if shutil.which("cargo") is None:
        print("1..0 # SKIP no cargo here")
        return 0
    options.build = options.build.resolve()
    options.is_kept = options.keep is not None
    options.keep = (options.keep or pathlib.Path(tempfile.mkdtemp(prefix="kymo-corpus-"))).resolve()
    options.keep.mkdir(parents=True, exist_ok=True)
    faults, healthy = corpus.programs()
    names = options.names or faults + healthy
    listed, work, is_ok = corpus.not_yet_found(), Corpus(options), True
    print(f"# --seed {options.seed} --runs {options.runs} --seconds {options.seconds}")
    print(f"1..{len(names)}", flush=True)
    try:
        for number, name in enumerate(names, 1):
            is_ok &= case(number, name, work.runs(name), name in listed)
    finally:
        if not options.is_kept:
            shutil.rmtree(options.keep, ignore_errors=True)
    work.print_matrix()
    if work.peer:
        work.print_peer()
    print(f"# {work.summary()}")
    if "KYMO_RESULT" in os.environ:
        pathlib.Path(os.environ["KYMO_RESULT"]).write_text(json.dumps(work.summary()))
    return 0 if is_ok else 1


if __name__ == "__main__":
    sys.exit(main())
