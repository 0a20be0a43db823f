# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What it takes to ask a bucket about an hour of one host: 60 segments of 4 MB. The server is
test/lib/mock_s3.py, in a process of its own; an answer of S3 takes tens of milliseconds, so it is
asked with such a delay, too."""
import gzip
import json
import os
import subprocess
import sys
import time

from .programs import ROOT, Broken
from .rows import row

SEGMENTS = 60
START_NS = 1779105600 * 10**9  # 2026-05-18 12:00 UTC
INFO_MS_MAX, SHARE_MAX = 1000, 3
DELAY_S = 0.03
SERVER = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
from mock_s3 import MockS3
body = open(sys.argv[2], "rb").read()
server = MockS3()
server.delay_s = float(sys.argv[4])
for number in range(int(sys.argv[5])):
    start = int(sys.argv[3]) // 10**6 + number * 60000
    server.objects["/bucket/p/k1/raw/service=web/date=2026-05-18/hour=12/host=h/"
                   f"{start}-59000-0123abcd-42-777-{number:06}.trc.zst"] = (body, {})
print(json.dumps(server.environment()), flush=True)
sys.stdin.read()
"""


def make_segment(context):
    """A real trace of dial9's, sealed: with an empty index, in whose place convert puts a true
    one."""
    raw = gzip.decompress((ROOT / "test/data/dial9-0.5.7-demo.bin.gz").read_bytes())
    raw += (ROOT / "test/golden/traces/SegmentIndexEvent.trc").read_bytes()
    path = context.scratch / "segment.trc.zst"
    done = subprocess.run([context.kymo, "convert", "-q", "-", "-o", path], input=raw,
                          capture_output=True)
    if done.returncode != 0:
        raise Broken(f"kymo convert: {done.stderr.decode()}")
    return path


def ask(context, environment, *words):
    """Milliseconds, and what it says."""
    before = time.monotonic()
    done = subprocess.run([context.kymo, *words], env={**os.environ, **environment}, text=True,
                          capture_output=True)
    if done.returncode != 0:
        raise Broken(f"kymo {words[0]}: {done.stderr}")
    return (time.monotonic() - before) * 1000, done.stdout


def measure(context, segment, delay_s):
    command = [sys.executable, "-c", SERVER, str(ROOT / "test/lib"), str(segment), str(START_NS),
               str(delay_s), str(SEGMENTS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as server:
        environment = json.loads(server.stdout.readline())
        ask(context, environment, "info", "s3://bucket/p")  # the server counts its ETags
        times, shares, parts = [], [], []
        for _ in range(context.rounds):
            ms, said = ask(context, environment, "info", "--json", "s3://bucket/p")
            found = json.loads(said)
            if sum(run["segments_without_index"] for run in found["runs"]):
                raise Broken("a segment has no index")
            times.append(ms)
            shares.append(100 * found["bytes_read"] / found["bytes"])
            parts.append(ask(context, environment, "convert", "s3://bucket/p", "--service", "web",
                             "--host", "h", "--from", "2026-05-18T12:30:02", "--to",
                             "2026-05-18T12:30:04", "--force", "-o",
                             context.scratch / "part.trc")[0])
        server.stdin.close()
    return times, shares, parts


def rows(context):
    context.progress("bucket: making a segment")
    segment = make_segment(context)
    context.progress("bucket: asking")
    times, shares, parts = measure(context, segment, 0)
    far_times, _, far_parts = measure(context, segment, DELAY_S)
    size = segment.stat().st_size / 1e6
    hour = f"of an hour of one host, {SEGMENTS} segments of {size:.1f} MB"
    return [row(f"bucket: kymo info {hour}", times, "ms", INFO_MS_MAX),
            row(f"bucket: bytes that kymo info reads {hour}", shares, "%", SHARE_MAX),
            row(f"bucket: kymo info {hour}, 30 ms an answer", far_times, "ms", INFO_MS_MAX),
            row("bucket: kymo convert of two seconds of it", parts, "ms", None),
            row("bucket: kymo convert of two seconds of it, 30 ms an answer", far_parts, "ms",
                None)]
