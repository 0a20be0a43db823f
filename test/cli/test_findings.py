# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The findings of `kymo report`: their schema, their score, what is left unsaid. What each finding
is found by is shown by the golden traces of the fault corpus (test/golden/test_faults.py)."""
import json
import pathlib
import re
import sys

from cli_case import Cli, main
from trace_maker import SampleTrace

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs/findings.schema.json").read_text())
MS = 1_000_000
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float),
         "null": type(None)}


def violations(value, schema, where="$"):
    """What JSON Schema says of a value, for the keywords that the schema uses."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(isinstance(value, TYPES[kind]) for kind in kinds):
        return [f"{where}: {value!r} is no {kinds}"]
    bad = []
    if "const" in schema and value != schema["const"]:
        bad.append(f"{where}: {value!r}")
    if "enum" in schema and value not in schema["enum"]:
        bad.append(f"{where}: {value!r} is none of {schema['enum']}")
    if "pattern" in schema and value is not None and not re.search(schema["pattern"], value):
        bad.append(f"{where}: {value!r} is not {schema['pattern']}")
    if "minLength" in schema and len(value) < schema["minLength"]:
        bad.append(f"{where} is empty")
    if "minimum" in schema and not schema["minimum"] <= value <= schema.get("maximum", value):
        bad.append(f"{where}: {value} is out of range")
    for key in schema.get("required", ()):
        if key not in value:
            bad.append(f"{where} lacks {key}")
    for key, inner in schema.get("properties", {}).items():
        if isinstance(value, dict) and key in value:
            bad += violations(value[key], inner, f"{where}.{key}")
    if isinstance(value, dict) and "properties" in schema:
        bad += [f"{where}.{key} is not in the schema" for key in set(value) -
                set(schema["properties"])]
    for at, one in enumerate(value if "items" in schema else ()):
        bad += violations(one, schema["items"], f"{where}[{at}]")
    return bad


def service(polls=40, long_ns=20 * MS, blocked=True):
    """One worker; each long poll of app::slow is followed by one of app::quick, ready before it."""
    trace = SampleTrace().metadata(pid=1, service="svc", machine__architecture="x86_64")
    trace.symbol(0x10, "app::read_all", 9).symbol(0x20, "app::slow", 7)
    at = MS
    for number in range(polls):
        trace.event("WakeEventEvent", at, ("waker_task_id", "VARINT", 0),
                    ("woken_task_id", "VARINT", 8), ("target_worker", "U8", 0))
        trace.poll(at + 1000, at + 1000 + long_ns, 7, "app::slow")
        if blocked:
            trace.off_cpu(at + long_ns, long_ns - 100_000, 7, at + 1000, 0x10, 0x20, syscall=0)
        trace.poll(at + 2000 + long_ns, at + 52_000 + long_ns, 8, "app::quick")
        at += long_ns + 10 * MS * (1 + number % 2)
    return trace


