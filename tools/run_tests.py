#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""run_tests.py [--seed N] [TIER | SUITE...] - runs the test suites and counts what they report.

There are three tiers: `gate` (the default), `check-all` and `soak`; TIERS names the suites of each.
The last line is `N passed, N failed, N skipped`; the exit status is 1 when something failed, when a
suite could not run, or when a test was skipped that test/expected_skips.txt does not name. A suite
is a set of meson tests in one build variant, or a command that prints TAP or reports by its exit
status how it went (77: skipped).

Each suite's seconds and CPU seconds are printed and written as JSON, with the seed, the commit, the
machine's load and the share of the CPUs that the hypervisor stole: build/gate.json and so on.
"""
import argparse
import collections
import concurrent.futures
import fnmatch
import json
import multiprocessing
import os
import pathlib
import re
import resource
import shlex
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXPECTED_SKIPS = ROOT / "test" / "expected_skips.txt"
SKIP_STATUS = 77
SEED = int(time.time())
RESULTS = {} # of suites that estimate
AT_ONCE = 2 # suites of the gate and of check-all: beside one that uses all CPUs, one that uses one
MESON_S = 3600  # as long as no suite takes
ALONE_MAX, ALONE_RUNS = 3, 3 # programs that failed, and how often each then runs alone
STUCK = "meson: TIMEOUT" # a program that waits for ever does so alone, too
# Leaks are the address sanitizer's to find: here a forked child would be blamed for what threads
# held that it does not have.
VALGRIND = ("valgrind --quiet --error-exitcode=99 --leak-check=no --fair-sched=yes"
            f" --suppressions={ROOT}/test/valgrind.supp")

# A finding ends the test; forked children may start threads.
SANITIZERS = {"UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
              "ASAN_OPTIONS": "abort_on_error=0:detect_stack_use_after_return=1",
              "TSAN_OPTIONS": "die_after_fork=0"}


class Tally:
    """What one suite reported: names of what passed, (name, detail) of the rest."""

    def __init__(self):
        self.passed, self.failed, self.skipped = [], [], []

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def line(self):
        return (f"{len(self.passed)} passed, {len(self.failed)} failed, "
                f"{len(self.skipped)} skipped")


def parse_tap(text, prefix):
    """Test cases of TAP output, or None where it holds none. Knows cmocka's skips."""
    tally = Tally()
    planned, seen, comments, pending = None, 0, [], None
    for line in text.splitlines():
        plan = re.match(r"1\.\.(\d+)", line)
        case = re.match(r"(not )?ok\b\s*(\d*)\s*-?\s*(.*)$", line)
        if plan:
            planned = (planned or 0) + int(plan[1])
        elif case:
            seen += 1
            skip = re.search(r"#\s*SKIP\b\s*(.*)", case[3], re.IGNORECASE)
            name = case[3].split("#")[0].strip()
            pending = None
            if skip and not name:  # cmocka: the name stands behind SKIP, the reason in a comment
                tally.skipped.append((f"{prefix}/{skip[1]}", " ".join(comments[-1:])))
            elif skip:
                tally.skipped.append((f"{prefix}/{name}", skip[1]))
            elif case[1]:
                pending = [f"{prefix}/{name}", ""]
                tally.failed.append(pending)
            else:
                tally.passed.append(f"{prefix}/{name}")
            comments = []
        elif line.startswith("#"):
            comments.append(line.lstrip("# "))
            if pending and len(pending[1]) < 2000:  # diagnosis follows its failed case
                pending[1] += line.lstrip("# ") + "\n"
        elif pending and line.startswith("  ") and line.strip() != "---":
            if len(pending[1]) < 2000:  # the same as YAML: node
                pending[1] += line[2:] + "\n"
        elif line.startswith("Bail out!"):
            tally.failed.append((f"{prefix}", line))
    if planned is None and seen == 0:
        return None
    if planned is not None and seen < planned:
        tally.failed.append((prefix, f"ended after {seen} of {planned} cases"))
    return tally


