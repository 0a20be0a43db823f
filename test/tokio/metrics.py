#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Are the metrics of a recorded Tokio program those that it counts itself?

    metrics.py [--build DIR] [--target DIR]

Runs the program `measured` under `kymo run`: its tasks are counted by the rules of the crate
tokio-metrics, its runtime by Tokio's own RuntimeMetrics (tokio_unstable). What kymo calls exact has
to be equal, what it calls bounded has to lie between its bounds. Output is TAP.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

from matrix import Tap, build, options_of

# Every metric of tokio-metrics 0.5.1, TaskMetrics and RuntimeMetrics, and every lint of
# tokio-console 0.1.14.
TASK = """instrumented_count dropped_count first_poll_count total_first_poll_delay
    total_idled_count total_idle_duration max_idle_duration total_scheduled_count
    total_scheduled_duration total_poll_count total_poll_duration total_fast_poll_count
    total_fast_poll_duration total_slow_poll_count total_slow_poll_duration
    total_short_delay_count total_short_delay_duration total_long_delay_count
    total_long_delay_duration mean_first_poll_delay mean_idle_duration mean_scheduled_duration
    mean_poll_duration slow_poll_ratio long_delay_ratio mean_fast_poll_duration
    mean_slow_poll_duration mean_short_delay_duration mean_long_delay_duration""".split()
OF_WORKERS = """park_count busy_duration noop_count steal_count steal_operations
    local_schedule_count overflow_count polls_count local_queue_depth""".split()
RUNTIME = [f"{which}_{stem}" for stem in OF_WORKERS for which in ("total", "max", "min")] + """
    workers_count live_tasks_count global_queue_depth elapsed mean_poll_duration
    mean_poll_duration_worker_min mean_poll_duration_worker_max poll_time_histogram
    num_remote_schedules blocking_queue_depth blocking_threads_count
    idle_blocking_threads_count budget_forced_yield_count io_driver_ready_count busy_ratio
    mean_polls_per_park""".split()
LINTS = ["self-wakes", "lost-waker", "never-yielded", "auto-boxed-future", "large-future"]


class Recorded:
    def __init__(self, options, folder, workers, scratch):
        self.kymo = str(options.build / "kymo")
        self.trace = str(pathlib.Path(scratch) / f"{workers}.trc")
        done = subprocess.run(
            [self.kymo, "run", "-q", "-o", self.trace, "--", str(folder / "measured"),
             str(workers)], capture_output=True, text=True, timeout=120, check=True)
        self.witness = json.loads(done.stdout.splitlines()[-1])

    def rows(self, table):
        done = subprocess.run(
            [self.kymo, "query", "--json", f"SELECT * FROM {table}", self.trace],
            capture_output=True, text=True, timeout=120, check=True)
        return json.loads(done.stdout)["rows"]


def is_within(row, value):
    if row["state"] == "exact":
        return row["value"] == row["value_max"] == value
    return row["state"] == "bounded" and row["value"] <= value and (
        row["value_max"] is None or value <= row["value_max"])


def check_names(tap, name, tasks, runtime, lints):
    for kind in {row["site"] for row in tasks}:
        names = [row["metric"] for row in tasks if row["site"] == kind]
        tap.check(sorted(names) == sorted(TASK), f"{name}: every metric of {kind}, once")
    names = {row["metric"] for row in runtime}
    tap.check(names == set(RUNTIME), f"{name}: every metric of the runtime",
              str(names ^ set(RUNTIME)))
    tap.check({row["lint"] for row in lints} == set(LINTS), f"{name}: every lint")
    missing = [row for row in (*tasks, *runtime, *lints)
               if row["state"] != "exact" and not row["note"]]
    tap.check(not missing, f"{name}: what is not exact says why", str(missing))


def check_tasks(tap, name, witness, tasks, is_alone):
    for kind, counts in witness.items():
        rows = {row["metric"]: row for row in tasks if f"::{kind}::" in row["site"]}
        for metric, value in counts.items():
            row = rows.get(metric)
            # With several workers a wake may fall between Tokio's begin of a poll and the future's.
            if not is_alone and metric in ("total_idled_count", "total_scheduled_count"):
                continue
            tap.check(row and row["state"] == "exact" and row["value"] == value,
                      f"{name}: {metric} of {kind} is {value}", str(row))


def check_runtime(tap, name, witness, runtime):
    rows = {row["metric"]: row for row in runtime}
    for metric, value in witness.items():
        row = rows[metric]
        tap.check(row["state"] == "not recorded" or is_within(row, value),
                  f"{name}: {metric} is {row['state']}", f"Tokio {value}, kymo {row}")
    for metric in ("live_tasks_count", "total_polls_count", "max_polls_count"):
        tap.check(rows[metric]["state"] == "exact", f"{name}: {metric} is exact", str(rows[metric]))
    for row in runtime:
        if row["state"] == "not recorded":
            continue
        tap.check(row["value"] is not None, f"{name}: {row['metric']} has a value", str(row))
    per_park = witness["total_polls_count"] * 10 ** 6 // max(
        witness["total_park_count"] - witness["total_noop_count"], 1)
    tap.check(is_within(rows["mean_polls_per_park"], per_park), f"{name}: polls per park",
              f"Tokio {per_park}, kymo {rows['mean_polls_per_park']}")
    polls = sum(row["value"] for row in runtime if row["metric"] == "poll_time_histogram")
    tap.check(polls == witness["total_polls_count"], f"{name}: the histogram has every poll",
              str(polls))


def check_lints(tap, name, lints, count):
    of = {(row["lint"], kind): row for row in lints for kind in ("self_wake", "yields", "waits")
          if f"::{kind}::" in row["site"]}
    tap.check(of["self-wakes", "self_wake"]["value"] == count,
              f"{name}: tasks that wake themselves", str(of["self-wakes", "self_wake"]))
    tap.check(of["self-wakes", "yields"]["value"] == 0,
              f"{name}: one that yields is woken by its worker", str(of["self-wakes", "yields"]))
    row = of["lost-waker", "waits"]
    tap.check((row["value"], row["value_max"]) == (0, 2), f"{name}: two may have lost their wakers",
              str(row))


def main():
    options = options_of(__doc__)
    if shutil.which("cargo") is None:
        print("1..0 # SKIP no cargo here")
        return 0
    tap = Tap()
    # Optimized, futures of one shape share their code, and so are one kind of task.
    folder = build(options.target, "newest", "unstable", "debug", "pie", programs=["measured"])
    with tempfile.TemporaryDirectory(prefix="kymo-metrics-") as scratch:
        for workers in (1, 2, 0):
            run = Recorded(options, folder, workers, scratch)
            name = f"{workers} workers" if workers else "current thread"
            tasks, runtime = run.rows("task_metrics"), run.rows("runtime_metrics")
            lints = run.rows("console_lints")
            counted = run.witness.pop("runtime")
            check_names(tap, name, tasks, runtime, lints)
            check_tasks(tap, name, run.witness, tasks, workers != 2)
            check_runtime(tap, name, counted, runtime)
            check_lints(tap, name, lints, run.witness["self_wake"]["instrumented_count"])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
