#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Violates each rule of tidy.py in a tree of its own, and checks that the rule sees it."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tidy  # noqa: E402
import unittest_tap  # noqa: E402

SPDX = "/* SPDX-License-Identifier: Apache-2.0 OR MIT */\n"


class TidyTest(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="kymo-tidy-"))
        self.addCleanup(shutil.rmtree, self.root)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def findings(self, rule):
        return [(name, text) for name, _, text in tidy.RULES[rule](tidy.Tree(self.root))]

    def assert_finds(self, rule, name, part):
        found = self.findings(rule)
        self.assertTrue(any(name == where and part in text for where, text in found), found)

    def assert_clean(self, rule):
        self.assertEqual(self.findings(rule), [])

    def test_includes__read_may_not_include_record(self):
        self.write("src/record/ring.h", SPDX)
        self.write("src/read/open.c", SPDX + "#include <record/ring.h>\n")
        self.assert_finds("includes", "src/read/open.c", "may not include src/record/ring.h")

    def test_includes__a_file_beside_is_resolved_before_it_is_judged(self):
        self.write("src/ship/store.h", SPDX)
        self.write("src/drain/step.c", SPDX + '#include "../ship/store.h"\n')
        self.assert_finds("includes", "src/drain/step.c", "may not include src/ship/store.h")

    def test_includes__adapters_see_public_headers_alone(self):
        self.write("include/kymo/emit.h", SPDX)
        self.write("src/base/buf.h", SPDX)
        self.write("adapters/tokio/preload.c", SPDX + "#include <kymo/emit.h>\n")
        self.assert_clean("includes")
        self.write("adapters/tokio/preload.c", SPDX + "#include <base/buf.h>\n")
        self.assert_finds("includes", "adapters/tokio/preload.c", "may not include src/base/buf.h")

    def test_includes__libraries_stay_behind_ship(self):
        self.write("src/drain/step.c", SPDX + "#include <zstd.h>\n")
        self.write("src/ship/compress_zstd.c", SPDX + "#include <zstd.h>\n")
        self.assertEqual([name for name, _ in self.findings("includes")], ["src/drain/step.c"])

    def test_includes__wire_needs_nothing_of_the_system(self):
        self.write("src/wire/dec.c", SPDX + "#include <string.h>\n#include <unistd.h>\n")
        self.assert_finds("includes", "src/wire/dec.c", "<unistd.h>")

    def test_includes__nothing_includes_tests(self):
        self.write("test/lib/faults.h", SPDX)
        self.write("src/cli/main.c", SPDX + '#include "../../test/lib/faults.h"\n')
        self.assert_finds("includes", "src/cli/main.c", "nothing includes test")

    def test_includes__an_unknown_folder_needs_a_row(self):
        self.write("src/utils/misc.c", SPDX)
        self.assert_finds("includes", "src/utils/misc.c", "no row")

    def test_lines__tabs_count_eight_columns(self):
        self.write("src/base/a.c", SPDX + "\t" + "x" * 92 + "\n")
        self.assert_clean("lines")
        self.write("src/base/a.c", SPDX + "\t" + "x" * 93 + "\n")
        self.assert_finds("lines", "src/base/a.c", "101 columns")

    def body(self, lines, extra=""):
        return SPDX + "int f(void)\n{\n" + extra + "\tg();\n" * (lines - 2 - bool(extra)) + "}\n"

    def test_functions__above_seventy_lines_only_with_a_reason(self):
        self.write("src/base/a.c", self.body(70))
        self.assert_clean("functions")
        self.write("src/base/a.c", self.body(71))
        self.assert_finds("functions", "src/base/a.c", "71 lines")
        self.write("src/base/a.c", self.body(100, "\t/* tidy: long because a table */\n"))
        self.assert_clean("functions")
        self.write("src/base/a.c", self.body(101, "\t/* tidy: long because a table */\n"))
        self.assert_finds("functions", "src/base/a.c", "never above 100")

    def test_files__above_eight_hundred_lines_only_with_a_reason(self):
        self.write("src/base/a.c", SPDX + "\n" * 799)
        self.assert_clean("files")
        self.write("src/base/a.c", SPDX + "\n" * 800)
        self.assert_finds("files", "src/base/a.c", "801 lines")
        self.write("src/base/a.c", SPDX + "/* tidy: long because one table */\n" + "\n" * 998)
        self.assert_clean("files")
        self.write("src/base/a.c", SPDX + "/* tidy: long because one table */\n" + "\n" * 999)
        self.assert_finds("files", "src/base/a.c", "never above 1000")

    def test_banned__each_call_is_seen_and_words_in_comments_are_not(self):
        for call in ("strcpy", "sprintf", "atoi", "strtok", "alloca", "system", "localtime",
                     "rand"):
            with self.subTest(call=call):
                self.write("src/base/a.c", f"{SPDX}void f(void)\n{{\n\t{call}(0);\n}}\n")
                self.assert_finds("banned", "src/base/a.c", f"{call} is banned")
        self.write("src/base/a.c", SPDX + '/* rand() */ char *s = "system(1)"; int snprintf(int);')
        self.assert_clean("banned")

    def test_banned__gnu_shapes(self):
        for text, what in (("int a = ({ 1; });", "statement expression"),
                           ("void f(void)\n{\n\tgoto *p;\n}", "computed goto"),
                           ("typedef struct a {\n\tint b;\n} a;", "typedef of a struct")):
            with self.subTest(what=what):
                self.write("src/base/a.c", SPDX + text + "\n")
                self.assert_finds("banned", "src/base/a.c", what)

    def test_clocks__are_read_in_one_place(self):
        for call in ("clock_gettime(CLOCK_MONOTONIC, &now)", "gettimeofday(&now, 0)", "time(0)",
                     "clock()"):
            for name in ("src/base/a.c", "adapters/tokio/a.h", "include/kymo/a.h"):
                with self.subTest(call=call, name=name):
                    self.write(name, f"{SPDX}void f(void)\n{{\n\t{call};\n}}\n")
                    self.assert_finds("clocks", name, "base/now.h")
                    self.write(name, SPDX)
        for name in (*tidy.CLOCK_FILES, "test/unit/base/test_a.c"):
            self.write(name, SPDX + "void f(void)\n{\n\tclock_gettime(0, 0);\n}\n")
        self.write("src/base/a.c", SPDX + "/* time() */ int wake_time(int); int f(int clock);")
        self.assert_clean("clocks")

    def test_spdx__first_line_or_the_one_behind_the_interpreter(self):
        self.write("src/base/a.c", "int a;\n" + SPDX)
        self.write("tools/a.sh", "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0 OR MIT\n")
        self.assertEqual([name for name, _ in self.findings("spdx")], ["src/base/a.c"])

    def test_headers__say_their_name_and_what_they_are(self):
        self.write("src/base/a.h", SPDX + "/* a.h - bytes. */\n")
        self.write("src/base/b.h", SPDX + "/* bytes */\n")
        self.assertEqual([name for name, _ in self.findings("headers")], ["src/base/b.h"])

    def test_names__snake_case_and_once_in_the_tree(self):
        self.write("src/base/aB.c", SPDX)
        self.assert_finds("names", "src/base/aB.c", "snake_case")
        self.write("src/base/open.c", SPDX)
        self.write("src/read/open.c", SPDX)
        self.assert_finds("names", "src/read/open.c", "twice")
        self.write("include/kymo/once.h", SPDX)  # what is public may be called as its module
        self.write("src/drain/once.h", SPDX)
        self.write("test/lib/once.h", SPDX)
        self.assertNotIn("once.h", str(self.findings("names")))
        self.write("src/wire/once.h", SPDX)
        self.assert_finds("names", "src/wire/once.h", "src/drain/once.h")

    def test_tags__are_defined_once(self):
        self.write("src/base/a.c", SPDX + "struct work {\n\tint a;\n};\n/* struct job { */\n")
        self.write("src/base/b.c", SPDX + "struct job {\n\tstruct work *a;\n};\n")
        self.write("test/unit/base/test_a.c", SPDX + "struct work {\n\tint a;\n};\n")
        self.assert_clean("tags")
        self.write("src/read/c.c", SPDX + "enum work {\n\tWORK\n};\n")
        self.assert_finds("tags", "src/read/c.c", "work is defined in src/base/a.c")

    def test_header_alone__public_ones_in_three_languages(self):
        self.write("include/kymo/a.h", SPDX + "static inline int f(void)\n{\n\treturn 1;\n}\n")
        self.assert_clean("header-alone")
        self.write("include/kymo/a.h", SPDX + "int f(int *restrict p);\n")
        self.assert_finds("header-alone", "include/kymo/a.h", "alone as c++11")
        self.write("include/kymo/a.h", SPDX + "_Static_assert(1, \"\");\n")
        self.assert_finds("header-alone", "include/kymo/a.h", "alone as c99")
        self.write("include/kymo/a.h", SPDX)
        self.write("src/base/b.h", SPDX + "uint8_t b(void);\n")
        self.assert_finds("header-alone", "src/base/b.h", "alone as gnu11")

    def test_tests__every_source_has_one_or_a_line_that_says_where(self):
        self.write("src/base/a.c", SPDX)
        self.assert_finds("tests", "src/base/a.c", "no test/unit/base/test_a.c")
        self.write(tidy.UNTESTED_LIST, "src/base/a.c: test/unit/base/test_b.c\n")
        self.assert_finds("tests", tidy.UNTESTED_LIST, "does not exist")
        self.write("test/unit/base/test_b.c", SPDX)
        self.assert_clean("tests")
        self.write("test/unit/base/test_a.c", SPDX)
        self.assert_finds("tests", tidy.UNTESTED_LIST, "take the line out")

    def test_events__need_doc_and_golden(self):
        event = 'KY_EVENT(A, "AEvent", KYMO, "{}")\nKY_FIELD(A, b, "b", U8, W, "", "", "{}")\n'
        end = "KY_EVENT_END(A)\n"
        self.write("src/wire/events.def", SPDX + event.format("doc", "doc") + end)
        self.write("test/golden/a.jsonl", "{}\n")
        self.assert_finds("events", "src/wire/events.def", "AEvent is in no golden trace")
        self.write("test/golden/a.jsonl", '{"event":"AEvent"}\n')
        self.assert_clean("events")
        self.write("src/wire/events.def", SPDX + event.format("", "") + end)
        self.assertEqual(len(self.findings("events")), 2)

    def test_generated__files_match_their_source(self):
        self.write("tools/gen_events.py", "import sys\nsys.exit('docs/format.md differs')\n")
        self.assert_finds("generated", "tools/gen_events.py", "docs/format.md differs")
        self.write("tools/gen_events.py", "")
        self.assert_clean("generated")

    def test_machine__no_path_of_one_machine(self):
        self.write("docs/a.md", "see /" + "home/someone/kymo\n")
        self.assert_finds("machine", "docs/a.md", "one machine")

    def test_format__spaces_are_seen(self):
        shutil.copy(pathlib.Path(tidy.__file__).parent.parent / ".clang-format", self.root)
        self.write("src/base/a.c", SPDX + "int f(void)\n{\n\treturn 1;\n}\n")
        self.assert_clean("format")
        self.write("src/base/a.c", SPDX + "int f(void) {\n  return 1;\n}\n")
        self.assert_finds("format", "src/base/a.c", "formatted")

    def test_layout__what_lies_at_the_root_is_known_by_name(self):
        self.write("src/base/a.c", SPDX)
        self.write("README.md", "")
        self.assert_clean("layout")
        self.write("--help/a.txt", "")
        self.assert_finds("layout", "--help", "not a file or folder of the root")

    def test_words__of_the_list_are_rejected_in_what_users_read(self):
        self.write("docs/man/a.1", "The drain writes what the ring holds.\n")
        self.assert_clean("words")
        for text, word in (("Nobody drains it.", "'Nobody'"), ("it goes on", "'goes on'"),
                           ("let the ring be", "'let the ring be'"), ("told", "'told'"),
                           ("a look at it", "'look'"), ("the hand", "'hand'"),
                           ("a processor", "'processor'"), ("leftover", "'leftover'"),
                           ("kinds of slot", "'kinds of slot'"), ("behind it", "'behind'")):
            with self.subTest(text=text):
                self.write("docs/man/a.1", text + "\n")
                self.assert_finds("words", "docs/man/a.1", word)

    def test_words__of_literals_in_sources_but_not_of_comments_and_includes(self):
        self.write("src/cli/a.c", SPDX + '#include "leftover.h"\n/* nobody */\nint told;\n')
        self.assert_clean("words")
        self.write("src/cli/a.c", SPDX + 'f("it goes "\n  "on");\n')
        self.assert_finds("words", "src/cli/a.c", "'goes on': write continues")

    def test_words__an_exception_names_its_file(self):
        exceptions = {("src/cli/a.c", "looks"): "a JSON key"}
        with unittest.mock.patch.object(tidy, "WORD_EXCEPTIONS", exceptions):
            self.write("src/cli/a.c", SPDX + 'f("looks");\n')
            self.assert_clean("words")
            self.write("src/cli/b.c", SPDX + 'f("looks");\n')
            self.assert_finds("words", "src/cli/b.c", "'looks'")

    def test_symbols__archives_and_shared_objects(self):
        source = self.root / "a.c"
        source.write_text("int kymo_a; int ky_b; int helper;\n")
        (self.root / "src").mkdir()
        subprocess.run(["gcc", "-c", "-o", "a.o", "a.c"], cwd=self.root, check=True)
        subprocess.run(["ar", "rc", "src/liba.a", "a.o"], cwd=self.root, check=True)
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", "src/liba.so", "a.c"], cwd=self.root,
                       check=True)
        found = {(pathlib.Path(name).name, text.split(":")[0])
                 for name, _, text in tidy.symbol_findings(self.root)}
        self.assertEqual(found, {("liba.a", "exports helper"), ("liba.so", "exports helper"),
                                 ("liba.so", "exports ky_b")})

    def test_signal_safe__what_a_handler_may_call(self):
        source = self.root / "a.c"
        source.write_text("#include <stdio.h>\n#include <unistd.h>\nint f(void);\n"
                          "int f(void) { return puts(\"x\") + getpid(); }\n")
        subprocess.run(["gcc", "-c", "-o", "a_sig.c.o", "a.c"], cwd=self.root, check=True)
        found = [text.split()[0] for _, _, text in tidy.signal_findings(self.root)]
        self.assertEqual(found, ["puts"])

    def test_every_rule_has_a_case_here(self):
        cases = {name[5:].split("__")[0] for name in dir(self) if name.startswith("test_")}
        self.assertEqual({rule.replace("-", "_") for rule in tidy.RULES} - cases, set())


if __name__ == "__main__":
    unittest_tap.main()
