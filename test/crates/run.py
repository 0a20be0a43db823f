#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The crates: does a program with the one line record exactly what it says about itself?

    run.py [--gate | --matrix] [--only TEXT] [--build DIR] [--target DIR]

Builds and runs the examples of crates/ and reads their traces with `kymo`. --gate: the smallest
one alone, as a release build. --matrix: that one as each build of MATRIX. Output is TAP.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "test" / "tokio"), str(ROOT / "test" / "lib")]
from matrix import Tap  # noqa: E402  pylint: disable=wrong-import-position
from sdt_notes import probes  # noqa: E402  pylint: disable=wrong-import-position

RUN_S = 120


class Ran:
    """A program that has ended, and the folder with its traces."""

    def __init__(self, done, folder):
        self.status, self.out, self.errors = done.returncode, done.stdout, done.stderr
        self.folder = folder

    def detail(self):
        return f"exit status {self.status}\n{self.out}\n{self.errors}"


def run(argv, folder, **variables):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("KYMO_")}
    environment.update(KYMO_MODE="stream", KYMO_TRACE_DIR=str(folder / "traces"),
                       KYMO_RING_DIR=str(folder / "rings"))
    environment.update(variables)
    (folder / "rings").mkdir(mode=0o700, exist_ok=True)
    return Ran(subprocess.run([str(word) for word in argv], env=environment, cwd=folder, text=True,
                              capture_output=True, timeout=RUN_S, check=False), folder)


def counts(kymo, traces):
    """{"PollStartEvent": 10050, ...} of every segment in the folder."""
    done = subprocess.run([kymo, "info", traces], text=True, capture_output=True, check=False)
    table, is_table = {}, False
    for line in done.stdout.splitlines():
        words = line.split()
        if words[:1] == ["Event"]:
            is_table = True
        elif is_table and len(words) == 2:
            table[words[0]] = int(words[1].replace(",", ""))
        elif is_table:
            break
    return table


def build(options, package, *arguments, profile="release", target=None, flags=None):
    environment = dict(os.environ, CARGO_TARGET_DIR=str(target or options.target),
                       **({"RUSTFLAGS": flags} if flags else {}))
    done = subprocess.run(
        ["cargo", "build", "--locked", "--quiet", "--profile", profile, "-p", package, *arguments],
        cwd=ROOT / "crates", env=environment, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"cargo build -p {package} failed:\n{done.stderr}")
    return (target or options.target) / ("debug" if profile == "dev" else profile) / "examples"


def compare(tap, options, name, ran):
    """The polls of the trace are those that the program counted."""
    found = counts(options.kymo, ran.folder / "traces")
    detail = f"{found}\n{ran.detail()}"
    said = ran.out.split()
    tap.check(ran.status == 0 and len(said) == 1, f"{name}: ends as without kymo", detail)
    tap.check(said and found.get("PollStartEvent") == int(said[0]) == found.get("PollEndEvent"),
              f"{name}: every poll is recorded once", detail)
    tap.check(found.get("TaskTerminateEvent") == 50, f"{name}: every end is recorded once", detail)


def check_minimal(tap, options):
    """One line in main: alone, stripped, under `kymo run`, switched off, and in flight mode."""
    program = build(options, "kymo", "--example", "minimal") / "minimal"
    with tempfile.TemporaryDirectory(prefix="kymo-crates-") as name:
        folder = pathlib.Path(name)
        for case in ("alone", "stripped", "run", "off", "wrong", "flight"):
            (folder / case).mkdir()
        compare(tap, options, "minimal", run([program], folder / "alone"))

        bare = folder / "bare"
        subprocess.run(["strip", "-o", bare, program], check=True)
        ran = run([bare], folder / "stripped")
        compare(tap, options, "minimal, stripped", ran)
        names = {f"{probe.provider}:{probe.name}" for probe in probes(bare)
                 if probe.semaphore}
        tap.check(len(names) == 13 and "tokio:task__poll__start" in names,
                  "minimal, stripped: tracers find its probes", str(names))
        tap.check("shaped=0" not in ran.errors and "ok tables=" in ran.errors,
                  "minimal, stripped: its tables were found by their shape", ran.errors)

        ran = run([options.kymo, "run", "-o", folder / "run" / "traces", "--", program],
                  folder / "run")
        compare(tap, options, "minimal, under kymo run", ran)
        runs = list((folder / "run" / "traces").rglob("*.trc*"))
        tap.check("records itself" in ran.errors and len(runs) == 1,
                  "under kymo run the crate alone records, and the launcher says so",
                  f"{runs}\n{ran.errors}")

        ran = run([program], folder / "off", KYMO_ENABLED="false")
        tap.check(ran.status == 0 and not (folder / "off" / "traces").exists(),
                  "switched off it leaves no trace", ran.detail())
        ran = run([program], folder / "wrong", KYMO_RING_BYTES="many")
        tap.check(ran.status == 0 and "KYMO_RING_BYTES" in ran.errors and "many" in ran.errors,
                  "a variable that makes no sense is named, and the program runs", ran.detail())
        ran = run([program], folder / "flight", KYMO_MODE="flight")
        tap.check(ran.status == 0 and not list((folder / "flight").rglob("*.trc*"))
                  and not list((folder / "flight" / "rings").iterdir()),
                  "in flight mode it leaves neither a trace nor its ring", ran.detail())


