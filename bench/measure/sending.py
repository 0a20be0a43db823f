# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What `kymo upload` takes: of a segment as it is, redacted and named, and of 10,000 that wait.

The server is the tests' (test/lib/mock_s3.py), a process of its own: what it takes does not count.
A destination that is away is a port on which nothing listens, and no time to try again.
"""
import contextlib
import os
import pathlib
import subprocess
import sys
import time

from .memory import LINKED_POLLS
from .programs import Broken, check_trace, run
from .rows import row

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "test/lib"))
from mock_s3 import MockS3  # noqa: E402

MIB = 1 << 20
WAITING = 10_000
BASE_ROUNDS = 40
LEFT = 1  # the exit status where something is left
# Name of the row, options, target in MiB beside `kymo --version`.
KINDS = (("as it is", ("--redact", "none", "--no-symbols"), 8),
         ("redacted", ("--redact", "args", "--no-symbols"), 8),
         ("redacted and named", ("--redact", "args"), None))


def highest(pid):
    """Peak memory of what the process runs now: ru_maxrss has that of the bench in it, too."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / MIB
    return 0


def spent(command, environment, expected):
    """CPU in ms, and peak memory in MiB."""
    most = 0
    with subprocess.Popen([str(word) for word in command], env={**os.environ, **environment},
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        own = os.stat("/proc/self/exe")
        done, status, usage = os.wait4(process.pid, os.WNOHANG)
        while not done:
            with contextlib.suppress(OSError):
                if not os.path.samestat(own, os.stat(f"/proc/{process.pid}/exe")):
                    most = max(most, highest(process.pid))
            time.sleep(0.001)
            done, status, usage = os.wait4(process.pid, os.WNOHANG)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != expected:
        raise Broken(f"{' '.join(map(str, command))} ended with {process.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1e3, most


def forget(directory):
    for path in directory.glob("*/*/.sent-*"):
        path.unlink()


def waiting(directory):
    run_directory = directory / "web/2026-05-18T12-30-00-0123abcd-42-777"
    run_directory.mkdir(parents=True)
    (run_directory / ".kymo-run").write_text("kymo run directory, version 1\n")
    for number in range(WAITING):
        (run_directory / f"{number:06}.trc").write_bytes(b"TRC\0\1")


def away(context, directory):
    environment = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b",
                   "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
                   "AWS_EC2_METADATA_DISABLED": "true"}
    return spent([context.kymo, "upload", directory, "--to", "s3://bucket/bench",
                  "--upload-timeout", "0"], environment, LEFT)


def rows(context):
    # It lives so shortly that only some of the looks are late enough.
    base = max(spent([context.kymo, "--version"], {}, 0)[1] for _ in range(BASE_ROUNDS))
    made = []
    with context.directory() as directory:
        waiting(directory)
        found = [away(context, directory) for _ in range(context.rounds)]
    made.append(row(f"a pass over {WAITING:,} waiting segments, CPU", [one[0] for one in found],
                    "ms"))
    made.append(row("the same, memory beside `kymo --version`",
                    [one[1] - base for one in found], "MiB", target=8))
    with context.directory() as directory, MockS3() as server:
        run([context.program("memory"), directory])
        check_trace(context.kymo, directory, {"PollStartEvent": LINKED_POLLS})
        for name, words, target in KINDS:
            found = []
            for _ in range(context.rounds):
                forget(directory)
                server.objects.clear()
                found.append(spent([context.kymo, "upload", directory, "--to",
                                    "s3://bucket/bench", *words], server.environment(), 0))
            title = f"upload of {2 * LINKED_POLLS / 1e6:.1f} M events {name}"
            made.append(row(f"{title}, CPU", [one[0] for one in found], "ms"))
            made.append(row(f"{title}, memory beside `kymo --version`",
                            [one[1] - base for one in found], "MiB", target=target))
    return made