def judge(name, status, text, errors):
    """A finished program as a tally: its TAP where it printed any, else its exit status."""
    tally = parse_tap(text, name)
    tail = "\n".join((text + "\n" + errors).strip().splitlines()[-40:])
    if tally is None:
        tally = Tally()
        if status == 0:
            tally.passed.append(name)
        elif status == SKIP_STATUS:
            tally.skipped.append((name, tail.splitlines()[-1] if tail else "no reason given"))
        else:
            tally.failed.append((name, f"exit status {status}\n{tail}"))
    elif status not in (0, SKIP_STATUS) and not tally.failed:
        tally.failed.append((name, f"every case passed, yet exit status {status}\n{tail}"))
    return tally


def command(name, argv, timeout_s, env=None):
    """Runs a program. What it writes as JSON to the file KYMO_RESULT becomes part of the report."""
    result = ROOT / "build" / f"result-{name.replace('/', '-')}.json"
    merged = dict(os.environ, KYMO_RESULT=str(result), **(env or {}))
    tally = run_command(name, argv, timeout_s, merged)
    if result.exists():
        RESULTS[name] = json.loads(result.read_text())
        result.unlink()
    return tally


def run_command(name, argv, timeout_s, merged):
    try:
        done = subprocess.run(argv, cwd=ROOT, env=merged, timeout=timeout_s, text=True,
                              errors="replace", stdin=subprocess.DEVNULL, capture_output=True)
    except subprocess.TimeoutExpired as expired:
        text = (expired.stdout or b"").decode(errors="replace")
        tally = parse_tap(text, name) or Tally()
        tally.failed.append((name, f"stopped after {timeout_s} s\n" + text[-2000:]))
        return tally
    except OSError as error:
        tally = Tally()
        tally.failed.append((name, str(error)))
        return tally
    return judge(name, done.returncode, done.stdout, done.stderr)


def build(variant, *targets):
    done = subprocess.run(["tools/build.sh", variant, *targets], cwd=ROOT, text=True,
                          capture_output=True)
    tally = Tally()
    name = f"build-{variant}"
    if done.returncode == 0:
        tally.passed.append(name)
    else:
        tally.failed.append((name, (done.stdout + done.stderr).strip()))
    return tally


def build_product(*paths):
    """Builds with gcc what is installed, and these programs or all in these folders: no unit test
    that was not named."""
    tally = build("gcc", "build.ninja")
    if tally.failed:
        return tally
    wanted = {ROOT / "build" / path for path in paths}
    files = [file for target in introspect("build", "targets") for file in target["filename"]
             if target["installed"] or wanted.intersection([path := pathlib.Path(file),
                                                            *path.parents])]
    return build("gcc", *sorted(os.path.relpath(file, ROOT / "build") for file in files))


def introspect(directory, what):
    listed = subprocess.run(["meson", "introspect", f"--{what}", directory], cwd=ROOT, text=True,
                            capture_output=True, check=True)
    return json.loads(listed.stdout)


def needed_by(tests, targets, directory):
    """What ninja has to build for these tests: their programs, and what they say they need."""
    files = {target["id"]: target["filename"] for target in targets}
    made = {file for some in files.values() for file in some}
    needed = {word for test in tests for word in test["cmd"]}
    needed.update(file for test in tests for name in test["depends"] for file in files[name])
    return sorted(os.path.relpath(file, directory) for file in needed & made)


def named_twice(tests):
    """Names that two tests have: who asks meson for one also asks for the other, built or not."""
    counted = collections.Counter(test["name"] for test in tests)
    return sorted(name for name, times in counted.items() if times > 1)


