#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One rule for all commands: --help, the man pages and the completions say what docs/cli.md says,
and wrong words cost one sentence that names the option and what it takes.

usage: test_options.py KYMO SOURCE_ROOT [unittest arguments]
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import gen_completion  # noqa: E402
import unittest_tap  # noqa: E402

KYMO = ""
ROOT = pathlib.Path()
OPTION_LINE = re.compile(r"^ {2}(?:(-\w), | {4})(--[\w-]+)(?:=(\S+)|(\[=\S+?\]))?(?: +(.*))?$")
DOC_COLUMN = " " * 29


def run(*words, env=None, **more):
    return subprocess.run([KYMO, *map(str, words)], capture_output=True, text=True, check=False,
                          errors="replace", stdin=subprocess.DEVNULL,
                          env=dict(os.environ, **(env or {})), **more)


def help_options(text):
    """{name: (letter, argument, meaning)} of what --help lists."""
    found, name = {}, None
    for line in text.splitlines():
        match = OPTION_LINE.match(line)
        if match:
            letter, name, argument, optional, meaning = match.groups()
            argument = argument or (optional or "").replace("[=", "[")
            found[name] = [letter or "", argument, meaning or ""]
        elif name and line.startswith(DOC_COLUMN):
            found[name][2] = f"{found[name][2]} {line.strip()}".strip()
        else:
            name = None
    return {name: tuple(parts) for name, parts in found.items()}


def man_tag(line):
    """The text of a tag line: fonts and macros taken off."""
    macro, _, rest = line.replace("\\-", "-").partition(" ")
    rest = re.sub(r"\\f[A-Z]|\\:", "", rest)
    words = [word.replace('""', '"') for word in
             re.findall(r'"((?:[^"]|"")*)"|(\S+)', rest) for word in word if word]
    return (" " if macro in (".B", ".I") else "").join(words)


def man_options(page):
    """{name: (letter, argument)} of the tagged paragraphs."""
    lines, found = page.splitlines(), {}
    for tp, line in zip(lines, lines[1:]):
        text = man_tag(line) if tp == ".TP" else ""
        match = re.fullmatch(r"(?:(-\w)(?: (\S+))?, )?(--[\w-]+)(?:=(\S+)|(\[=\S+\]))?", text)
        if not match:
            continue
        letter, short_argument, name, argument, optional = match.groups()
        argument = argument or (optional or "").replace("[=", "[")
        if letter and (short_argument or "") != argument:
            raise AssertionError(f"{text}: two arguments")
        if name in found:
            raise AssertionError(f"{name} stands there twice")
        found[name] = (letter or "", argument)
    return found