def events_of(kymo, traces):
    done = subprocess.run([kymo, "events", "--json", traces], text=True, capture_output=True,
                          check=False)
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_help(tap, options):
    """`kymo help environment` has the knobs of the crate."""
    listed = subprocess.run([options.kymo, "help", "environment"], text=True, capture_output=True,
                            check=False).stdout
    config = (ROOT / "crates" / "kymo" / "src" / "config.rs").read_text()
    knobs = config.split("\nknobs! {\n", 1)[1].split("\n}\n", 1)[0]
    names = re.findall(r'"(KYMO_[A-Z_]+)"', knobs)
    tap.check(len(names) > 15 and not [name for name in names if f"  {name}\n" not in listed],
              "kymo help environment lists what the crate reads", f"{names}\n{listed}")


def check_events(tap, options):
    """Events, spans, requests, counters and labels of the application, as it wrote them."""
    program = build(options, "kymo", "--example", "events") / "events"
    with tempfile.TemporaryDirectory(prefix="kymo-crates-") as name:
        ran = run([program], pathlib.Path(name))
        tap.check(ran.status == 0 and ran.out.split() == ["100"], "events: ends as without kymo",
                  ran.detail())
        rows = events_of(options.kymo, ran.folder / "traces")
        tap.check(not [row for row in rows if row["event"] == "LossEvent"],
                  "events: nothing is lost")
        orders = {row["fields"]["id"]: row["fields"] for row in rows
                  if row["event"] == "OrderPlaced"}
        wanted = {number: {
            "id": number, "price": number / 4, "took": number * 1000,
            "note": "näher" * (number % 5), "is_gift": number % 2 == 0, "balance": -number,
            "to.country": "de", "to.zip": None if number % 3 else 10115,
            "items": list(range(number % 4)), "tags": ["new", "shop"],
            "coupon": "spring" if number % 2 else None,
            "weights": [["box", 1.5], ["lid", 0.25]], "rows": [[-1, 1], []],
        } for number in range(100)}
        found = {number: {key: fields.get(key) for key in wanted[0]}
                 for number, fields in orders.items()}
        tap.check(found == wanted, "events: each has the values that were written", str(found))
        tap.check(all(fields["task_id"] for fields in orders.values()),
                  "events: each names the task that is polled", str(orders))
        begun = {row["fields"]["span_id"]: row["fields"] for row in rows
                 if row["event"].startswith("SpanEnter")}
        parents = [begun.get(fields["parent_span_id"], {}).get("span_name")
                   for fields in begun.values() if fields["span_name"] == "place order"]
        tap.check(parents == ["POST /order"] * 100,
                  "events: a span in a spawned task belongs to the request", str(parents))
        ended = [row for row in rows if row["event"].startswith("SpanExit")]
        tap.check(len(begun) == len(ended) == 200, "events: every span begins and ends")
        marks = [row for row in rows if row["event"] == "AnnotationEvent"]
        tap.check(len(marks) == 1 and "the shop opens" in str(marks), "events: the label is there",
                  str(marks))
        counters = [row["fields"] for row in rows if row["event"] == "CounterEvent"]
        tap.check(counters and 100 in counters[-1].values(), "events: the counter's last value",
                  str(counters))


def check_runtimes(tap, options):
    """Recorded from after the first runtime began until before it ended, with five in all."""
    program = build(options, "kymo", "--example", "runtimes") / "runtimes"
    with tempfile.TemporaryDirectory(prefix="kymo-crates-") as name:
        ran = run([program], pathlib.Path(name))
        found = counts(options.kymo, ran.folder / "traces")
        detail = f"{found}\n{ran.detail()}"
        tap.check(ran.status == 0 and found.get("PollStartEvent") == int(ran.out or 0),
                  "runtimes: every poll between start and shutdown, and no other", detail)
        tap.check(found.get("TaskTerminateEvent") == 38 and found.get("RuntimeEvent") == 5,
                  "runtimes: five runtimes, each with its tasks", detail)


