#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What kymo sends, taken by the field's own receivers on loopback: the OpenTelemetry Collector,
made by its builder; VictoriaMetrics, which is asked for it again; the push handler that Pyroscope
publishes (its server, and Parca's, are no modules). Each is taken from KYMO_OTLP_BIN, or made by
Go into build/otlp; without all of them the suite is skipped (77).

usage: check_otlp.py --build BUILD
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "test/lib"), str(ROOT / "tools")]
from check_s3 import free_port  # noqa: E402
import unittest_tap  # noqa: E402
from unittest_tap import wait_until  # noqa: E402

BUILD = ROOT / "build"
TRACE = ROOT / "test/data/dial9-0.5.7-demo.bin.gz"
FOUND = {}
COLLECTOR = "v0.160.0"
# The last of its branch that Go 1.26 builds.
VICTORIA = "github.com/VictoriaMetrics/VictoriaMetrics/app/victoria-metrics@v1.148.9"
MANIFEST = f"""dist: {{name: otelcol, output_path: ./collector, module: local/otelcol}}
receivers: [{{gomod: go.opentelemetry.io/collector/receiver/otlpreceiver {COLLECTOR}}}]
exporters: [{{gomod: go.opentelemetry.io/collector/exporter/debugexporter {COLLECTOR}}}]
providers:
  - gomod: go.opentelemetry.io/collector/confmap/provider/fileprovider v1.66.0
  - gomod: go.opentelemetry.io/collector/confmap/provider/envprovider v1.66.0
"""
CONFIG = """receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:${env:OTLP_PORT}"}}}}
exporters: {debug: {verbosity: detailed}}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    traces: {receivers: [otlp], exporters: [debug]}
    metrics: {receivers: [otlp], exporters: [debug]}
    profiles: {receivers: [otlp], exporters: [debug]}
"""


def go(place, *words):
    return subprocess.run(["go", *words], cwd=place, capture_output=True, check=False,
                          env={**os.environ, "GOBIN": str(BUILD / "otlp")}).returncode == 0


def module(name):
    place = BUILD / "otlp" / name
    place.mkdir(parents=True, exist_ok=True)
    if not (place / "go.mod").exists():
        go(place, "mod", "init", f"local/{name}")
    return place


def make_collector(out):
    place = module("manifest")
    (place / "builder.yaml").write_text(MANIFEST)
    if go(place, "install", f"go.opentelemetry.io/collector/cmd/builder@{COLLECTOR}"):
        subprocess.run([BUILD / "otlp/builder", "--config", "builder.yaml"], cwd=place,
                       capture_output=True, check=False)
    with contextlib.suppress(OSError):
        shutil.copy(place / "collector/otelcol", out)


def make_victoria(out):
    place = module("victoria")
    # A command alone: the module has many, and what they need.
    (place / "tools.go").write_text(f'package tools\n\nimport _ "{VICTORIA.split("@")[0]}"\n')
    if go(place, "get", VICTORIA):
        go(place, "build", "-mod=mod", "-o", str(out), VICTORIA.split("@")[0])


def make_pyroscope(out):
    place = module("pyroscope")
    shutil.copy(ROOT / "test/send/pyroscope_handler.go", place / "main.go")
    go(place, "get", "github.com/grafana/pyroscope/api@v1.6.0", "github.com/google/pprof/profile")
    if go(place, "mod", "tidy"):
        go(place, "build", "-o", str(out), ".")


MAKERS = {"otelcol": make_collector, "victoria-metrics": make_victoria,
          "pyroscope-handler": make_pyroscope}


def find(name):
    """The program, or None; made if there is Go to make it."""
    for path in (os.environ.get("KYMO_OTLP_BIN"), str(BUILD / "otlp")):
        if path and os.access(pathlib.Path(path) / name, os.X_OK):
            return pathlib.Path(path) / name
    if not shutil.which("go"):
        return None
    (BUILD / "otlp").mkdir(parents=True, exist_ok=True)
    MAKERS[name](BUILD / "otlp" / name)
    return BUILD / "otlp" / name if (BUILD / "otlp" / name).exists() else None


