#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a recorder meets in the wild, on real programs under `kymo run`.

    run.py [--build DIR] [--only TEXT]

DIR is a build of this tree without sanitizers. The Tokio programs are built below it with cargo.
Output is TAP; a case whose tools are missing here is skipped with its reason.
"""
import argparse
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import traceback

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LIBRARIES = "/usr/lib/*-linux-gnu"
DEADLINE_S = 240

# Cargo takes only one of all 1.x versions from one registry, so the old one comes from a folder.
OLD_TOKIO = "tokio-1.38.0"
OLD_TOKIO_LINES = f"""
tokio_old = {{ package = "tokio", path = "{OLD_TOKIO}", features = ["rt-multi-thread", "time"] }}

[[bin]]
name = "two_tokios"
path = "src/bin/two_tokios.rs"
"""

CASES = []


class Skip(Exception):
    """This case cannot run here; the text says why."""


def case(function):
    CASES.append(function)
    return function


def build_programs(target):
    """The Tokio programs, in a folder of their own beside the old Tokio's sources."""
    if shutil.which("cargo") is None:
        raise Skip("no cargo here")
    crate = target / "crate"
    crate.mkdir(parents=True, exist_ok=True)
    listed = subprocess.run(["cargo", "metadata", "--locked", "--format-version", "1",
                             "--manifest-path", ROOT / "test/tokio/v1_38/Cargo.toml"],
                            check=True, capture_output=True, text=True)
    old = next(pathlib.Path(package["manifest_path"]).parent
               for package in json.loads(listed.stdout)["packages"] if package["name"] == "tokio")
    if old.name != OLD_TOKIO:
        raise RuntimeError(f"test/tokio/v1_38 has {old.name}, this test wants {OLD_TOKIO}")
    if not (crate / OLD_TOKIO).exists():
        shutil.copytree(old, crate / "copying")
        manifest = crate / "copying" / "Cargo.toml"
        sections = re.split(r"(?m)^(?=\[)", manifest.read_text())
        manifest.write_text("".join(section for section in sections
                                    if "dev-dependencies" not in section.split("]")[0]))
        (crate / "copying").rename(crate / OLD_TOKIO)
    shutil.copytree(HERE / "src", crate / "src", dirs_exist_ok=True)
    shutil.copy(HERE / "Cargo.lock", crate)
    (crate / "Cargo.toml").write_text((HERE / "Cargo.toml").read_text() + OLD_TOKIO_LINES)
    done = subprocess.run(["cargo", "build", "--locked", "--release", "--quiet",
                           "--target-dir", target], cwd=crate, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"cargo build failed:\n{done.stderr}")
    return target / "release"


class Place:
    """A case's own folder, and the programs."""

    programs_folder = None

    def __init__(self, options):
        self.build = options.build
        self.kymo = options.build / "kymo"
        self.host = options.build / "test/reliability/reliability_host"
        self.library = options.build / "test/reliability/reliability_library.so"
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-reliability-"))
        self.traces = self.dir / "traces"
        self.rings = self.dir / "rings"

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def program(self, name):
        if Place.programs_folder is None:
            Place.programs_folder = build_programs(self.build / "cargo" / "reliability")
        return Place.programs_folder / name

    def run(self, *words, options=(), around=(), environment=None, rings=None):
        """Runs `around kymo run options -- words`; kymo's ending and streams."""
        line = [*around, self.kymo, "run", "--ring-dir", rings or self.rings, "-o", self.traces,
                *options, "--", *words]
        return subprocess.run([os.fspath(word) for word in line], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=DEADLINE_S, check=False,
                              env=dict(os.environ, **(environment or {})))

    def runs(self):
        return sorted(path.parent for path in self.traces.glob("*/20*/.kymo-run"))

    def info(self, path=None):
        done = subprocess.run([self.kymo, "info", "--json", path or self.traces], check=True,
                              capture_output=True, text=True)
        return json.loads(done.stdout)

    def counts(self, path=None):
        return {row["name"]: row["count"] for row in self.info(path)["types"]}

    def events(self, kind, path=None):
        if kind not in self.counts(path):
            return []
        done = subprocess.run([self.kymo, "events", "--format", "jsonl", "--type", kind,
                               path or self.traces], check=True, capture_output=True, text=True)
        return [json.loads(line)["fields"] for line in done.stdout.splitlines()]


def equal(got, wanted, what):
    if got != wanted:
        raise AssertionError(f"{what}: {got!r}, wanted {wanted!r}")


def check(is_good, what):
    if not is_good:
        raise AssertionError(what)