def check_attached(tap, options):
    """Runtimes with names and their own numbers, a source, a dump that is read while it is made."""
    program = build(options, "kymo", "--example", "named_runtimes", "--features",
                    "metrics") / "named_runtimes"
    with tempfile.TemporaryDirectory(prefix="kymo-crates-") as name:
        ran = run([program], pathlib.Path(name))
        tap.check(ran.status == 0 and ran.out.split() == ["true"] * 3,
                  "attached: the program's callbacks run, a dump is read, a source ends",
                  ran.detail())
        rows = events_of(options.kymo, ran.folder / "traces")
        named = {row["fields"]["name"]: row["fields"]["kind"] for row in rows
                 if row["event"] == "RuntimeEvent" and row["fields"]["name"]}
        tap.check(named == {"front": 1, "back": 2}, "attached: both runtimes have their names",
                  str(named))
        numbers = [row["fields"] for row in rows if row["event"] == "RuntimeMetricsEvent"]
        front = [row for row in numbers if row["runtime_name"] == "front"]
        tap.check({row["runtime_name"]: row["workers"] for row in numbers}
                  == {"front": 2, "back": 1}, "attached: numbers of both", str(numbers))
        tap.check(front and front[-1]["alive_tasks"] == 7 and front[-1]["parks"] > 0
                  and front[-1]["steals"] is None,
                  "attached: the last ones are those of the tasks that wait; what stable Tokio "
                  "does not say is absent", str(front[-1:]))
        info = subprocess.run([options.kymo, "info", ran.folder / "traces"], text=True,
                              capture_output=True, check=False).stdout
        tap.check("source.samples" in info, "attached: the trace names its sources", info)


def check_names(tap, options, program, folder):
    """In flight mode, dumped from another process: the trace names the types of axum's tasks."""
    environment = dict(os.environ, KYMO_RING_DIR=str(folder / "rings"))
    with subprocess.Popen([program], stdout=subprocess.PIPE, text=True, env=environment,
                          cwd=folder) as service:
        address = service.stdout.readline().split()[0]
        subprocess.run(["curl", "-sf", "-o", folder / "answer", address], check=False)
        done = subprocess.run([options.kymo, "dump", str(service.pid), "-o",
                               folder / "asked.trc"], env=environment, text=True,
                              capture_output=True, check=False)
        service.terminate()
        tap.check(service.wait(timeout=30) == 0, "axum: it ends gracefully at SIGTERM")
    report = subprocess.run([options.kymo, "report", "--full", folder / "asked.trc"], text=True,
                            capture_output=True, check=False).stdout
    tap.check("axum" in report and "handle_connection" in report,
              "axum: a dump by `kymo dump` names the types of its connections",
              done.stdout + done.stderr + report)


def task_names(kymo, traces):
    """The first words of each kind of task in a trace."""
    return {row["fields"]["spawn_loc"].split("<")[0] for row in events_of(kymo, traces)
            if row["event"] == "TaskFirstSeenEvent"}


def check_own_names(tap, options, program, folder):
    """The trace that the program wrote itself, and one without names."""
    found = task_names(options.kymo, folder / "traces")
    tap.check(found == {"hyper::server::conn::http1::Connection",
                        "hyper_server::serve::{{closure}}"},
              "hyper: its own trace names the types of its tasks", str(found))
    (folder / "plain").mkdir()
    ran = run([program], folder / "plain", KYMO_TASK_NAMES="false")
    found = task_names(options.kymo, ran.folder / "traces")
    tap.check(len(found) == 2 and all(name.startswith("hyper_server+0x") for name in found),
              "hyper: with KYMO_TASK_NAMES=false they are addresses", str(found))


def check_libraries(tap, options):
    """Tasks that libraries spawn: hyper's connections, axum's; and spans of tracing."""
    folder = build(options, "kymo-examples", "--bins").parent
    with tempfile.TemporaryDirectory(prefix="kymo-crates-") as name:
        for case in ("hyper", "service", "traced"):
            (pathlib.Path(name) / case).mkdir()
        ran = run([folder / "hyper_server"], pathlib.Path(name) / "hyper")
        found = counts(options.kymo, ran.folder / "traces")
        tap.check(ran.status == 0 and ran.out.split() == ["400"],
                  "hyper: every request is answered", ran.detail())
        tap.check(found.get("TaskTerminateEvent") == found.get("TaskFirstSeenEvent") == 9,
                  "hyper: its 8 connections and the server are seen from their begin to their end",
                  str(found))
        check_own_names(tap, options, folder / "hyper_server", pathlib.Path(name) / "hyper")
        ran = run([folder / "service", "--load"], pathlib.Path(name) / "service")
        rows = events_of(options.kymo, ran.folder / "traces")
        spans = [row for row in rows if row["event"].startswith("SpanExit")]
        tap.check(ran.status == 0 and ran.out.split() == ["400"] and len(spans) == 400,
                  "axum: every request is answered, and each is a span", ran.detail())
        check_names(tap, options, folder / "service", pathlib.Path(name) / "service")
        ran = run([folder / "traced"], pathlib.Path(name) / "traced")
        rows = events_of(options.kymo, ran.folder / "traces")
        paid = [row["fields"] for row in rows if row["event"] == "INFO traced"]
        tap.check(ran.status == 0 and len(paid) == 10
                  and all(row["cents"] == -5 and row["ratio"] == 0.5 for row in paid),
                  "tracing: events with their values", str(paid))
        opened = {row["fields"]["span_id"]: row["fields"] for row in rows
                  if row["event"].startswith("SpanEnter")}
        nested = [fields for fields in opened.values() if fields["span_name"] == "stock"]
        tap.check([opened[row["parent_span_id"]]["span_name"] for row in nested]
                  == ["checkout"] * 10, "tracing: spans with their parents", str(opened))
        check_entered(tap, options, rows, opened, ran)