def meson_suite(suite, variant, want=None, wrapper=None, factor=1):
    """Builds a variant and runs its meson tests; or those that `want` picks, by a function or as
    names (those of folder/ are all below test/unit/folder), and builds no others."""
    tally = build(variant, *(["build.ninja"] if want else []))
    if tally.failed:
        return tally
    directory = "build" if variant == "gcc" else f"build-{variant}"
    tests = introspect(directory, "tests")
    twice = named_twice(tests)
    if twice:
        tally.failed.append((suite, "tests of one name, of which meson runs all or none: "
                                    + " ".join(twice)))
        return tally
    if isinstance(want, tuple):
        gone = [name for name in want if not any(is_named(test, name) for test in tests)]
        if gone:
            tally.failed.append((suite, "no test of this name: " + " ".join(gone)))
    tests = [test for test in tests if not want or (
        any(is_named(test, name) for name in want) if isinstance(want, tuple) else want(test))]
    names = sorted({test["name"] for test in tests})
    if not names:
        tally.failed.append((suite, "no test to run: a suite that runs nothing cannot fail"))
        return tally
    if want:
        tally = build(variant, *needed_by(tests, introspect(directory, "targets"),
                                          ROOT / directory))
        if tally.failed:
            return tally
    log = f"log-{suite}"
    argv = ["meson", "test", "-C", directory, "--no-rebuild", "--quiet", "--logbase", log,
            "--timeout-multiplier", str(factor)]
    if wrapper:  # meson puts the wrapper's name behind the base
        argv += ["--wrapper", wrapper]
        log += "-" + pathlib.Path(shlex.split(wrapper)[0]).name
    report = ROOT / directory / "meson-logs" / f"{log}.json"

    def ask(names, processes):
        return meson_cases(suite, argv + ["--num-processes", str(processes), *names], names, report)

    tally.add(run_alone(ask(names, os.cpu_count() or 2), lambda name: ask([name], 1)))
    return tally


def meson_cases(suite, argv, names, report):
    """Runs `meson test` for these tests; their cases, from the report it leaves."""
    tally = Tally()
    report.unlink(missing_ok=True)
    try:
        ran = subprocess.run(argv, cwd=ROOT, text=True, errors="replace", capture_output=True,
                             timeout=MESON_S, env={**os.environ, **SANITIZERS})
    except subprocess.TimeoutExpired:  # a process that a test left holds meson's pipes
        tally.failed.append((suite, f"meson did not end in {MESON_S} s: has a test left "
                                    "a process?"))
        return tally
    if not report.exists():
        text = (ran.stdout + ran.stderr)[-2000:]
        tally.failed.append((suite, f"exit status {ran.returncode}, and no report\n{text}"))
        return tally
    seen = set()
    for row in report.read_text(errors="replace").splitlines():
        test = json.loads(row)
        name = test["name"].split(" / ")[-1].split(":")[-1]
        seen.add(name)
        errors = (test.get("stderr") or "").strip()
        case = judge(f"{suite}/{name}", test["returncode"], test["stdout"], errors)
        # Its own verdict counts cmocka's skips as failures; what judge() cannot see is the clock.
        if test["result"] in ("TIMEOUT", "INTERRUPT"):
            case.failed = [(failed, f"meson: {test['result']}\n{detail}") for failed, detail in
                           case.failed or [(f"{suite}/{name}", "")]]
        for index, (failed, detail) in enumerate(case.failed):
            case.failed[index] = (failed, f"{detail}\n{errors[-3000:]}".strip())
        tally.add(case)
    for name in sorted(set(names) - seen):
        tally.failed.append((f"{suite}/{name}", "did not run"))
    return tally


def run_alone(tally, ask):
    """Adds to each failed case how often its program passes alone, run by `ask`: information for
    the reader of the failure, which stays one."""
    programs = {failed.split("/")[1] for failed, detail in tally.failed
                if failed.count("/") == 2 and not detail.startswith(STUCK)}
    if len(programs) > ALONE_MAX:
        return tally
    passed = {program: sum(not ask(program).failed for _ in range(ALONE_RUNS))
              for program in sorted(programs)}
    tally.failed = [
        (name, detail if name.count("/") != 2 or name.split("/")[1] not in passed else
         f"{passed[name.split('/')[1]]} of {ALONE_RUNS} alone passed\n{detail}")
        for name, detail in tally.failed]
    return tally


def under(*folders):
    """Picks meson tests whose program lies below one of these build folders."""
    return lambda test: any(f"/{folder}/" in word for folder in folders for word in test["cmd"][:1])


def is_named(test, name):
    return test["name"] == name or (name.endswith("/") and f"/test/unit/{name}" in test["cmd"][0])


def is_c(test):
    """A test that is a program of the build, not a script."""
    program = pathlib.Path(test["cmd"][0])
    return program.is_relative_to(ROOT) and program.suffix != ".sh"