class Table(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.commands, cls.options = gen_completion.read(ROOT / "docs/cli.md")

    def of(self, command):
        return {option.name: (option.letter, option.argument, option.meaning)
                for option in self.options if command in option.commands}

    def test_help_says_what_the_table_says(self):
        self.maxDiff = None
        for command in self.commands:
            done = run(command.name, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(help_options(done.stdout), self.of(command.name), command.name)

    def test_man_pages_say_what_the_table_says(self):
        self.maxDiff = None
        for command in self.commands:
            page = (ROOT / f"docs/man/kymo-{command.name}.1").read_text()
            expected = {name: (letter, argument)
                        for name, (letter, argument, _) in self.of(command.name).items()}
            self.assertEqual(man_options(page), expected, command.name)

    def test_commands_are_those_of_the_program(self):
        text = run("--help").stdout
        listed = re.findall(r"(?m)^ {2}([a-z]+) +(.*)$", text[:text.index("\n  -h")])
        self.assertEqual(listed, [(command.name, command.summary) for command in self.commands])

    def test_usage_names_the_arguments(self):
        for command in self.commands:
            first = run(command.name, "--help").stdout.splitlines()[0]
            rest = first.removeprefix(f"Usage: kymo {command.name} [OPTION...]").strip()
            self.assertTrue(rest.startswith(command.arguments), first)
            self.assertEqual(bool(rest), bool(command.arguments), first)

    def test_one_letter_is_one_option(self):
        names, letters = {}, {}
        for option in self.options:
            if option.letter:
                self.assertEqual(names.setdefault(option.letter, option.name), option.name)
            self.assertEqual(letters.setdefault(option.name, option.letter), option.letter)

    def test_no_option_stands_twice_for_one_command(self):
        seen = [(command, option.name) for option in self.options for command in option.commands]
        self.assertEqual(len(seen), len(set(seen)))

    def test_usage_and_version_are_everywhere(self):
        version = (ROOT / "VERSION").read_text().strip()
        for command in self.commands:
            for word in ("-V", "--version"):
                self.assertEqual(run(command.name, word).stdout, f"kymo {version}\n")
            usage = run(command.name, "--usage").stdout
            for name in self.of(command.name):
                self.assertIn(f"[{name}", usage)


class Wrong(unittest.TestCase):
    """What is wrong, where, and what it takes."""

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-options-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def sentence(self, *words, says=()):
        done = run(*words, cwd=self.dir)
        code = 125 if words[0] == "run" else 2
        self.assertEqual((done.returncode, done.stdout), (code, ""), (words, done.stderr))
        first = done.stderr.splitlines()[0]
        self.assertTrue(first.startswith(f"kymo {words[0]}: "), done.stderr)
        for text in says:
            self.assertIn(text, first)
        self.assertEqual(list(self.dir.iterdir()), [])
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_values_of_every_option(self):
        """What is chosen from a list, and every number, refuses nonsense by its name."""
        _, options = gen_completion.read(ROOT / "docs/cli.md")
        rest = {"run": ["true"], "attach": ["1"], "set": ["1"], "mark": ["1", "x"],
                "export": ["--format", "folded", "x"], "convert": ["-o", "o.trc", "x"], "ps": []}
        free = {"--columns", "--sort", "--where", "--group-by", "--debug-dir", "--junit", "--span",
                "--type", "--output", "--reason", "--label", "--service", "--live", "--host"}
        wrong = {"--metadata": "=", "--ring-dir": "x" * 300, "--dump-dir": "", "--into": ""}
        for option in options:
            if not option.argument or option.name in free:
                continue
            for command in option.commands:
                value = wrong.get(option.name, "7x")
                self.sentence(command, f"{option.name}={value}", *rest.get(command, ["1"]),
                              says=[option.name])

    def test_unknown_options_are_named(self):
        commands, _ = gen_completion.read(ROOT / "docs/cli.md")
        for command in commands:
            more = f"kymo {command.name} --help"
            self.sentence(command.name, "--nonsense", says=["'--nonsense'", more])
            self.sentence(command.name, "-qZ", says=["'-Z'", more])
            self.sentence(command.name, "--qiet", says=["'--qiet'", "mean '--quiet'"])
            self.sentence(command.name, "--quie", says=["'--quie'", "mean '--quiet'"])
            self.sentence(command.name, "--quiet=yes", says=["--quiet takes no value", "yes"])

    def test_missing_arguments_are_named(self):
        _, options = gen_completion.read(ROOT / "docs/cli.md")
        for option in options:
            if not option.argument or option.is_optional:
                continue
            for command in option.commands:
                self.sentence(command, option.name,
                              says=[f"{option.name} needs a value: {option.argument}"])
                if option.letter:
                    self.sentence(command, "-q" + option.letter[1:], says=["needs a value"])

    def test_missing_words_are_asked_for(self):
        for words, says in (
                (["run"], "which program?"), (["run", "-q", "--"], "which program?"),
                (["attach"], "which process?"), (["detach"], "which process?"),
                (["info"], "name a trace file"), (["report"], "name a trace file"),
                (["events"], "name a trace file"), (["symbolize"], "name a trace file"),
                (["export", "x"], "--format"), (["convert", "x"], "--output"),
                (["status"], "kymo ps"), (["set"], "kymo ps"), (["mark"], "TEXT"),
                (["dump"], "kymo ps")):
            self.sentence(*words, says=[says])

    def test_words_too_many_are_named(self):
        for words in (["attach", "1", "2345"], ["detach", "1", "2345"], ["ps", "2345"],
                      ["status", "1", "2345"], ["dump", "1", "2345"], ["recover", "1", "2345"],
                      ["doctor", "1", "2345"]):
            self.sentence(*words, says=["2345"])
        self.sentence("recover", "--all", "2345", says=["--all", "2345"])
        self.sentence("mark", "1", "x", "y", says=["one TEXT"])
        self.sentence("run", "--alloc", "64K", "true", says=["--alloc=64K"])

    def test_pids_are_numbers(self):
        for word in ("0", "-", "x", "1x", "+1", "4294967297", "99999999999999999999", "1.5"):
            for command in ("attach", "detach"):
                self.sentence(command, word, says=[word, "number"])

    def test_what_excludes_each_other_is_named(self):
        for words, says in (
                (["report", "--last", "1s", "--from", "1s", "x"], ["--last", "--from"]),
                (["events", "--last", "1s", "--to", "1s", "x"], ["--last", "--to"]),
                (["dump", "--after", "1s", "--to", "1s", "1"], ["--after", "--to"]),
                (["events", "--json", "--format", "csv", "x"], ["--json", "--format"]),
                (["events", "--symbols", "--no-symbols", "x"], ["--symbols", "--no-symbols"]),
                (["events", "-d", ".", "--no-symbols", "x"], ["--debug-dir", "--no-symbols"]),
                (["events", "--symbols", "--format", "csv", "x"], ["CSV", "jsonl"]),
                (["export", "--format", "folded", "--live", "x"], ["--live", "--kind heap"]),
                (["attach", "-o", "d", "1"], ["kymo dump PID"]),
                (["run", "-o", "a.trc", "--compress", "zstd", "true"], ["--compress"]),
                (["run", "-o", "a.trc", "--segment-bytes", "1M", "true"], ["--segment-bytes"])):
            self.sentence(*words, says=says)

    def test_numbers_have_bounds(self):
        for words in (["report", "--limit=0"], ["report", "--limit=1001"], ["events", "--limit=-1"],
                      ["report", "--last=0"], ["dump", "--last=30"], ["dump", "--after=25h"],
                      ["events", "--from=5"], ["events", "--to=2026-02-30"],
                      ["events", "--from=@99999999999999999999"], ["ps", "--interval=2h"],
                      ["ps", "--interval=0.5"], ["info", "--max-bytes=1.5G"],
                      ["info", "--max-memory=0"], ["info", "--max-ratio=0"],
                      ["convert", "--compress=zstd:20"], ["convert", "--compress=gzip:10"],
                      ["convert", "--compress=none:1"], ["dump", "--compress=zstd:"],
                      ["run", "--sample=1001"], ["run", "--alloc=1"], ["run", "--ring-bytes=5G"],
                      ["run", "--sample-bytes=1K"], ["run", "--resources=1ms"],
                      ["run", "--rotate-interval=0"], ["run", "--total-bytes=0"],
                      ["run", "--ring-dir=relative"]):
            name, value = words[1].split("=")
            self.sentence(*words, "x", says=[name, value])

    def test_control_bytes_do_not_reach_the_terminal(self):
        done = run("events", "--format", "\x1b[31mred", "x")
        self.assertEqual(done.returncode, 2)
        self.assertNotIn("\x1b", done.stderr)
        self.assertIn(r"\x1b[31mred", done.stderr)

    def test_an_old_spelling_is_gone(self):
        for words in (["export", "--until", "1s", "x"], ["export", "-F", "x"],
                      ["events", "-T", "1", "x"], ["events", "-u", "1s", "x"],
                      ["report", "--worst", "3", "x"], ["convert", "--level", "3", "x"],
                      ["convert", "-c", "zstd", "x"], ["ps", "-?"]):
            self.sentence(*words)

    def test_an_unknown_command_names_the_nearest(self):
        done = run("reprot")
        self.assertEqual(done.returncode, 2)
        self.assertIn("did you mean 'report'?", done.stderr)


class Colour(unittest.TestCase):
    TRACE = "test/data/dial9-2026-05-demo.bin.gz"

    def test_goes_to_terminals_unless_it_is_asked_for(self):
        trace = ROOT / self.TRACE
        self.assertNotIn("\x1b", run("info", trace).stdout)
        self.assertNotIn("\x1b", run("info", "--color", "never", trace).stdout)
        always = run("info", "--color=always", trace, env={"NO_COLOR": "1"}).stdout
        self.assertIn("\x1b[", always)
        self.assertEqual(re.sub(r"\x1b\[[\d;]*m", "", always), run("info", trace).stdout)

    def test_quiet_leaves_out_what_was_done(self):
        trace = ROOT / self.TRACE
        with tempfile.TemporaryDirectory(prefix="kymo-options-") as place:
            for words in (["convert", "-o", f"{place}/a.trc"],
                          ["symbolize", "-o", f"{place}/b.trc"],
                          ["export", "--format", "folded", "-o", f"{place}/c"]):
                self.assertNotEqual(run(*words, trace).stdout, "")
                quiet = run(*words, "-f", "-q", trace)
                self.assertEqual((quiet.returncode, quiet.stdout), (0, ""), quiet.stderr)
                self.assertNotEqual(run(*words, "-f", "-q", "-j", trace).stdout, "")


class Last(unittest.TestCase):
    """--last wherever --from and --to are: the same as --from END - DURATION."""

    TRACE = "test/data/dial9-2026-05-demo.bin.gz"

    def test_is_counted_from_the_end_of_the_run(self):
        trace = ROOT / self.TRACE
        def polls(*words):
            done = run("events", "--format", "csv", *words, trace)
            self.assertEqual(done.returncode, 0, done.stderr)
            return [int(line.split(",")[0]) for line in done.stdout.splitlines()[1:]]

        starts = polls("-t", "PollStartEvent")
        end = max(polls("-t", "Poll*", "-t", "Worker*", "-t", "Wake*"))
        last = polls("--last", "1s", "-t", "PollStartEvent")
        self.assertEqual(last, [stamp for stamp in starts if stamp >= end - 10**9])
        self.assertTrue(0 < len(last) < len(starts))
        self.assertEqual(polls("--last", "99h", "-t", "PollStartEvent"), starts)
        for words in (["report"], ["export", "--format", "folded"]):
            part, all_of_it = (run(*words, *last, trace) for last in (["--last", "1s"], []))
            self.assertEqual(part.returncode, 0, part.stderr)
            self.assertNotEqual(part.stdout, all_of_it.stdout)


class Completion(unittest.TestCase):
    HARNESS = r"""
        kymo() { printf '%s\n' 'PID SERVICE' '4711 shop' '4712 till'; }
        source "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
        compopt() { :; }
        _kymo
        printf '%s\n' "${COMPREPLY[@]}"
    """

    @classmethod
    def setUpClass(cls):
        cls.commands, cls.options = gen_completion.read(ROOT / "docs/cli.md")

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-complete-"))
        self.addCleanup(shutil.rmtree, self.dir)
        (self.dir / "one.trc").touch()
        (self.dir / "traces").mkdir()

    def offered(self, *words):
        """What bash offers after `kymo WORDS`, the last of them begun."""
        done = subprocess.run(["bash", "--norc", "-c", self.HARNESS, "bash",
                               ROOT / "share/completions/kymo", "kymo", *words], cwd=self.dir,
                              capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")
        return set(done.stdout.split())

    def test_files_are_current(self):
        for path, text in gen_completion.outputs().items():
            self.assertEqual(path.read_text(), text, f"{path}: run tools/gen_completion.py")

    def test_commands_are_offered(self):
        names = {command.name for command in self.commands}
        self.assertEqual(self.offered(""), names | {"help", "--help", "--version"})
        self.assertEqual(self.offered("help", ""), names)
        self.assertEqual(self.offered("re"), {"report", "recover"})

    def test_options_are_those_of_help(self):
        for command in self.commands:
            text = run(command.name, "--help").stdout
            self.assertEqual(self.offered(command.name, "--"), set(help_options(text)))

    def test_values_are_offered_in_both_forms(self):
        for option in self.options:
            if not option.choices or option.is_optional:
                continue
            for command in option.commands:
                for words in ([option.name, ""], [option.name, "=", ""], [option.name, "="]):
                    self.assertLessEqual(set(option.choices), self.offered(command, *words))
        self.assertEqual(self.offered("export", "--format", "p"), {"pprof", "perfetto"})
        self.assertEqual(self.offered("export", "--format", "=", "s"), {"speedscope"})
        self.assertEqual(self.offered("events", "--format", ""), {"text", "jsonl", "csv"})

    def test_files_directories_rings_and_presets_are_offered(self):
        self.assertEqual(self.offered("report", ""), {"one.trc", "traces"})
        self.assertEqual(self.offered("report", "--json", "o"), {"one.trc"})
        self.assertEqual(self.offered("report", "-d", ""), {"traces"})
        self.assertEqual(self.offered("convert", "-o", ""), {"one.trc", "traces"})
        self.assertEqual(self.offered("status", ""), {"4711", "4712", "shop", "till"})
        self.assertEqual(self.offered("dump", "--last", "1s", "s"), {"shop"})
        self.assertEqual(self.offered("run", "--profile", "e"), {"everything"})
        self.assertIn(str(os.getpid()), self.offered("attach", ""))

    def test_words_of_cmd_are_its_own(self):
        self.assertIn("--mode", self.offered("run", "--m"))
        for words in (["./svc", "--m"], ["--", "svc", "--m"], ["-o", "x", "svc", "--m"],
                      ["--sample", "=", "99", "svc", "--m"]):
            self.assertEqual(self.offered("run", *words), set(), words)
        self.assertIn("bash", self.offered("run", "bas"))

    @unittest.skipUnless(shutil.which("zsh"), "no zsh here")
    def test_zsh_reads_its_file(self):
        subprocess.run(["zsh", "-n", ROOT / "share/completions/_kymo"], check=True)

    @unittest.skipUnless(shutil.which("fish"), "no fish here")
    def test_fish_reads_its_file(self):
        subprocess.run(["fish", "--no-execute", ROOT / "share/completions/kymo.fish"], check=True)


if __name__ == "__main__":
    KYMO, ROOT = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    unittest_tap.main(sys.argv[3:])