def check_entered(tap, options, rows, opened, ran):
    """A future's span is entered with each of its polls, and once more to be dropped."""
    begun = [row["fields"] for row in rows if row["event"] == "SpanRunStartEvent"]
    ended = [row["fields"] for row in rows if row["event"] == "SpanRunEndEvent"]
    times = {name: sum(1 for row in begun if opened[row["span_id"]]["span_name"] == name)
             for name in ("checkout", "stock", "after")}
    tap.check(times == {"checkout": 40, "stock": 30, "after": 10} and len(ended) == len(begun),
              "tracing: each enter and exit", str(times))
    tap.check(all(row["task_id"] for row in begun), "tracing: each with the task that is polled",
              str(begun))
    follows = {opened[row["fields"]["span_id"]]["span_name"]:
               opened[row["fields"]["follows_from"]]["span_name"]
               for row in rows if row["event"] == "SpanFollowsEvent"}
    tap.check(follows == {"after": "stock"}, "tracing: what a span follows from", str(follows))
    done = subprocess.run(
        [options.kymo, "query", "--json", "SELECT enters FROM spans WHERE name = 'stock' AND "
         "active_ns > 0 AND active_ns <= duration_ns", ran.folder / "traces"], text=True,
        capture_output=True, check=False)
    tap.check([row["enters"] for row in json.loads(done.stdout or '{"rows": []}')["rows"]]
              == [3] * 10, "tracing: kymo query says how often and how long they were entered",
              done.stdout + done.stderr)


def check_modules(tap, target, features, flags=None):
    """What the crate's modules test themselves."""
    done = subprocess.run(
        ["cargo", "test", "--locked", "--quiet", "-p", "kymo", "--lib", "--features", features],
        cwd=ROOT / "crates", text=True, capture_output=True, check=False,
        env=dict(os.environ, CARGO_TARGET_DIR=str(target),
                 **({"RUSTFLAGS": flags} if flags else {})))
    tap.check(done.returncode == 0, f"modules, {features}", done.stdout + done.stderr)


def check_tests(tap, options):
    """A test that fails leaves a trace; every example in the documentation runs."""
    with tempfile.TemporaryDirectory(prefix="kymo-crates-") as name:
        environment = dict(os.environ, CARGO_TARGET_DIR=str(options.target), KYMO_TEST_DIR=name)
        done = subprocess.run(
            ["cargo", "test", "--locked", "--quiet", "-p", "kymo-examples", "--test",
             "keeps_a_trace", "--", "--include-ignored"],
            cwd=ROOT / "crates", env=environment, text=True, capture_output=True, check=False)
        found = list(pathlib.Path(name).rglob("*fails*.trc*"))
        tap.check("1 passed; 1 failed" in done.stdout and len(found) == 1,
                  "a test that fails leaves one trace, with its name", done.stdout + done.stderr)
        tap.check(found and counts(options.kymo, found[0]).get("PollEndEvent", 0) >= 1,
                  "the trace has its polls", str(found))
    check_modules(tap, options.target, "tracing")
    done = subprocess.run(
        ["cargo", "test", "--locked", "--quiet", "-p", "kymo", "--doc", "--features",
         "tracing,toml,metrics"],
        cwd=ROOT / "crates", env=dict(os.environ, CARGO_TARGET_DIR=str(options.target)),
        text=True, capture_output=True, check=False)
    tap.check(done.returncode == 0, "examples of the documentation", done.stdout + done.stderr)
    done = subprocess.run(
        ["cargo", "clippy", "--locked", "--quiet", "--workspace", "--all-targets", "--features",
         "kymo/tracing,kymo/toml,kymo/metrics", "--", "-D", "warnings"],
        cwd=ROOT / "crates", env=dict(os.environ, CARGO_TARGET_DIR=str(options.target)),
        text=True, capture_output=True, check=False)
    tap.check(done.returncode == 0, "clippy has no warning", done.stdout + done.stderr)


def check_features(tap, options):
    """zstd and TOML: what the default build has not."""
    program = build(options, "kymo", "--example", "events", "--features", "zstd,toml") / "events"
    with tempfile.TemporaryDirectory(prefix="kymo-crates-") as name:
        folder = pathlib.Path(name)
        file = folder / "kymo.toml"
        file.write_text('ring_bytes = "8M"\nfatal_signals = true\ntriggers = ["poll>9s"]\n')
        ran = run([program], folder, KYMO_CONFIG=str(file))
        packed = list((folder / "traces").rglob("*.trc.zst"))
        info = subprocess.run([options.kymo, "info", folder / "traces"], text=True,
                              capture_output=True, check=False).stdout
        tap.check(ran.status == 0 and len(packed) == 1 and " 8388608" in info,
                  "features: a compressed trace, with the file's size of the ring",
                  ran.detail() + info)
        file.write_text("ringbytes = 1\n")
        ran = run([program], folder, KYMO_CONFIG=str(file))
        tap.check(ran.status == 0 and "ringbytes: there is no such key" in ran.errors,
                  "features: a key that there is not is named, and the program runs", ran.errors)