def ended_well(done, status=0):
    check(done.returncode == status, f"status {done.returncode}, wanted {status}: {done.stderr}")


def nothing_lost(done):
    check("nothing lost" in done.stderr, done.stderr)


def can_mount():
    """Words that run a shell line with mounts of its own."""
    for words in (["unshare", "-m"], ["unshare", "-r", "-m"]):
        try:
            done = subprocess.run([*words, "mount", "-t", "tmpfs", "none", "/mnt"],
                                  capture_output=True, check=False)
        except OSError:
            break
        if done.returncode == 0:
            return words
    raise Skip("no mount namespace of its own: not root, and user namespaces are off")


def with_tmpfs(folder, size, then=""):
    """Words in front of a command that see a small tmpfs of this size at folder."""
    folder.mkdir(parents=True, exist_ok=True)
    line = f"mount -t tmpfs -o size={size},mode=700 none '{folder}' && {then or ':'} && exec \"$@\""
    return [*can_mount(), "sh", "-c", line, "sh"]


def find_library(pattern):
    found = sorted(glob.glob(f"{LIBRARIES}/{pattern}"))
    if not found:
        raise Skip(f"no {pattern} here")
    return found[0]


# ---- threads, children, daemons ----


@case
def thread_churn(place):
    """10,000 threads, one after the other"""
    done = place.run(place.host, "threads", "10000")
    ended_well(done)
    nothing_lost(done)
    counts = place.counts()
    equal((counts["PollStartEvent"], counts["PollEndEvent"]), (100000, 100000), "polls")


@case
def fork_storm(place):
    """300 children: some exec, some record, none harms the parent's trace"""
    done = place.run(place.host, "forks", "300", options=["--ring-bytes", "1M"])
    ended_well(done)
    nothing_lost(done)
    said = json.loads(done.stdout)
    polls = sorted(place.counts(path)["PollStartEvent"] for path in place.runs())
    equal(polls, [said["polls_each"]] * said["reopened"] + [said["polls"]], "polls per process")
    equal(list(place.rings.iterdir()), [], "left in the ring directory")


@case
def daemon(place):
    """double fork, setsid, descriptors closed: the trace is complete"""
    end = place.dir / "end"
    done = place.run(place.host, "daemon", end)
    ended_well(done)
    nothing_lost(done)
    check(end.exists(), "kymo did not wait for the daemon")
    equal(sorted(place.counts(path)["PollStartEvent"] for path in place.runs()), [5, 5500],
          "polls of the first process and the last")


# ---- ends ----


def recovered(place):
    """Marks in the trace, by thread."""
    marks = {}
    for event in place.events("AnnotationEvent"):
        marks[event["tid"]] = marks.get(event["tid"], 0) + 1
    return sorted(marks.values())


def check_end(place, way, status):
    witness = place.dir / "witness"
    done = place.run(place.host, "ring", way, witness)
    ended_well(done, status)
    nothing_lost(done)
    lines = struct.iter_unpack("<Q56xQ56x", witness.read_bytes())
    bounds = sorted((after, before) for before, after in lines)
    marks = recovered(place)
    equal(len(marks), len(bounds), "threads that recorded")
    for count, (after, before) in zip(marks, bounds):
        # What is counted after an event must be there; what only began may be.
        check(after <= count <= before <= after + 1,
              f"{way}: {count} events of a thread that counted {after} done, {before} begun")


def add_ends():
    for way, status in (("return", 0), ("exit", 3), ("_exit", 4), ("abort", -signal.SIGABRT),
                        ("SIGTERM", -signal.SIGTERM), ("SIGKILL", -signal.SIGKILL),
                        ("SIGSEGV", -signal.SIGSEGV)):
        def run(place, way=way, status=status):
            check_end(place, way, status)
        run.__doc__ = f"{way} in the middle of four threads leaves every published event"
        CASES.append(run)


add_ends()


# ---- disks and limits ----


@case
def full_disk(place):
    """a full disk under the trace: same output, same status, kymo says so"""
    done = place.run(place.host, "polls", "3000000", around=with_tmpfs(place.traces, "64k"),
                     options=["--compress", "none"])
    ended_well(done)
    equal(done.stdout, '{"polls":3000000}\n', "output")
    check("No space left" in done.stderr, done.stderr)


@case
def read_only_directory(place):
    """a read-only trace directory: same output, same status, kymo says so"""
    around = with_tmpfs(place.traces, "64k", f"mount -o remount,ro '{place.traces}'")
    done = place.run(place.host, "polls", "1000", around=around)
    ended_well(done)
    equal(done.stdout, '{"polls":1000}\n', "output")
    check("Read-only file system" in done.stderr, done.stderr)