def is_script(test):
    return not is_c(test)


def fuzz_one(suite, program, seconds):
    name = program.name.removeprefix("fuzz_")
    work = ROOT / "build-fuzz" / "corpus" / name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    corpus = ROOT / "fuzz" / "corpus" / name
    if not corpus.is_dir():
        corpus = ROOT / "fuzz" / "corpus" / program.name
    crashes = ROOT / "build-fuzz" / "crashes"
    crashes.mkdir(exist_ok=True)
    argv = [str(program), f"-max_total_time={seconds}", "-timeout=20", "-rss_limit_mb=2048",
            f"-artifact_prefix={crashes}/{name}-", "-print_final_stats=1", str(work)]
    if corpus.is_dir():
        argv.append(str(corpus))
    return command(f"{suite}/{name}", argv, seconds + 120, SANITIZERS)


def suite_fuzz(suite, seconds):
    """Each target for so long; None: as long as an hour has for each."""
    names = sorted(source.stem for source in (ROOT / "fuzz").glob("fuzz_*.c"))
    seconds = seconds or 3600 * (os.cpu_count() or 2) // len(names)
    tally = build("fuzz", *(f"fuzz/{name}" for name in names))
    if tally.failed:
        return tally
    programs = [ROOT / "build-fuzz" / "fuzz" / name for name in names]
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count() or 2) as pool:
        for result in pool.map(lambda program: fuzz_one(suite, program, seconds), programs):
            tally.add(result)
    return tally


# A quarter of the time: of 225,000 states of a function, 50,000. `make analysis-deep` looks at all.
BOUNDED = [f"--extra-arg={word}" for word in ("-Xclang", "-analyzer-config", "-Xclang",
                                              "max-nodes=50000")]


def suite_analysis(name="analysis", bounds=tuple(BOUNDED)):
    """clang-tidy (see .clang-tidy), gcc's analyser and cppcheck over the sources."""
    tally = build("asan", "build.ninja") # its list of files and flags is all that is read
    if tally.failed:
        return tally
    listed = json.loads((ROOT / "build-asan" / "compile_commands.json").read_text())
    sources = sorted({os.path.relpath(os.path.join(entry["directory"], entry["file"]), ROOT)
                      for entry in listed})
    sources = [source for source in sources
               if source.startswith(("src/", "adapters/")) and source.endswith(".c")]
    own = tuple(f"src/{part}/" for part in ("base", "proc", "wire", "ring", "record", "drain",
                                              "probe", "watch", "ship", "read"))
    common = ["-std=gnu11", "-D_GNU_SOURCE", "-Iinclude", "-Isrc"]
    jobs = str(os.cpu_count() or 2)

    def check(source):
        result = command(f"{name}/{source}", ["clang-tidy", "--quiet", "-p", "build-asan", *bounds,
                                              source], 300)
        if source.startswith(own):
            result.add(command(f"{name}/gcc-{source}", [
                "gcc", *common, "-O1", "-fanalyzer", "-Werror", "-c", source, "-o", "/dev/null"],
                300))
        return result

    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count() or 2) as pool:
        for result in pool.map(check, sources):
            tally.add(result)
    tally.add(command(f"{name}/cppcheck", [
        "cppcheck", "--quiet", "-j", jobs, "--error-exitcode=1",
        "--enable=warning,performance,portability", "--suppress=missingIncludeSystem",
        # It takes what borrow(.., &bytes) returns for a pointer into `bytes`.
        "--suppress=returnDanglingLifetime:src/unwind/cfi.c",
        "--std=c11", "-D__x86_64__", *common[1:], "src", "adapters"], 600))
    return tally


def suite_lint():
    tally = Tally()
    scripts = sorted(str(path.relative_to(ROOT)) for folder in ("tools", "test", "bench", ".ci")
                     for path in (ROOT / folder).rglob("*")
                     if path.is_file() and (path.suffix == ".sh" or path.parent.name == ".ci"))
    tally.add(command("lint/shellcheck", ["shellcheck", "-x", *scripts], 120))
    listed = subprocess.run(["git", "ls-files", "*Cargo.toml"], cwd=ROOT, text=True,
                            capture_output=True, check=True).stdout.split()
    for manifest in map(pathlib.Path, listed):
        name = manifest.parent.name
        tally.add(command(f"lint/rustfmt-{name}",
                          ["cargo", "fmt", "--all", "--check", "--manifest-path",
                           str(manifest)], 120))
    return tally


