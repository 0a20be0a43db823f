# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The fault corpus: programs of examples/faults/corpus, recorded, and how an answer of kymo is held
against what the program said of itself (its statement, src/harm.rs there).

What must follow from a statement:
  fault    the harm is large: the first finding has one of the expected ids and names the culprit
  either   the harm is small: the same, or nothing above info
  healthy  there is none: nothing above info
The programs share the machine. Where the kernel made the process wait for a CPU for longer than the
fault harmed it, `cpu_starvation` is right, too.
"""
import json
import os
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SOURCES = ROOT / "examples/faults/corpus"
NOT_YET_FOUND = HERE / "not_yet_found.txt"
SCHEMA = "kymo.findings/1"
TIMEOUT_S = 120
# Growth and accept queues are told from readings, one a second; a pool of the program from who
# wakes whom: at the lowest rate there are ten such wakes in 2 s.
SECONDS_MIN = {"hand_pool": 4, "hidden_wake": 4, "queue_growth": 5, "healthy_queue": 5,
               "accept_inline": 6}
OPTIONS = {"alloc_burst": ("--alloc=64K",), "huge_drop": ("--alloc=64K",)}


def programs():
    """Names: faults, healthy ones."""
    names = sorted(path.stem for path in (SOURCES / "src/bin").glob("*.rs"))
    return ([name for name in names if not name.startswith("healthy_")],
            [name for name in names if name.startswith("healthy_")])


def not_yet_found():
    """Faults for which no finding exists yet. Who makes one takes its line out: the tests fail when
    a fault of this list is found."""
    lines = NOT_YET_FOUND.read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def build(target):
    done = subprocess.run(["cargo", "build", "--locked", "--quiet", "--release"], cwd=SOURCES,
                          env=dict(os.environ, CARGO_TARGET_DIR=str(target)), text=True,
                          capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"cargo build failed in {SOURCES}:\n{done.stderr}")
    return target / "release"


def record(kymo, program, folder, *arguments, options=()):
    """Runs a program below `kymo run`. Returns its statement; the traces are in folder/traces."""
    rings = folder / "rings"
    rings.mkdir(mode=0o700, parents=True)
    command = [kymo, "run", *OPTIONS.get(program.name, ()), *options, "--ring-dir", rings, "-o",
               folder / "traces", "--", program, *arguments]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=False, stdin=subprocess.DEVNULL)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        raise RuntimeError(f"{program.name} ended with {done.returncode}: {done.stderr[-500:]}")
    return json.loads(lines[-1])


def ask(kymo, *words):
    """What a command says as JSON, one object a line."""
    done = subprocess.run([str(kymo), *map(str, words)], capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"kymo {words} ended with {done.returncode}: {done.stderr[-500:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def findings(kymo, trace):
    """Those above info, worst first; None: this kymo has no findings."""
    said = [report for report in ask(kymo, "report", "--json", trace)
            if report.get("schema") == SCHEMA]
    if not said:
        return None
    return [one for report in said for one in report["findings"] if one["severity"] != "info"]


def names_of(culprit):
    return " ".join(str(value) for value in (culprit or {}).values() if value is not None)


def is_named(finding, wanted):
    """The culprit is one of those wanted, and not one of many."""
    said = names_of(finding.get("culprit"))
    return not wanted or (" or " not in said and any(name in said for name in wanted))


def judge(statement, found):
    """'right', 'withheld' (nothing said of a small harm), 'missed', 'wrong' (another cause first),
    'culprit' (the cause is right, the culprit is not), 'alarm' (said of a healthy run)."""
    first = found[0] if found else None
    is_starved = max(statement[who]["excess_ns"] for who in ("own", "others")) \
        < statement["run_delay_ns"]
    if first and first["id"] == "cpu_starvation" and is_starved:
        return "right"
    if statement["verdict"] == "healthy":
        return "alarm" if first else "right"
    if not first:
        return "missed" if statement["verdict"] == "fault" else "withheld"
    if first["id"] not in statement["findings"]:
        return "wrong"
    return "right" if is_named(first, statement["culprit"]) else "culprit"