@case
def full_shared_memory(place):
    """no room for the ring file: recorded through anonymous memory"""
    around = with_tmpfs(place.rings, "64k")
    done = place.run(place.host, "dlopen", place.library, "1", around=around)
    ended_well(done)
    nothing_lost(done)
    equal(place.counts()["PollStartEvent"], json.loads(done.stdout)["polls"], "polls")


@case
def full_shared_memory_and_short(place):
    """no room for the ring file of a short process: unharmed, and kymo says what may be missing"""
    done = place.run(place.host, "polls", "1000", around=with_tmpfs(place.rings, "64k"))
    ended_well(done)
    equal(done.stdout, '{"polls":1000}\n', "output")
    check("hardly any room" in done.stderr, done.stderr)


@case
def full_shared_memory_and_killed(place):
    """the same, killed: the ring outlives the process"""
    witness = place.dir / "witness"
    line = '"$@" & sleep 0.5; kill -9 $!; wait $!'
    done = place.run("sh", "-c", line, "sh", place.host, "dlopen", place.library, "1", witness,
                     around=with_tmpfs(place.rings, "64k"))
    ended_well(done, 128 + signal.SIGKILL)
    nothing_lost(done)
    polls, = struct.unpack("<Q", witness.read_bytes())
    # Up to its last moment, not up to the last check: it counts after each ten.
    got = place.counts()["PollStartEvent"]
    check(0 < polls <= got <= polls + 10, f"{got} polls, it had counted {polls}")


@case
def ring_that_fills_up(place):
    """shared memory that ends in the middle of the ring: host unharmed, nothing counted wrong"""
    done = place.run(place.host, "threads", "2000", around=with_tmpfs(place.rings, "4m"),
                     options=["--mode", "flight"])
    ended_well(done)
    equal(done.stdout, '{"polls":20000}\n', "output")
    lost = re.search(r"(\d+) records lost, (\d+) dropped", done.stderr)
    polls = place.counts().get("PollStartEvent", 0)
    check(polls == 20000 if lost is None else 0 < polls < 20000, f"{polls} polls: {done.stderr}")


@case
def file_size_limit(place):
    """RLIMIT_FSIZE: no SIGXFSZ, output and status unchanged"""
    for kib in (0, 4, 64, 1024):
        # A limit of the program alone: kymo itself has to write.
        line = f"ulimit -S -f {kib * 2}; exec \"$@\""
        done = place.run("sh", "-c", line, "sh", place.host, "polls", "1000")
        ended_well(done)
        equal(done.stdout, '{"polls":1000}\n', f"output with {kib} KiB")
    equal(place.counts()["PollStartEvent"], 1000, "polls with 1 MiB")


# ---- clocks, preloads, filters ----


def step_words(place, file, *lines):
    """The host under libfaketime, which is preloaded in front of ours."""
    line = 'LD_PRELOAD="$0:$LD_PRELOAD" exec "$@"'
    return ["sh", "-c", line, find_library("faketime/libfaketimeMT.so.1"), place.host, "step", file,
            *lines]


@case
def clock_steps(place):
    """the wall clock jumps by days while recording: events keep their order and distance"""
    file = place.dir / "faketime"
    file.write_text("+0\n")
    done = place.run(*step_words(place, file, "+10d", "-20d", "+1y", "+0"),
                     environment={"FAKETIME_TIMESTAMP_FILE": os.fspath(file),
                                  "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"})
    ended_well(done)
    nothing_lost(done)
    info = place.info()
    equal(place.counts()["PollStartEvent"], 500000, "polls")
    check(0 < info["duration_ns"] < 30e9, f"{info['duration_ns']} ns long")


@case
def fake_monotonic_clock(place):
    """a host whose monotonic clock lies by 15 days is recorded"""
    done = place.run(*step_words(place, "/dev/null", ""), environment={"FAKETIME": "+15d"})
    ended_well(done)
    nothing_lost(done)
    equal(place.counts()["PollStartEvent"], 200000, "polls")
    check(0 < place.info()["duration_ns"] < 30e9, f"{place.info()['duration_ns']} ns long")