def script(name, path, *arguments, timeout_s=600, env=None):
    interpreter = sys.executable if path.endswith(".py") else "sh"
    return lambda: command(name, [interpreter, path, *arguments], timeout_s, env)


def suite_reliability():
    tally = build("gcc")
    if not tally.failed:
        for name, path in (("reliability", "run.py"), ("reliability-stacks", "sampling.py")):
            tally.add(command(name, [sys.executable, f"test/reliability/{path}", "--build",
                                     "build"], 900))
    return tally


def suite_s3():
    """Real servers, and botocore's signatures of 10,000 requests."""
    tally = build("gcc")
    if not tally.failed:
        for name, path, words in (("s3-servers", "check_s3.py", ["--build", "build"]),
                                  ("s3-botocore", "test_botocore.py",
                                   ["build/test/send/sign_lines", "--seed", str(SEED)])):
            tally.add(command(name, [sys.executable, f"test/send/{path}", *words], 900))
    return tally


def suite_otlp():
    """Real receivers of OpenTelemetry and of profiles."""
    tally = build("gcc")
    if not tally.failed:
        tally.add(command("otlp-receivers", [sys.executable, "test/send/check_otlp.py", "--build",
                                             "build"], 1800))
    return tally


def suite_corpus(runs=1):
    """KYMO_CORPUS_RUNS: of each program, each with its own seed."""
    tally = build("gcc", "kymo", "adapters/tokio/libkymo-preload.so")
    if not tally.failed:
        runs = os.environ.get("KYMO_CORPUS_RUNS", str(runs))
        tally.add(command("corpus", [sys.executable, "test/corpus/run.py", "--build", "build",
                                     "--seed", str(SEED), "--runs", runs], 3600))
    return tally


def model(name, traces):
    """What the gate reads a few of: healthy services of the model."""
    tally = build("gcc", "kymo")
    if not tally.failed:
        tally.add(command(name, [sys.executable, "test/cli/test_model_alarms.py", "build/kymo",
                                 "."], 1800, {"KYMO_MODEL_TRACES": str(traces)}))
    return tally


def of_product(name, path, *arguments, needs=(), timeout_s=600):
    """A script that needs the program and its libraries as `meson install` takes them, and these
    programs of the tests."""
    run_script = script(name, path, *arguments, timeout_s=timeout_s)

    def suite():
        tally = build_product(*needs)
        if not tally.failed:
            tally.add(run_script())
        return tally

    return suite


def crash(name, kills, tokio_kills, seed=None):
    """seed None: the run's own."""
    chosen = str(SEED if seed is None else seed)
    tally = build_product("test/crash", "test/cli")
    if not tally.failed:
        tally.add(command(f"{name}-tokio", [
            sys.executable, "test/crash/kill_tokio.py", "--build", "build", "--seed", chosen,
            "--kills", str(tokio_kills)], 1800))
        tally.add(command(name, [sys.executable, "test/crash/kill.py", "--build", "build", "--seed",
                                 chosen, "--kills", str(kills)], 1800))
    return tally


def diff_groups():
    """What check-all tries with a few simulated groups of runs, with 1,500."""
    tally = build("gcc")
    if not tally.failed:
        tally.add(command("diff-groups", ["build/test/unit/analyze/test_analyze_diff_simulation"],
                          3600, {"KYMO_DIFF_GROUPS": "500", "CMOCKA_MESSAGE_OUTPUT": "TAP"}))
    return tally


def attach_rounds(name, rounds, timeout_s):
    tally = build("gcc")
    if not tally.failed:
        tally.add(command(name, [sys.executable, "test/attach/rounds.py", "--build", "build",
                                 "--rounds", str(rounds)], timeout_s))
    return tally


# Compiled as shipped, too: what depends on the compiler's code, or on the C library's allocator.
SHIPPED = ("unwind/", "fatal", "ring_model", "cut_live", "stress", "ring_file", "slot", "thread",
           "directory", "emit_slow", "stack_walk", "recorder", "chain_memory")