def check_attacked(tap, options):
    """A program does the same with and without recording, whatever it does."""
    program = build(options, "kymo", "--example", "attacked") / "attacked"
    with tempfile.TemporaryDirectory(prefix="kymo-crates-") as name:
        for case in ("panics", "mutual", "wakers", "churn", "many", "million", "signals",
                     "restarts", "threadless", "forks", "aborts"):
            folder = pathlib.Path(name) / case
            folder.mkdir()
            # Room for all of it, however slow the recorder's thread is.
            more = {"KYMO_RING_BYTES": "256M"} if case == "million" else {}
            plain = run([program, case], folder, KYMO_ENABLED="false")
            bare = folder / "attacked"
            subprocess.run(["strip", "-o", bare, program], check=True)
            for what, argv in (("", program), (", stripped", bare)):
                ran = run([argv, case], folder, **more)
                tap.check((ran.status, ran.out) == (plain.status, plain.out),
                          f"attacked: {case}{what}: as without recording",
                          f"{plain.detail()}\nrecorded:\n{ran.detail()}")
            if case == "aborts":
                left = list((folder / "rings").iterdir())
                done = subprocess.run(
                    [options.kymo, "recover", "--ring-dir", folder / "rings", "-o",
                     folder / "recovered"], text=True, capture_output=True, check=False)
                found = list((folder / "recovered").rglob("*.trc*"))
                tap.check(left and found, "attacked: what an abort left is recovered",
                          f"{left}\n{done.stdout}{done.stderr}")
            else:
                found = counts(options.kymo, folder / "traces")
                tap.check(found.get("PollStartEvent", 0) > 0
                          and "LossEvent" not in found or case == "restarts",
                          f"attacked: {case}: a trace without a loss", str(found))


def check_sanitized(tap, options):
    """A host that is built with AddressSanitizer: the recorder's C code is not, and must not be
    seen to do what it may not."""
    host = subprocess.run(["rustc", "-vV"], text=True, capture_output=True, check=True).stdout
    host = next(line[6:] for line in host.splitlines() if line.startswith("host: "))
    target = options.build / "crates-matrix" / "sanitized"
    # The compiler's own switch for what is not stable yet: it ships the sanitizer all the same.
    done = subprocess.run(
        ["cargo", "build", "--locked", "--quiet", "--target", host, "-p", "kymo", "--example",
         "attacked"], cwd=ROOT / "crates", text=True, capture_output=True, check=False,
        env=dict(os.environ, CARGO_TARGET_DIR=str(target), RUSTC_BOOTSTRAP="1",
                 RUSTFLAGS="-Zsanitizer=address"))
    tap.check(done.returncode == 0, "sanitized: builds", done.stderr)
    if done.returncode:
        return
    program = target / host / "debug" / "examples" / "attacked"
    with tempfile.TemporaryDirectory(prefix="kymo-crates-") as name:
        for case in ("panics", "mutual", "wakers", "signals"):
            folder = pathlib.Path(name) / case
            folder.mkdir()
            plain = run([program, case], folder, KYMO_ENABLED="false")
            ran = run([program, case], folder)
            tap.check((ran.status, ran.out) == (plain.status, plain.out) and not plain.status
                      and "AddressSanitizer" not in ran.errors,
                      f"sanitized: {case}: as without recording, and no error",
                      f"{plain.detail()}\nrecorded:\n{ran.detail()}")
            found = counts(options.kymo, folder / "traces")
            tap.check(found.get("PollStartEvent", 0) > 0, f"sanitized: {case}: a trace",
                      f"{found}\n{ran.errors}")


def check_hook(tap, options):
    """A panic makes a dump, and the program's own hook still runs; under panic = "abort", too."""
    for profile, status in (("release", 0), ("abort", -6)):
        program = build(options, "kymo", "--example", "attacked", profile=profile) / "attacked"
        label = f"hook, panic in {profile}"
        with tempfile.TemporaryDirectory(prefix="kymo-crates-") as name:
            ran = run([program, "hook"], pathlib.Path(name), KYMO_MODE="flight")
            dumps = list(ran.folder.rglob("dump-*-panic.trc"))
            tap.check(ran.status == status and ran.out.startswith("the program's own hook\n"),
                      f"{label}: ends as without kymo", ran.detail())
            tap.check(len(dumps) == 1
                      and counts(options.kymo, dumps[0]).get("PollStartEvent", 0) >= 1,
                      f"{label}: one dump, with the poll that panicked", str(dumps))
            if status:
                left = list((ran.folder / "rings").iterdir())
                done = subprocess.run(
                    [options.kymo, "recover", "--ring-dir", ran.folder / "rings", "-o",
                     ran.folder / "recovered"], text=True, capture_output=True, check=False)
                tap.check(left and list((ran.folder / "recovered").rglob("*.trc*")),
                          f"{label}: what it left is recovered", done.stdout + done.stderr)