@case
def other_preloads(place):
    """jemalloc and faketime before and after kymo: kept in order, Tokio recorded"""
    jemalloc = find_library("libjemalloc.so.2")
    faketime = find_library("faketime/libfaketimeMT.so.1")
    show = place.run("sh", "-c", 'echo "$LD_PRELOAD"',
                     environment={"LD_PRELOAD": f"{jemalloc}:{place.library}"})
    check(show.stdout.startswith(f"{jemalloc}:{place.library}:/"), show.stdout)
    for preload in (jemalloc, faketime):  # both at once hang, with or without us
        shutil.rmtree(place.traces, ignore_errors=True)
        done = place.run(place.program("ways"), "200", environment={"LD_PRELOAD": preload,
                                                                    "FAKETIME": "+0"})
        ended_well(done, 9)
        equal(done.stdout, "done\n", preload)
        nothing_lost(done)
        check(place.counts()["PollStartEvent"] >= 4, "polls")
    line = 'LD_PRELOAD="$LD_PRELOAD:$0" exec "$@"'
    done = place.run("sh", "-c", line, jemalloc, place.program("ways"), "200")
    ended_well(done, 9)
    nothing_lost(done)


@case
def filtered_system_calls(place):
    """a filter that kills for process_vm_readv: a Tokio program lives and is recorded"""
    done = place.run(place.host, "filter", place.program("ways"), "100")
    if done.returncode == 77:
        raise Skip("no seccomp filters here")
    ended_well(done, 9)
    nothing_lost(done)
    check(place.counts()["WorkerEvent"] >= 2, "workers")


def check_confined(place, *words):
    untouched = subprocess.run([place.program("confined"), *words], capture_output=True, text=True,
                               check=False)
    if untouched.returncode == 77:
        raise Skip(f"{' '.join(words)}: refused here")
    done = place.run(place.program("confined"), *words)
    equal((done.returncode, done.stdout), (untouched.returncode, untouched.stdout), "end")
    ended_well(done)
    nothing_lost(done)
    polls = [place.counts(path)["PollStartEvent"] for path in place.runs()]
    equal(polls, [int(line) for line in done.stdout.split()], "polls of each process")
    equal(list(place.rings.iterdir()), [], "left in the ring directory")


@case
def changed_root(place):
    """chroot before the first event: recorded, in a forked child too"""
    root = place.dir / "root"
    root.mkdir()
    check_confined(place, "root", os.fspath(root))
    shutil.rmtree(place.traces)
    check_confined(place, "child", "root", os.fspath(root))


@case
def changed_user(place):
    """another user before the first event: recorded"""
    check_confined(place, "user")


def add_filters():
    for way in ("prctl", "syscall", "raw", "raw-single"):
        def run(place, way=way):
            check_confined(place, way)
            shutil.rmtree(place.traces)
            check_confined(place, "child", way)
        run.__doc__ = f"a filter that kills for all but the program's own calls, by {way}: recorded"
        CASES.append(run)


add_filters()


@case
def fork_before_the_first_event(place):
    """parent and child record after a fork: each has a ring of its own"""
    check_confined(place, "both", "none")


@case
def no_task_at_all(place):
    """a Tokio program that runs no task: no trace, nothing left in the ring directory"""
    done = place.run(place.program("confined"), "root", "/does/not/exist")
    ended_well(done, 77)
    check("recorded nothing" in done.stderr, done.stderr)
    equal((place.runs(), list(place.rings.iterdir())), ([], []), "left")


@case
def other_process_namespace(place):
    """a process whose pid means another process out here is recorded to its end"""
    for words in (["unshare", "-p", "-f"], ["unshare", "-r", "-p", "-f"]):
        if subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0:
            break
    else:
        raise Skip("no process namespace of its own: not root, and user namespaces are off")
    done = place.run(*words, place.program("ways"), "700")
    ended_well(done, 9)
    nothing_lost(done)
    polls = place.counts()
    check(polls["PollStartEvent"] == polls["PollEndEvent"], str(polls))
    check(place.info()["duration_ns"] > 600e6, f"{place.info()['duration_ns']} ns long")


# ---- the loader, several Tokios, local sets ----


@case
def loads_and_unloads(place):
    """200 dlopen and dlclose while recording; the library that stays is in the process map"""
    done = place.run(place.host, "dlopen", place.library, "200")
    ended_well(done)
    nothing_lost(done)
    equal(place.counts()["PollStartEvent"], json.loads(done.stdout)["polls"], "polls")
    rows = [row for row in place.events("ProcessMapEvent") if row["to_ns"] is None]
    check(any(place.library.name in row["path"] for row in rows),
          f"{place.library.name} is not in the process map")
    check(any("libc.so" in row["path"] for row in rows), "libc is not in the process map")
    starts = [row["start"] for row in rows]
    equal(len(set(starts)), len(starts), "modules that stand where another one does")