class Findings(Cli):
    def report(self, trace, *words):
        path = trace.save(self.dir / "trace.trc")
        return json.loads(self.run_kymo("report", "--json", *words, path).out)

    def test_json_follows_the_schema(self):
        self.assertEqual(violations(self.report(service()), SCHEMA), [])
        for path in sorted((ROOT / "test/golden/faults").glob("*.trc.zst")):
            said = json.loads(self.run_kymo("report", "--json", path).out)
            self.assertEqual(violations(said, SCHEMA), [], path)

    def test_each_finding_has_its_section(self):
        table = (ROOT / "src/analyze/findings/findings.def").read_text()
        anchors = re.findall(r'KY_FINDING\(\w+, "(\w+)", \d+, "([a-z-]+)"\)', table)
        self.assertGreaterEqual(len(anchors), 20)
        sections = re.findall(r"(?m)^## (\S+)$", (ROOT / "docs/findings.md").read_text())
        self.assertEqual(sorted(anchor for _, anchor in anchors), sorted(sections))
        for name, anchor in anchors:
            self.assertEqual(name.replace("_", "-"), anchor)

    def test_the_schema_check_can_fail(self):
        said = self.report(service())
        said["findings"][0]["severity"] = "fatal"
        said["findings"][0]["impact"]["share"] = 2
        del said["trace"]["duration_ns"]
        said["more"] = 1
        self.assertEqual(len(violations(said, SCHEMA)), 4)

    def test_a_blocked_poll_is_named_with_its_call_and_its_victims(self):
        said = self.report(service())["findings"]
        self.assertEqual([one["id"] for one in said], ["blocking_call"])
        one = said[0]
        self.assertIn("app::slow", one["statement"])
        self.assertIn("blocked in read", one["statement"])
        self.assertEqual((one["culprit"]["task"], one["culprit"]["function"]),
                         ("app::slow", "app::slow"))
        self.assertEqual(one["impact"]["victims"], 40)
        self.assertGreater(one["score"], 0.9)

    def test_the_key_is_the_same_in_another_trace(self):
        first, second = (self.report(service(polls))["findings"][0] for polls in (40, 50))
        self.assertEqual(first["key"], second["key"])
        self.assertNotEqual(first["impact"]["delay_ns"], second["impact"]["delay_ns"])

    def test_throttling_is_named_with_its_time(self):
        trace = service(long_ns=2 * MS).event(
            "CgroupThrottledEvent", 400 * MS, ("level", "U8", 0), ("from_ns", "VARINT", 300 * MS),
            ("to_ns", "VARINT", 400 * MS), ("throttled_ns", "VARINT", 80 * MS))
        one = self.report(trace)["findings"][0]
        self.assertEqual((one["id"], one["severity"]), ("cgroup_throttled", "critical"))
        self.assertEqual(one["impact"]["delay_ns"], 80 * MS)

    def test_short_polls_are_healthy(self):
        said = self.report(service(long_ns=2 * MS))
        self.assertEqual([one["severity"] for one in said["findings"]], ["info"])
        text = self.run_kymo("report", self.dir / "trace.trc").out
        self.assertIn("Healthy: ", text)

    def test_what_neither_cost_nor_sample_says_is_not_guessed(self):
        (one,) = self.report(service(blocked=False))["findings"]
        self.assertEqual((one["id"], one["confidence"]), ("cpu_heavy_poll", "possible"))
        self.assertNotIn("ran on CPU", one["statement"])
        self.assertIn("does not say whether", one["missing"][0]["effect"])

    def test_a_range_has_its_own_findings(self):
        said = self.report(service(), "--from", "10s")
        self.assertEqual(said["findings"], [])
        text = self.run_kymo("report", "--from", "10s", self.dir / "trace.trc").out
        self.assertIn("No poll is in the trace", text)

    def test_they_are_a_table_for_sql_and_for_checks(self):
        path = service().save(self.dir / "trace.trc")
        rows = json.loads(self.run_kymo("view", "findings", "--json", path).out)["rows"]
        said = self.report(service())["findings"]
        self.assertEqual([row["finding"] for row in rows], [one["id"] for one in said])
        self.assertIn("blocking_call", self.run_kymo(
            "query", "SELECT finding, action FROM findings WHERE score_ppm > 900000", path).out)
        rules = self.dir / "rules.toml"
        rules.write_text('[[rule]]\nname = "nothing"\nview = "findings"\n'
                         'where = "severity <> \'info\'"\nvalue = "count(*)"\nmax = 0\n')
        self.assertRegex(self.run_kymo("check", rules, path, code=1).out, "broken +1 +at most 0 ")

    def test_the_screen_has_what_harm_and_what_next(self):
        trace = service().save(self.dir / "trace.trc")
        text = self.run_kymo("report", trace).out
        for label in ("what ", "cause ", "harm ", "next "):
            self.assertRegex(text, rf"(?m)^   {label}")
        self.assertLessEqual(max(len(line) for line in text.splitlines()), 100)


if __name__ == "__main__":
    sys.exit(main())