def check_allocations(tap, options):
    """The global allocator: each large block, when it is freed, and what lives at the end."""
    program = build(options, "kymo", "--example", "allocations") / "allocations"
    with tempfile.TemporaryDirectory(prefix="kymo-crates-") as name:
        ran = run([program], pathlib.Path(name), KYMO_ALLOC="1K")
        rows = [row for row in events_of(options.kymo, ran.folder / "traces")
                if row["fields"].get("size") == 1 << 20]
        made = [row for row in rows if row["event"] == "AllocEvent"]
        tap.check(ran.status == 0 and ran.out.split() == [str(32 << 20)],
                  "allocations: ends as without kymo", ran.detail())
        tap.check([len([row for row in made if row["fields"]["since_ns"] == 0]),
                   len([row for row in made if row["fields"]["since_ns"]]),
                   len([row for row in rows if row["event"] == "FreeEvent"])] == [64, 32, 32],
                  "allocations: 64 large blocks, of which 32 are freed and 32 live at the end",
                  str(rows))
        tap.check(all(row["fields"]["task_id"] for row in made if not row["fields"]["since_ns"]),
                  "allocations: each has the task that made it", str(made[:1]))


def check_wrapped(tap, options):
    """Where Tokio's tables may not be used: what kymo::spawn starts, and the trace says why."""
    program = build(options, "kymo", "--example", "events") / "events"
    with tempfile.TemporaryDirectory(prefix="kymo-crates-") as name:
        ran = run([program], pathlib.Path(name), KYMO_INTERCEPT="false")
        found = counts(options.kymo, ran.folder / "traces")
        tap.check(ran.status == 0 and ran.out.split() == ["100"] and "intercept" in ran.errors,
                  "wrapped: ends as without kymo, and says what is not recorded", ran.detail())
        wanted = {"PollStartEvent": 200, "PollEndEvent": 200, "WakeEventEvent": 100,
                  "TaskTerminateEvent": 100}
        tap.check({key: found.get(key) for key in wanted} == wanted,
                  "wrapped: polls, wakes and ends of what kymo::spawn started", str(found))
        info = subprocess.run([options.kymo, "info", ran.folder / "traces"], text=True,
                              capture_output=True, check=False).stdout
        tap.check("intercept = false" in info, "wrapped: the trace says why", info)


CRATE = """[package]
name = "pinned"
version = "0.1.0"
edition = "2021"

[workspace]

[dependencies]
kymo = {{ path = "{kymo}" }}
tokio = {{ version = "{tokio}", features = ["macros", "rt-multi-thread", "time"] }}

[profile.fat]
inherits = "release"
lto = "fat"
codegen-units = 1

[profile.abort]
inherits = "release"
panic = "abort"
"""
# (Tokio, flags of the compiler, profile)
MATRIX = [
    ("~1.38", "", "dev"), ("~1.38", "--cfg tokio_unstable", "fat"), ("~1.43", "", "release"),
    ("~1.43", "--cfg tokio_unstable", "dev"), ("~1.47", "", "fat"), ("~1.51", "", "release"),
    ("~1.51", "--cfg tokio_unstable", "release"), ("1", "--cfg tokio_unstable", "release"),
    ("1", "-C relocation-model=static", "release"), ("1", "-C target-feature=+crt-static", "fat"),
    ("1", "-C symbol-mangling-version=v0", "dev"), ("1", "", "fat"), ("1", "", "abort"),
]
# Each costs a minute of CPU time; what they have most often differed in.
FEW = [MATRIX[1], MATRIX[9]]


def pinned(options, tokio, flags, profile):
    """The smallest example on one Tokio. Returns the program; an error's text where it fails."""
    name = "".join(letter if letter.isalnum() else "_" for letter in f"{tokio}{flags}")
    folder = options.build / "crates-matrix" / name
    (folder / "src").mkdir(parents=True, exist_ok=True)
    (folder / "Cargo.toml").write_text(CRATE.format(kymo=ROOT / "crates" / "kymo", tokio=tokio))
    source = (ROOT / "crates" / "kymo" / "examples" / "minimal.rs").read_text()
    (folder / "src" / "main.rs").write_text(source)
    host = subprocess.run(["rustc", "-vV"], text=True, capture_output=True, check=True).stdout
    host = next(line[6:] for line in host.splitlines() if line.startswith("host: "))
    done = subprocess.run(
        ["cargo", "build", "--quiet", "--target", host, "--profile", profile],
        cwd=folder, text=True, capture_output=True, check=False,
        env=dict(os.environ, CARGO_TARGET_DIR=str(folder / "target"), RUSTFLAGS=flags))
    if done.returncode != 0:
        return None, done.stderr
    return folder / "target" / host / ("debug" if profile == "dev" else profile) / "pinned", ""


