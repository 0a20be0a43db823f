# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`kymo check`: rules of a TOML file over the tables of a trace."""
import json
import sys
import xml.etree.ElementTree as ElementTree

from cli_case import Cli, main
from trace_maker import Trace

START_NS = 1_000_000_000
MS = 1_000_000
WORKER = ("worker_id", "VARINT")


class Check(Cli):
    def setUp(self):
        super().setUp()
        trace = Trace().metadata(pid=1, service='a<b&"c')
        for at, length, task in ((0, 2 * MS, 1), (5 * MS, 8 * MS, 2)):
            trace.event("PollStartEvent", START_NS + at, (*WORKER, 0), ("task_id", "VARINT", task),
                        ("spawn_loc", "STRING", b"svc::a"))
            trace.event("PollEndEvent", START_NS + at + length, (*WORKER, 0))
        self.path = trace.save(self.dir / "trace")
        self.rules = self.dir / "rules.toml"

    def rule(self, **keys):
        keys = {"view": "polls", "value": "max(duration_ns)", "max": "10ms", **keys}
        return "[[rule]]\n" + "".join(
            f"{key} = {json.dumps(value)}\n" for key, value in keys.items() if value is not None)

    def check(self, *rules, code=0, options=()):
        self.rules.write_text("\n".join(rules))
        done = self.run_kymo("check", "--json", *options, self.rules, self.path, code=code)
        return [rule["result"] for rule in json.loads(done.out)["rules"]]

    def test_bounds_decide(self):
        for keys, result in (({"max": "8ms"}, "held"), ({"max": "7999us"}, "broken"),
                             ({"max": 8 * MS}, "held"), ({"max": 8 * MS - 0.5}, "broken"),
                             ({"max": None, "min": "8ms"}, "held"),
                             ({"max": None, "min": "9ms"}, "broken"),
                             ({"min": 1, "max": "64M"}, "held"),
                             ({"value": "count(*)", "max": 1}, "broken"),
                             ({"value": "count(*)", "max": 0, "where": "task = 3"}, "held"),
                             ({"value": "sum(duration_ns) / 4.0", "max": 2.5e6}, "held"),
                             ({"view": "spawn-sites", "value": "max(polls)", "max": 1}, "broken")):
            code = 0 if result == "held" else 1
            self.assertEqual(self.check(self.rule(**keys), code=code), [result], keys)

    def test_all_rules_are_checked(self):
        self.assertEqual(self.check(self.rule(max="1ms"), self.rule(), self.rule(max="2ms"),
                                    code=1), ["broken", "held", "broken"])
        text = self.run_kymo("check", self.rules, self.path, code=1).out
        self.assertIn("1 of 3 rules hold", text)
        self.assertRegex(text, r"broken +8\.00 ms +at most 1ms +max\(duration_ns\) of polls")

    def test_no_value_fails_unless_it_may_be_missing(self):
        none = {"where": "site = 'svc::gone'"}
        self.assertEqual(self.check(self.rule(**none), code=1), ["missing"])
        self.assertEqual(self.check(self.rule(missing="fail", **none), code=1), ["missing"])
        self.assertEqual(self.check(self.rule(missing="skip", **none)), ["skipped"])

    def test_junit_has_every_rule(self):
        junit = self.dir / "out.xml"
        junit.write_text("old")
        self.check(self.rule(name="<slow> & \"x\"", max="1ms"), self.rule(name="ok \x07"),
                   self.rule(where="task = 9", missing="skip"), code=1,
                   options=("--junit", junit))
        suite = ElementTree.parse(junit).getroot().find("testsuite")
        self.assertEqual((suite.get("tests"), suite.get("failures"), suite.get("skipped")),
                         ("3", "1", "1"))
        cases = suite.findall("testcase")
        self.assertEqual([case.get("name") for case in cases],
                         ['<slow> & "x"', "ok \\x07", "max(duration_ns) of polls"])
        self.assertEqual(cases[0].get("classname"), 'a<b&"c')
        self.assertEqual(cases[0].find("failure").get("message"),
                         "max(duration_ns) is 8.00 ms, at most 1ms is allowed")
        self.assertIsNotNone(cases[2].find("skipped"))
        self.fails("check", "--junit", self.dir / "no" / "out.xml", self.rules, self.path,
                   says=["--junit"])

    def test_a_suite_stands_for_each_process(self):
        self.rules.write_text(self.rule(max="1s"))
        junit = self.dir / "out.xml"
        other = self.dir / "other"
        other.write_bytes(self.path.read_bytes().replace(b"\1\0\0\0" b"1", b"\1\0\0\0" b"2", 1))
        self.run_kymo("check", "--junit", junit, self.rules, self.path, other)
        self.assertEqual(len(ElementTree.parse(junit).getroot().findall("testsuite")), 2)

    def test_wrong_rules_are_named_with_their_line(self):
        for text, says in ((self.rule(view="pols"), [":2: ", "did you mean 'polls'?"]),
                           (self.rule(where="tsk = 1"), ["no such column: tsk (at character 1)"]),
                           (self.rule(value="max(duration"), ["at its end"]),
                           (self.rule(value="duration_ns"), ["several rows"]),
                           (self.rule(value="max(site)"), ["value is text"]),
                           (self.rule(value="load_extension('x')"), ["refused"]),
                           (self.rule(max="ten"), [":4: rule[0].max", "'ten'"]),
                           (self.rule(max=True), ["rule[0].max"]),
                           (self.rule(max=None), ["needs max, min or both"]),
                           (self.rule(min="20ms"), ["min is above max"]),
                           (self.rule(view=None), ["needs a view"]),
                           (self.rule(missing="perhaps"), ["'perhaps'"]),
                           (self.rule(wher="x"), ["did you mean where?"]),
                           ("x = 1", ["below [[rule]]"]), ("", ["no [[rule]] in it"]),
                           ("[[rule]", ["no TOML"])):
            self.rules.write_text(text)
            self.fails("check", self.rules, self.path, says=["rules.toml", *says])
        self.fails("check", self.dir / "none.toml", self.path, says=["none.toml"])
        for words in ((), (self.rules,)):
            self.fails("check", *words, code=2, says=["name a"])


if __name__ == "__main__":
    sys.exit(main())