RACES = ("ring_model", "stress", "slot", "thread", "counter_table", "span_table", "alloc_table",
         "place_table")


def is_estimate(test):
    """What depends on a measured duration, rate, share or sample count, or on what the machine's
    own perf_event does: not in the gate."""
    return any(name.endswith((":estimates", ":kernel")) for name in test["suite"])


def is_new_with_gcc(test):
    """The gate runs all C programs in another variant, and all scripts with gcc's build."""
    return is_c(test) or is_estimate(test)


def is_gate_c(test):
    return is_c(test) and not is_estimate(test)


def is_gate_script(test):
    return is_script(test) and not is_estimate(test)


def gate_under_load(rounds):
    """The gate beside a loop on each CPU."""
    tally, table = Tally(), suites()
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"])
             for _ in range(os.cpu_count() or 2)]
    try:
        for _ in range(rounds):
            for name in TIERS["gate"]:
                tally.add(table[name]())
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    return tally


COUNTS = ("test/unit/tokio/ring_counts",) # what the matrix counts a ring's records with


def suites():
    """Each in the order it runs: the cheap ones that fail most often first."""
    return {
        "tidy": script("tidy", "tools/tidy.py", "--tap"),
        "tidy-test": script("tidy-test", "tools/test_tidy.py"),
        "runner-test": script("runner-test", "tools/test_run_tests.py"),
        "setup-test": script("setup-test", "tools/test_setup.py"),
        "bench-test": script("bench-test", "bench/test_bench.py"),
        "lint": suite_lint,
        "asan": lambda: meson_suite("asan", "asan", factor=6, want=is_gate_c),
        "asan-estimates": lambda: meson_suite(
            "asan-estimates", "asan", factor=6, want=lambda test: is_c(test) and is_estimate(test)),
        "shipped": lambda: meson_suite("shipped", "gcc", factor=6, want=SHIPPED),
        "tsan": lambda: meson_suite("tsan", "tsan", factor=12, want=RACES),
        "cli": lambda: meson_suite("cli", "gcc", factor=6, want=is_gate_script),
        "gcc": lambda: meson_suite("gcc", "gcc", factor=6, want=is_new_with_gcc),
        "release": lambda: build("release"),
        "symbols": of_product("symbols", "tools/tidy.py", "--tap", "--symbols", "build"),
        "bare": script("bare", "tools/bare.sh"),
        "tsan-all": lambda: meson_suite("tsan-all", "tsan", factor=12, want=under(
            *(f"test/unit/{room}" for room in (
                "base", "ring", "record", "drain", "probe", "watch", "agent")), "test/model")),
        "valgrind": lambda: meson_suite("valgrind", "gcc", factor=20, wrapper=VALGRIND,
                                        want=lambda test: under("test/unit")(test)
                                        and not is_estimate(test)),
        "wasm": script("wasm", "tools/wasm.sh"),
        "viewer-smoke": script("viewer-smoke", "tools/viewer.sh", "smoke", timeout_s=600),
        "viewer-test": script("viewer-test", "tools/viewer.sh", "test", timeout_s=1800),
        "crash-seed": lambda: crash("crash-seed", 10, 2, seed=1),
        "tokio": of_product("tokio", "test/tokio/matrix.py", "--gate", needs=COUNTS,
                            timeout_s=1200),
        "crates": script("crates", "test/crates/run.py", "--gate", timeout_s=600),
        "crates-all": script("crates-all", "test/crates/run.py", timeout_s=3600),
        "crates-matrix": script("crates-matrix", "test/crates/run.py", "--matrix", timeout_s=3600),
        "journey": of_product("journey", "test/journey.py"),
        "demo": script("demo", "tools/demo.sh", "--check", timeout_s=600),
        "interop": of_product("interop", "test/interop/run.py", timeout_s=900),
        "profiles": of_product("profiles", "test/interop/profiles.py", timeout_s=600),
        "perfetto": of_product("perfetto", "test/interop/perfetto.py", timeout_s=900),
        "guide": of_product("guide", "test/cli/test_guide.py", timeout_s=900),
        "allocs": of_product("allocs", "test/tokio/allocs.py", timeout_s=900),
        "metrics": of_product("metrics", "test/tokio/metrics.py", timeout_s=600),
        "off-cpu": of_product("off-cpu", "test/tokio/off_cpu.py", needs=("test/cli/deny_calls",)),
        "places": of_product("places", "test/tokio/places.py", timeout_s=1800),
        "usdt": of_product("usdt", "test/tokio/usdt.py", timeout_s=900),
        "stuck": of_product("stuck", "test/tokio/stuck.py", needs=("test/unit/tokio/watch_ring",)),
        "faults": of_product("faults", "test/faults/run.py", timeout_s=1800),
        "corpus": suite_corpus,
        "check-s3": suite_s3,
        "check-otlp": suite_otlp,
        "corpus-seeds": lambda: suite_corpus(3),
        "model": lambda: model("model", 100),
        "model-all": lambda: model("model-all", 300),
        "truth": of_product("truth", "test/tokio/truth.py", "--runs", "40",
                            needs=("test/cli/alloc_host",), timeout_s=4 * 3600),
        "stacks": of_product("stacks", "test/stacks/run_stacks.py", needs=("test/stacks",),
                             timeout_s=1800),
        "diff-groups": diff_groups,
        "diagonal": of_product("diagonal", "test/tokio/matrix.py", "--diagonal", needs=COUNTS,
                               timeout_s=1200),
        "matrix": of_product("matrix", "test/tokio/matrix.py", needs=COUNTS, timeout_s=4 * 3600),
        "reliability": suite_reliability,
        "attach": lambda: attach_rounds("attach", 20, 1200),
        "attach-rounds": lambda: attach_rounds("attach-rounds", 200, 3600),
        "crash": lambda: crash("crash", 100, 10),
        "kill": lambda: crash("kill", 1000, 100),
        "analysis": suite_analysis,
        "analysis-deep": lambda: suite_analysis("analysis-deep", ()),
        "fuzz": lambda: suite_fuzz("fuzz", int(os.environ.get("KYMO_FUZZ_SECONDS", "10"))),
        "fuzz-hour": lambda: suite_fuzz("fuzz-hour", None),
        "gate-loaded": lambda: gate_under_load(10),
    }