def check_matrix(tap, options):
    for tokio, flags, profile in MATRIX if options.matrix else FEW:
        label = f"Tokio {tokio} {flags or 'stable'} {profile}"
        program, why = pinned(options, tokio, flags, profile)
        tap.check(program is not None, f"{label}: builds", why)
        if not program:
            continue
        with tempfile.TemporaryDirectory(prefix="kymo-crates-") as name:
            for case in ("whole", "bare"):
                (pathlib.Path(name) / case).mkdir()
            compare(tap, options, label, run([program], pathlib.Path(name) / "whole"))
            bare = pathlib.Path(name) / "pinned"
            subprocess.run(["strip", "-o", bare, program], check=True)
            compare(tap, options, f"{label}, stripped", run([bare], pathlib.Path(name) / "bare"))


def check_unstable_numbers(tap, options):
    """What Tokio says of a runtime with `tokio_unstable` alone: queues, steals, the pool."""
    folder = build(options, "kymo", "--example", "named_runtimes", "--features", "metrics",
                   profile="dev", target=options.build / "crates-matrix" / "unstable",
                   flags="--cfg tokio_unstable")
    with tempfile.TemporaryDirectory(prefix="kymo-crates-") as name:
        ran = run([folder / "named_runtimes"], pathlib.Path(name))
        rows = [row["fields"] for row in events_of(options.kymo, ran.folder / "traces")
                if row["event"] == "RuntimeMetricsEvent"]
        absent = {name for row in rows for name, value in row.items() if value is None}
        tap.check(ran.status == 0 and rows and not absent,
                  "unstable: every number of a runtime is there", f"{absent}\n{ran.detail()}")
        front = [row for row in rows if row["runtime_name"] == "front"]
        tap.check(front and front[-1]["spawned"] >= front[-1]["alive_tasks"] == 7,
                  "unstable: the last ones count the tasks", str(front[-1:]))


def check_hooks(tap, options):
    """Callbacks of Tokio's builder: beside intercepted tasks, and in their place."""
    program = build(options, "kymo", "--example", "hooks", "--features", "hooks,metrics",
                    profile="dev", target=options.build / "crates-matrix" / "unstable",
                    flags="--cfg tokio_unstable") / "hooks"
    with tempfile.TemporaryDirectory(prefix="kymo-crates-") as name:
        for case in ("off", "beside", "instead"):
            (pathlib.Path(name) / case).mkdir()
        plain = run([program], pathlib.Path(name) / "off", KYMO_ENABLED="false")
        spawns, polls = json.loads(plain.out or "[0, 0]")[:2]
        ran = run([program], pathlib.Path(name) / "beside")
        rows = events_of(options.kymo, ran.folder / "traces")
        check_same(tap, "hooks", plain, ran)
        check_places(tap, rows, spawns)
        found = counts(options.kymo, ran.folder / "traces")
        tap.check(found.get("PollStartEvent") == found.get("PollEndEvent") == polls,
                  "hooks: a poll that is intercepted is recorded once", f"{polls} {found}")
        depths = [row["fields"]["local_queue"] for row in rows
                  if row["event"] == "PollStartEvent"]
        tap.check(max(depths) >= 20, "hooks: polls say how many tasks lie in the worker's queue",
                  str(depths))

        ran = run([program], pathlib.Path(name) / "instead", KYMO_INTERCEPT="false")
        rows = events_of(options.kymo, ran.folder / "traces")
        found = counts(options.kymo, ran.folder / "traces")
        check_same(tap, "hooks, no interception", plain, ran)
        check_places(tap, rows, spawns)
        tap.check(found.get("PollStartEvent") == found.get("PollEndEvent") == polls,
                  "hooks, no interception: every poll once, also of what kymo::spawn wraps",
                  f"{polls} {found}")
        tap.check(found.get("TaskTerminateEvent") == spawns,
                  "hooks, no interception: every end", f"{spawns} {found}")
    check_modules(tap, options.build / "crates-matrix" / "unstable", "hooks,metrics,tracing",
                  "--cfg tokio_unstable")


def check_same(tap, label, plain, ran):
    tap.check((ran.status, ran.out) == (plain.status, plain.out) and plain.status == 0,
              f"{label}: the program's own callbacks are called as without kymo",
              f"{plain.detail()}\n{ran.detail()}")


def check_places(tap, rows, spawns):
    places = [row["fields"]["spawn_loc"] for row in rows if row["event"] == "TaskSpawnEvent"]
    known = [place for place in places if re.fullmatch(r".*examples/hooks\.rs:\d+:\d+", place)]
    tap.check(len(known) == len(places) == spawns and len(set(known)) == 6,
              "hooks: every spawn has its place in the source", str(places))


TWO = """
[dependencies.tokio_old]
package = "tokio"
path = "../tokio-old"
features = ["rt-multi-thread", "time"]
"""
TWO_MAIN = """
macro_rules! work { ($tokio:ident, $turns:expr) => {{
    let runtime = $tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()
        .expect("a runtime");
    runtime.block_on(async {
        let tasks: Vec<_> = (0..10).map(|_| $tokio::spawn(async {
            for _ in 1..$turns { $tokio::task::yield_now().await; }
        })).collect();
        for task in tasks { task.await.expect("a task panicked"); }
    });
}} }

fn main() {
    kymo::init();
    work!(tokio, 20);
    work!(tokio_old, 30);
    println!("{}", 10 * (20 + 30));
}
"""