def ask(url, body=None, **headers):
    """Status, body."""
    request = urllib.request.Request(url, data=body, headers={
        name.replace("_", "-"): value for name, value in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


class Case(unittest.TestCase):
    NAME = ""

    @classmethod
    def setUpClass(cls):
        if not FOUND.get(cls.NAME):
            raise unittest.SkipTest(f"{cls.NAME} cannot be had: no such program, and no Go to "
                                    "make it")

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-otlp-"))
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def tearDown(self):
        self.stop()
        shutil.rmtree(self.dir)

    def words(self):
        raise NotImplementedError

    def start(self):
        with open(self.dir / "log", "ab") as log:
            self.process = subprocess.Popen([FOUND[self.NAME], *self.words()], stdout=log,
                                            stderr=log,
                                            env={**os.environ, "OTLP_PORT": str(self.port)})
        wait_until(self.answers)

    def answers(self):
        try:
            return ask(self.url + "/")[0] > 0
        except OSError:
            return False

    def stop(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        self.process.wait()

    def log(self):
        return (self.dir / "log").read_text(errors="replace")

    def kymo(self, *words, code=0, **environment):
        env = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
        done = subprocess.run([BUILD / "kymo", *map(str, words)], capture_output=True,
                              env={**env, **environment}, timeout=120, check=False)
        self.assertEqual(done.returncode, code, done.stderr.decode())
        return done

    def report(self, path):
        return json.loads(self.kymo("report", "--json", path).stdout)


class Collector(Case):
    NAME = "otelcol"

    def words(self):
        (self.dir / "config.yaml").write_text(CONFIG)
        return ["--feature-gates=service.profilesSupport", "--config",
                f"file:{self.dir}/config.yaml"]

    def body(self, signal_name):
        return self.kymo("export", "--format", f"otlp-{signal_name}", TRACE).stdout

    def test_it_verifies_what_it_takes(self):
        """Else the other cases would say nothing."""
        kind = {"Content_Type": "application/x-protobuf"}
        for name in ("traces", "metrics"):
            body = self.body(name)
            self.assertEqual(ask(f"{self.url}/v1/{name}", body, **kind)[0], 200)
            self.assertEqual(ask(f"{self.url}/v1/{name}", b"garbage", **kind)[0], 400)
            self.assertEqual(ask(f"{self.url}/v1/{name}", body, Content_Type="text/plain")[0], 415)
        traces = bytearray(self.body("traces"))
        at = traces.index(b"\x0a\x10", 60)
        broken = traces[:at] + b"\x0a\x03abc" + traces[at + 18:]
        self.assertEqual(ask(f"{self.url}/v1/traces", bytes(broken), **kind)[0], 400)

    def counts(self, metric):
        """Count and sum of all its points, as the collector prints them."""
        points = re.search(rf"-> Name: {re.escape(metric)}\n(.*?)(?:-> Name:|\{{\"resource)",
                           self.log(), re.S)[1]
        return (sum(map(int, re.findall(r"(?m)^Count: (\d+)", points))),
                sum(map(float, re.findall(r"(?m)^Sum: ([\d.]+)", points))))

    def test_it_counts_what_the_report_counts(self):
        self.kymo("export", "--format", "otlp", "--push", self.url, TRACE)
        wait_until(lambda: "kymo.lost.records" in self.log())
        report = self.report(TRACE)
        for metric, key in (("kymo.task.poll.duration", "polls"),
                            ("kymo.task.poll.delay", "delays")):
            count, total = self.counts(metric)
            self.assertEqual(count, report["tables"][key]["count"])
            self.assertAlmostEqual(total, report["tables"][key]["total_ns"] / 1e9, places=4)
        names = re.findall(r"(?m)^    Name +: (.*)$", self.log())
        self.assertEqual(names[:len(report["findings"])],
                         [one["id"] for one in report["findings"]])

    def test_it_takes_profiles_whose_protocol_is_in_development(self):
        self.kymo("export", "--format", "otlp", "--experimental", "--push", self.url, TRACE)
        wait_until(lambda: "Profile #0" in self.log())
        said = json.loads(self.kymo("export", "--format", "folded", "--kind", "cpu", "--json", "-o",
                                    self.dir / "folded", TRACE).stdout)
        first = self.log().split("Profile #0")[1].split("Profile #1")[0]
        self.assertEqual(sum(map(int, re.findall(r"Values: \[(\d+)\]", first))), said["sum"])

    def test_a_run_arrives_though_the_collector_dies(self):
        self.stop()
        host = BUILD / "test/cli/run_host"
        words = ("run", "--ring-dir", self.dir / "rings", "-o", self.dir / "traces", "--to",
                 f"otlp:{self.url}", "--upload-timeout", "500ms", "--", host, "5000")
        self.assertIn(b"left, the oldest is", self.kymo(*words).stderr)
        self.start()
        done = self.kymo("upload", self.dir / "traces", "--to", f"otlp:{self.url}")
        self.assertIn(b"sent 1 segment", done.stdout)
        wait_until(lambda: "kymo.lost.records" in self.log())
        path, = (self.dir / "traces").glob("*/2*/*.trc*")
        self.assertEqual(self.counts("kymo.task.poll.duration")[0],
                         self.report(path)["tables"]["polls"]["count"])
        self.assertIn("-> service.name: Str(run_host)", self.log())


class Victoria(Case):
    NAME = "victoria-metrics"

    def words(self):
        return [f"-httpListenAddr=127.0.0.1:{self.port}", f"-storageDataPath={self.dir}/data",
                "-retentionPeriod=100y"]

    def series(self):
        query = urllib.parse.urlencode({"match[]": '{__name__!=""}'})
        ask(self.url + "/internal/force_flush")
        return [json.loads(line) for line in
                ask(f"{self.url}/api/v1/export?{query}")[1].splitlines()]

    def test_what_it_was_sent_is_what_it_says(self):
        self.kymo("export", "--format", "otlp", "--push", self.url + "/opentelemetry", TRACE,
                  OTEL_TRACES_EXPORTER="none")
        wait_until(self.series)
        totals, labels = {}, set()
        for one in self.series():
            name = one["metric"]["__name__"]
            totals[name] = totals.get(name, 0) + sum(one["values"])
            labels |= set(one["metric"])
        report = self.report(TRACE)["tables"]
        for metric, key in (("kymo.task.poll.duration", "polls"),
                            ("kymo.task.poll.delay", "delays")):
            self.assertEqual(totals[f"{metric}_count"], report[key]["count"])
            self.assertEqual(totals[f"{metric}_bucket"], report[key]["count"])
            self.assertEqual(round(totals[f"{metric}_sum"] * 1e9), report[key]["total_ns"])
        # Attributes of the resource are labels here: none may differ from segment to segment.
        self.assertEqual(labels, {"__name__", "kymo.site", "service.name", "scope.name",
                                  "scope.version", "vmrange"})


class Pyroscope(Case):
    NAME = "pyroscope-handler"

    def words(self):
        return [str(self.port)]

    def test_its_handler_takes_our_profiles_and_nothing_else(self):
        done = self.kymo("export", "--format", "pprof", "--json", "--push", self.url, TRACE)
        said = json.loads(done.stdout)
        lines = [line for line in self.log().splitlines() if "samples:" in line]
        self.assertEqual(len(lines), said["profiles"])
        self.assertEqual(sum(int(line.split("samples: ")[1].split()[0]) for line in lines),
                         said["samples"])
        self.assertTrue(all("service_name=metrics-service" in line for line in lines))
        path = self.url + "/push.v1.PusherService/Push"
        self.assertEqual(ask(path, b"garbage", Content_Type="application/proto")[0], 400)


if __name__ == "__main__":
    PARSER = argparse.ArgumentParser()
    PARSER.add_argument("--build", type=pathlib.Path, required=True)
    OPTIONS, REST = PARSER.parse_known_args()
    BUILD = OPTIONS.build.resolve()
    FOUND.update({NAME: PATH for NAME in MAKERS if (PATH := find(NAME))})
    if not FOUND:
        print("none of the receivers is there, and there is no Go to make them")
        sys.exit(77)
    unittest_tap.main(REST)