def check_loaded(place, runs, *words):
    done = place.run(*words)
    ended_well(done)
    nothing_lost(done)
    counts = place.counts()
    # The library runs ten tasks that yield once each time.
    equal((counts["PollStartEvent"], counts["TaskTerminateEvent"]), (20 * runs, 10 * runs),
          "polls and ends")
    names = {event["spawn_loc"] for event in place.events("PollStartEvent")}
    check(any("yield_now" in name for name in names), f"names: {names}")
    return done


@case
def loaded_by_c(place):
    """Tokio in a library that a C program opens: every poll, under its name"""
    loader = place.build / "test/reliability/reliability_loader"
    check_loaded(place, 3, loader, place.program("libplugin.so"), "1", "3")


@case
def loaded_and_unloaded(place):
    """the same library opened and closed 100 times: every poll, each time"""
    loader = place.build / "test/reliability/reliability_loader"
    done = check_loaded(place, 100, loader, place.program("libplugin.so"), "100", "1")
    equal(done.stdout, "100\n", "times it was unloaded")


@case
def loaded_by_python(place):
    """Tokio in a library that Python opens, through a library that Python opened"""
    line = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).reliability_answer())"
    done = check_loaded(place, 1, sys.executable, "-c", line, place.program("libplugin.so"))
    equal(done.stdout, "42\n", "output")


@case
def tokio_in_a_loaded_library(place):
    """a library with Tokio, loaded late by a program with a recorder: only that one records"""
    done = place.run(place.host, "dlopen", place.program("libplugin.so"), "1")
    ended_well(done)
    nothing_lost(done)
    equal(place.counts()["PollStartEvent"], json.loads(done.stdout)["polls"], "polls of the host")


@case
def two_tokios(place):
    """two versions of Tokio in one program: every poll, three and two workers, two runtimes"""
    done = place.run(place.program("two_tokios"))
    ended_well(done)
    nothing_lost(done)
    said = json.loads(done.stdout)
    polls = {"new": 0, "old": 0}
    for event in place.events("PollStartEvent"):
        polls["new" if "new_task" in event["spawn_loc"] else "old"] += 1
    equal(polls, said, "polls of each")
    info = place.info()
    runtimes = [row["runtime"] for row in info["workers"]]
    equal(sorted(runtimes.count(number) for number in set(runtimes)), [2, 3], "workers of each")
    equal((len(info["runtimes"]), info["tasks"]), (2, 80), "runtimes and tasks")
    versions = re.search(r"tokio\.version\W+([0-9., ]+)", json.dumps(info))
    check(versions and sorted(versions[1].split(", ")) == ["1.38.0", "1.54.1"], str(versions))


def check_local_set(place, way, workers):
    done = place.run(place.program("local_set"), way)
    ended_well(done)
    nothing_lost(done)
    rows = json.loads(subprocess.run([place.kymo, "report", "--json", place.traces], check=True,
                                     capture_output=True, text=True).stdout)["tables"]["workers"]
    equal(len(rows), workers, "workers")
    local = [event for kind in ("PollStartEvent", "NestedPollStartEvent")
             for event in place.events(kind) if "local_task" in event["spawn_loc"]]
    check(len(local) >= 60, f"{len(local)} polls of local tasks")


@case
def local_set_single(place):
    """a LocalSet under block_on of a current-thread runtime polls on that runtime's worker"""
    check_local_set(place, "single", 1)


@case
def local_set_multi(place):
    """a LocalSet under block_on of a multi-thread runtime is no worker"""
    check_local_set(place, "multi", 2)


@case
def local_set_bare(place):
    """a LocalSet whose runtime never polled a task of its own is no worker"""
    check_local_set(place, "bare", 0)


def main(cases, doc):
    parser = argparse.ArgumentParser(description=doc.split("\n", 1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    options = parser.parse_args()
    options.build = options.build.resolve()
    chosen = [run for run in cases if options.only in f"{run.__name__} {run.__doc__}"]
    print(f"1..{len(chosen)}", flush=True)
    failed = 0
    for number, run in enumerate(chosen, 1):
        place = Place(options)
        label = f"{number} - {run.__doc__}"
        try:
            run(place)
            print(f"ok {label}", flush=True)
        except Skip as reason:
            print(f"ok {label} # SKIP {reason}", flush=True)
        except Exception as error:
            failed += 1
            text = str(error) if isinstance(error, AssertionError) else traceback.format_exc()
            if isinstance(error, subprocess.CalledProcessError):
                text += f"\n{error.stderr}"
            print(f"not ok {label}\n# " + text.replace("\n", "\n# "), flush=True)
        finally:
            place.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(CASES, __doc__))