def check_two_tokios(tap, options):
    """Two versions of Tokio in one program: the newest, and a copy of 1.38."""
    program, why = pinned(options, "~1.38", "", "dev")
    tap.check(program is not None, "two Tokios: the old one is there", why)
    if not program:
        return
    told = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--filter-platform",
         program.parents[1].name, "--manifest-path", program.parents[3] / "Cargo.toml"],
        text=True, capture_output=True, check=True).stdout
    old = next(pathlib.Path(one["manifest_path"]).parent for one in json.loads(told)["packages"]
               if one["name"] == "tokio")
    folder = options.build / "crates-matrix" / "two"
    (folder / "src").mkdir(parents=True, exist_ok=True)
    # Beside the folder: inside it, Cargo would take it for a member of the workspace.
    shutil.copytree(old, folder.parent / "tokio-old", dirs_exist_ok=True)
    text = CRATE.format(kymo=ROOT / "crates" / "kymo", tokio="1.54")
    (folder / "Cargo.toml").write_text(text + TWO)
    (folder / "src" / "main.rs").write_text(TWO_MAIN)
    done = subprocess.run(["cargo", "build", "--quiet", "--release"], cwd=folder, text=True,
                          capture_output=True, check=False,
                          env=dict(os.environ, CARGO_TARGET_DIR=str(folder / "target")))
    tap.check(done.returncode == 0, "two Tokios: builds", done.stderr)
    if done.returncode:
        return
    with tempfile.TemporaryDirectory(prefix="kymo-crates-") as name:
        ran = run([folder / "target" / "release" / "pinned"], pathlib.Path(name))
        found = counts(options.kymo, ran.folder / "traces")
        tap.check(ran.status == 0 and found.get("PollStartEvent") == int(ran.out or 0) == 500
                  and found.get("TaskTerminateEvent") == 20,
                  "two Tokios: every poll of both", f"{found}\n{ran.detail()}")
        copies = {row["fields"]["copy"] for row in events_of(options.kymo, ran.folder / "traces")
                  if row["event"] == "RuntimeEvent"}
        tap.check(len(copies) == 2, "two Tokios: their runtimes are kept apart", str(copies))


def check_package(tap, options):
    """The crate as it is published, built without a network in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="kymo-crates-") as name:
        folder = pathlib.Path(name)
        done = subprocess.run(
            ["cargo", "package", "--allow-dirty", "--no-verify", "--quiet", "-p", "kymo-sys"],
            cwd=ROOT / "crates", text=True, capture_output=True, check=False,
            env=dict(os.environ, CARGO_TARGET_DIR=str(options.target)))
        packed = sorted((options.target / "package").glob("kymo-sys-*.crate"))
        tap.check(done.returncode == 0 and packed, "kymo-sys packs", done.stderr)
        if not packed:
            return
        subprocess.run(["tar", "-xzf", packed[-1], "-C", folder], check=True)
        unpacked = next(folder.glob("kymo-sys-*"))
        files = [path.relative_to(unpacked) for path in unpacked.rglob("*") if path.is_file()]
        tap.check(not [path for path in unpacked.rglob("*") if path.is_symlink()] and
                  pathlib.Path("csrc/host_sources.txt") in files,
                  "it holds what its links point to", f"{len(files)} files")
        done = subprocess.run(
            ["cargo", "build", "--offline", "--quiet"], cwd=unpacked, text=True,
            capture_output=True, check=False,
            env=dict(os.environ, CARGO_TARGET_DIR=str(folder / "target")))
        tap.check(done.returncode == 0, "the unpacked crate builds offline", done.stderr[-2000:])


GATE = (check_help, check_minimal, check_events, check_wrapped)
ALL = GATE + (check_runtimes, check_attached, check_libraries, check_attacked, check_sanitized,
              check_hook, check_allocations, check_features, check_tests, check_package,
              check_two_tokios, check_unstable_numbers, check_hooks, check_matrix)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--gate", action="store_true")
    parser.add_argument("--matrix", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--target", type=pathlib.Path)
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.kymo = options.build / "kymo"
    options.target = (options.target or options.build / "cargo" / "crates").resolve()
    tap = Tap()
    done = subprocess.run(["tools/build.sh", "gcc", "kymo", "adapters/tokio/libkymo-preload.so"],
                          cwd=ROOT, text=True, capture_output=True, check=False)
    tap.check(done.returncode == 0, "kymo builds", done.stdout + done.stderr)
    for check in (check_matrix,) if options.matrix else GATE if options.gate else ALL:
        if options.only in check.__name__:
            began = time.monotonic()
            check(tap, options)
            print(f"# {check.__name__}: {time.monotonic() - began:.0f} s", flush=True)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