# They judge a duration, a share or a count of samples, that kymo finds no other cause than the one
# they put in, or what a tracer saw of every process: no other suite runs meanwhile. They run after
# all others.
MEASURES = ("usdt", "asan-estimates", "gcc", "viewer-test", "guide", "allocs", "metrics", "off-cpu",
            "places", "stuck", "faults", "corpus", "stacks", "reliability", "attach")
CHEAP = ("tidy", "tidy-test", "runner-test", "setup-test", "bench-test", "lint")
TIERS = {
    "gate": CHEAP + ("asan", "cli", "tsan", "crash-seed", "demo", "crates", "viewer-smoke",
                     "wasm", "tokio", "journey", "shipped", "symbols"), # the longest first
    # What the gate does not run. Those that mostly use one CPU among those that use all.
    "check-all": ("crates-all", "analysis", "valgrind", "model", "tsan-all", "fuzz", "release",
                  "bare", "interop", "perfetto", "profiles", "crash", "check-s3",
                  "check-otlp", "diagonal", *MEASURES),
    "soak": ("truth", "matrix", "attach-rounds", "kill", "fuzz-hour", "gate-loaded",
             "diff-groups", "crates-matrix", "corpus-seeds", "model-all"),
}


def expected_skips():
    """(pattern, reason) lines of test/expected_skips.txt: `GLOB: why it may be skipped`."""
    rows = []
    for line in EXPECTED_SKIPS.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            pattern, _, reason = line.partition(": ")
            rows.append((pattern.strip(), reason.strip()))
    return rows


def check_skips(tally, rows):
    """A skip that nobody expects, or that gives no reason, is a failure."""
    for name, reason in list(tally.skipped):
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern, _ in rows):
            tally.skipped.remove((name, reason))
            tally.failed.append((name, f"not in test/expected_skips.txt, yet skipped: {reason}"))
        elif not reason:
            tally.skipped.remove((name, reason))
            tally.failed.append((name, "skipped without a reason"))


def cpu_ticks():
    """(of all CPUs since boot, stolen by the hypervisor)"""
    fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    return sum(map(int, fields)), int(fields[7])


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_suite(name):
    """One suite, in a process that runs no other meanwhile: its tally, and a row for the JSON."""
    started, cpu_before = time.monotonic(), cpu_seconds()
    if sys.stdout.isatty():
        print(f"        {name} ...", flush=True)
    try:
        tally = suites()[name]()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        tally = Tally()
        tally.failed.append((name, f"{type(error).__name__}: {error}"))
    check_skips(tally, expected_skips())
    return tally, {"suite": name, "seconds": round(time.monotonic() - started, 1),
                   "cpu_seconds": round(cpu_seconds() - cpu_before, 1),
                   "passed": len(tally.passed), "skipped": len(tally.skipped),
                   "failed": [case for case, _ in tally.failed], "result": RESULTS.get(name)}


def print_suite(number, count, width, tally, row):
    print(f"[{number:2}/{count}] {row['suite']:<{width}} {tally.line()}"
          f"  ({row['seconds']:.0f} s, CPU {row['cpu_seconds']:.0f} s)", flush=True)
    for case, detail in tally.failed:
        print(f"  FAILED {case}")
        for line in str(detail).strip().splitlines()[:60]:
            print(f"      {line}")
    for skipped, reason in tally.skipped:
        print(f"  skipped {skipped}: {reason}")


def groups(names, at_once):
    """(how many run at a time, suites): one group after the other."""
    return ((at_once, [name for name in names if name not in MEASURES]),
            (1, [name for name in names if name in MEASURES]))


def run(names, at_once):
    """Returns the sums, and a row for the JSON of each suite, as they end."""
    total, report = Tally(), []
    width = max(len(name) for name in names)
    for processes, group in groups(names, at_once):
        with concurrent.futures.ProcessPoolExecutor(
                processes, mp_context=multiprocessing.get_context("fork")) as pool:
            running = [pool.submit(run_suite, name) for name in group]
            for done in concurrent.futures.as_completed(running):
                tally, row = done.result()
                report.append(row)
                print_suite(len(report), len(names), width, tally, row)
                total.add(tally)
    return total, report


def write_report(name, started, ticks_before, report):
    """build/NAME.json: what ran, for how long, on which commit and how busy a machine."""
    commit = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=40"], cwd=ROOT,
                            text=True, capture_output=True, check=False).stdout.strip()
    ticks = [now - before for now, before in zip(cpu_ticks(), ticks_before)]
    path = ROOT / "build" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({
        "tier": name, "commit": commit, "seed": SEED, "cpus": os.cpu_count(),
        "seconds": round(time.monotonic() - started, 1), "load": os.getloadavg(),
        "stolen_ppm": round(1e6 * ticks[1] / max(ticks[0], 1)), "suites": report}, indent=1) + "\n")


def main():
    global SEED
    table = suites()
    parser = argparse.ArgumentParser(description="Runs test suites and counts what they report.")
    parser.add_argument("--seed", type=int, default=SEED, help="of what is drawn at random")
    parser.add_argument("--at-once", type=int, metavar="N",
                        help=f"suites that run at a time (gate, check-all: {AT_ONCE}, else 1); "
                             "those that measure run alone")
    parser.add_argument("suite", nargs="*",
                        help=f"a tier ({' '.join(TIERS)}), or any of: {' '.join(table)}")
    options = parser.parse_args()
    asked = options.suite or ["gate"]
    is_tier = len(asked) == 1 and asked[0] in TIERS
    wanted = TIERS[asked[0]] if is_tier else asked
    unknown = [name for name in wanted if name not in table]
    if unknown:
        parser.error(f"no suite {unknown[0]!r}; there are: {' '.join(table)}")
    SEED = options.seed
    started, ticks = time.monotonic(), cpu_ticks()
    at_once = AT_ONCE if asked[0] in ("gate", "check-all") else 1
    total, report = run(wanted, options.at_once or at_once)
    write_report(asked[0] if is_tier else "suites", started, ticks, report)
    print()
    print(total.line())
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
