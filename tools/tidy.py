#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""tidy.py - the rules of docs/style.md that a program can check.

    tidy.py [--tap] [--root DIR]       every rule over the sources; exit status 1 on a finding
    tidy.py --symbols BUILD            the symbols that built archives and shared objects export
    tidy.py --format                   rewrites C sources with clang-format
A finding reads `file:line: rule: what is wrong`. A limit is exceeded on purpose by the comment
`tidy: long because REASON` in the function, or on one of the first 30 lines for a whole file.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
C99_HEADERS = set("""assert.h complex.h ctype.h errno.h fenv.h float.h inttypes.h iso646.h limits.h
locale.h math.h setjmp.h signal.h stdarg.h stdbool.h stddef.h stdint.h stdio.h stdlib.h string.h
tgmath.h time.h wchar.h wctype.h""".split())
C11_HEADERS = C99_HEADERS | {"stdalign.h", "stdatomic.h", "stdnoreturn.h"}
LIBRARY_HEADERS = ("zstd.h", "zstd_errors.h", "zlib.h", "cmocka.h")

# folder: (our folders it may include beside itself, system headers: "c99", "c11", "libc", "any").
# The most specific row wins; "*" stands for every folder of ours.
INCLUDE_TABLE = {
    "include/kymo": ((), "c99"),
    "src/base": (("include/kymo",), "libc"),
    "src/proc": (("include/kymo", "src/base", "src/wire"), "libc"),
    "src/elf": (("include/kymo", "src/base"), "libc"),
    "src/wire": (("include/kymo", "src/base"), "c11"),
    "src/ring": (("include/kymo", "src/base", "src/proc", "src/wire"), "libc"),
    "src/unwind": (("include/kymo", "src/base", "src/proc", "src/elf", "src/wire"), "libc"),
    "src/record": (("include/kymo", "src/base", "src/wire", "src/ring", "src/unwind"), "libc"),
    "src/drain": (("include/kymo", "src/base", "src/wire", "src/ring"), "libc"),
    "src/probe": (("include/kymo", "src/base", "src/proc", "src/wire", "src/ring", "src/unwind"),
                   "libc"),
    "src/watch": (("include/kymo", "src/base", "src/proc", "src/wire", "src/ring", "src/unwind"),
                   "libc"),
    "src/ship": (("include/kymo", "src/base", "src/proc", "src/elf", "src/wire"), "any"),
    "src/send": (("include/kymo", "src/base", "src/proc", "src/elf", "src/wire", "src/ship"),
                 "any"),
    "src/bucket": (("include/kymo", "src/base", "src/wire", "src/ship", "src/send"), "any"),
    "src/symbol": (("include/kymo", "src/base", "src/proc", "src/elf", "src/wire"), "any"),
    "src/attach": (("include/kymo", "src/base", "src/proc", "src/elf", "src/wire", "src/ring",
                    "src/unwind"), "libc"),
    "src/agent": (("include/kymo", "src/base", "src/proc", "src/elf", "src/wire", "src/ring",
                   "src/unwind", "src/record", "src/drain", "src/probe", "src/watch",
                   "src/ship", "src/symbol"), "libc"),
    "src/session": (("include/kymo", "src/base", "src/proc", "src/elf", "src/wire", "src/ring",
                     "src/unwind", "src/record", "src/drain", "src/probe", "src/watch",
                     "src/ship", "src/symbol", "src/agent"), "libc"),
    "src/read": (("include/kymo", "src/base", "src/wire"), "c11"),
    "src/analyze": (("include/kymo", "src/base", "src/wire", "src/read"), "c11"),
    "src/lanes": (("include/kymo", "src/base", "src/wire", "src/read", "src/analyze",
                   "src/export"), "c11"),
    "src/lanes/wasm": (("include/kymo", "src/base", "src/wire", "src/read", "src/analyze",
                        "src/export", "src/lanes", "src/report"), "any"),
    "src/export": (("include/kymo", "src/base", "src/wire", "src/read", "src/analyze"), "c11"),
    "src/report": (("include/kymo", "src/base", "src/wire", "src/read", "src/analyze"), "libc"),
    "src/query": (("include/kymo", "src/base", "src/wire", "src/read", "src/analyze", "src/report"),
                  "any"),
    "src/edit": (("include/kymo", "src/base", "src/wire", "src/ring", "src/unwind", "src/read",
                  "src/analyze", "src/ship", "src/symbol"), "libc"),
    "src/serve": (("include/kymo", "src/base", "src/wire", "src/read", "src/analyze", "src/report",
                   "src/ship", "src/send", "src/bucket"), "any"),
    "src/doctor": (("include/kymo", "src/base", "src/proc", "src/elf", "src/unwind",
                    "src/probe", "src/symbol"), "libc"),
    "src/cli": (("*",), "any"),
    "adapters": (("include/kymo",), "libc"),
    "crates": (("include/kymo", "src/base"), "libc"),
    "examples": (("include/kymo",), "libc"),
    "test": (("*",), "any"),
    "bench": (("*",), "any"),
    "fuzz": (("*",), "any"),
}
NOT_INCLUDED = ("test", "bench", "fuzz")
TOP = set(""".ci .clang-format .clang-tidy .gitignore ARCHITECTURE.md CONTRIBUTING.md LICENSE-APACHE
LICENSE-MIT Makefile README.md VERSION adapters bench crates docs examples fuzz include meson.build
meson_options.txt rustfmt.toml share src test tools viewer""".split())

LINE_COLUMNS_MAX = 100
FUNCTION_LINES, FUNCTION_LINES_MAX = 70, 100
FILE_LINES, FILE_LINES_MAX = 800, 1000
BANNED = re.compile(r"\b(strcpy|strcat|sprintf|vsprintf|gets|atoi|atol|atoll|strtok|alloca|system|"
                    r"localtime|gmtime|ctime|rand|srand)\s*\(")
BANNED_SHAPES = ((re.compile(r"\(\s*\{"), "statement expression"),
                 (re.compile(r"\bgoto\s*\*"), "computed goto"),
                 (re.compile(r"\btypedef\s+(struct|union|enum)\b"), "typedef of a struct or enum"))
# Each clock is read in base/now.h, where a test puts its own in place; and here, with the reason.
CLOCKS = re.compile(r"\b(clock_gettime|gettimeofday|timespec_get|time|clock)\s*\(")
CLOCK_FILES = {
    "src/base/now.h": "the place itself",
    "adapters/tokio/blocking.h": "adapters see public headers alone; a reading on their fast path",
    "adapters/tokio/waits.c": "the same; what the time-out of a futex is beside",
}
TAG_TWINS = {"kymo_recorder": "the host with a thread and the one without; a program links one"}
SPDX = "SPDX-License-Identifier: Apache-2.0 OR MIT"
CODE_SUFFIXES = {".c", ".h", ".def", ".py", ".sh", ".js", ".mjs", ".ts", ".tsx", ".css", ".rs",
                 ".build", ".S"}
LONG = re.compile(r"tidy: long because \S")
# Written in pieces, so that this file is not its own finding.
MACHINE = re.compile("|".join((r"/wo" r"rk/", r"/ro" r"ot/", r"/ho" r"me/[a-z]", r"/tm" r"p/peer",
                               r"\.\./sha" r"red/(data|reference|[A-Z])")))
UNTESTED_LIST = "test/unit/elsewhere.txt"
WIDE_FILES = {"src/wire/events.def": "a table: one field a line"}

# What a user reads: whole files, and the string literals of sources.
USER_TEXTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/cli.md", "docs/format.md",
              "docs/guide/", "docs/man/", "share/", "include/kymo/")
USER_LITERALS = ("src/", "adapters/")
# Words that docs/glossary.md replaces, and what to write.
WORDS = tuple((re.compile(rf"\b(?:{words})\b", re.I), instead) for words, instead in (
    ("nobody|no one|whoever|somebody|someone|everybody|everyone", "name the actor"),
    ("behind", "after"),
    ("bears?|bore|borne", "has, carries"),
    ("goes on|go on|going on|went on", "continues, resumes"),
    (r"lets? \w+(?: \w+){0,4} be", "an active verb"),
    ("tells?|told|telling", "records, reports, says"),
    ("looks?|looked|looking", "reads, checks, searches"),
    ("hands?|handed|handing", "claim index; passes"),
    ("processors?", "CPU, architecture"),
    ("litter|left-?overs?", "rings of dead processes, garbage collection"),
    ("kinds? of slots?", "sub-buffer, sample cell, table entry"),
    ("await places?", "await point"),
    ("from outside", "external")))
WORD_EXCEPTIONS = {("src/analyze/resource_use.c", "looks"): "a JSON key"}


class Tree:
    """The files the rules look at: what git knows or would add, below one root."""

    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()
        listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"],
                                cwd=self.root, capture_output=True, check=False)
        if listed.returncode == 0:
            names = listed.stdout.decode().split("\0")
        else:
            names = [str(path.relative_to(self.root)) for path in self.root.rglob("*")]
        self.files = sorted(name for name in set(names) if name and (self.root / name).is_file())
        self.texts = {}

    def text(self, name):
        if name not in self.texts:
            self.texts[name] = (self.root / name).read_text(errors="replace")
        return self.texts[name]

    def select(self, *suffixes):
        return [name for name in self.files if pathlib.PurePath(name).suffix in suffixes]


def blank(text):
    """C text with comments and literals blanked, line breaks kept."""
    def spaces(match):
        return re.sub(r"[^\n]", " ", match[0])
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', spaces, text,
                  flags=re.S)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def literals(text):
    """(offset, text) of each C string literal, adjacent ones joined, without names of includes."""
    literal = r'"(?:\\.|[^"\\\n])*"'
    other = r"/\*.*?\*/|//[^\n]*|#include[^\n]*|'(?:\\.|[^'\\\n])*'"
    for match in re.finditer(rf"{other}|({literal}(?:\s*{literal})*)", text, re.S):
        if match[1]:
            yield match.start(), re.sub(r'"\s*"', "", match[1])


def owner(name, rows):
    """The most specific row a file or folder belongs to; None: no row."""
    parts = pathlib.PurePosixPath(name).parts
    for count in range(len(parts), 0, -1):
        folder = "/".join(parts[:count])
        if folder in rows:
            return folder
    return None


def resolve(tree, includer, target):
    """An include as a path of ours, or None: a system header."""
    beside = str(pathlib.PurePosixPath(os.path.normpath(
        pathlib.PurePosixPath(includer).parent / target)))
    for path in (beside, f"include/{target}", f"src/{target}", target):
        if (tree.root / path).is_file():
            return path
    return None


def system_header_is_allowed(header, kind):
    if kind == "any":
        return True
    if kind == "libc":
        return header not in LIBRARY_HEADERS
    return header in (C99_HEADERS if kind == "c99" else C11_HEADERS)


def rule_includes(tree):
    for name in tree.select(".c", ".h", ".def"):
        row = owner(name, INCLUDE_TABLE)
        if row is None:
            yield name, 1, "its folder has no row in the include table"
            continue
        ours, system = INCLUDE_TABLE[row]
        for number, line in enumerate(tree.text(name).splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+["<]([^">]+)[">]', line)
            if not match:
                continue
            target = resolve(tree, name, match[1])
            if target is None:
                if not system_header_is_allowed(match[1], system):
                    yield name, number, f"{row} may not include <{match[1]}>"
                continue
            folder = owner(target, INCLUDE_TABLE)
            if folder in NOT_INCLUDED and row != folder and row not in NOT_INCLUDED:
                yield name, number, f"nothing includes {folder}"
            elif not ("*" in ours or folder == row or folder in ours or target in ours):
                yield name, number, f"{row} may not include {target}"


def columns(line):
    return len(line.expandtabs(8))


def rule_lines(tree):
    for name in tree.files:
        suffix = pathlib.PurePath(name).suffix
        if suffix not in CODE_SUFFIXES or name in WIDE_FILES:
            continue
        for number, line in enumerate(tree.text(name).splitlines(), 1):
            if columns(line) > LINE_COLUMNS_MAX:
                yield name, number, f"{columns(line)} columns, at most {LINE_COLUMNS_MAX}"


def functions(text):
    """(first line, last line) of each body that opens and closes in the first column."""
    lines = blank(text).splitlines()
    begin = None
    for number, line in enumerate(lines, 1):
        if line.rstrip() == "{":
            begin = number
        elif line.startswith("}") and begin:
            yield begin, number
            begin = None


def rule_functions(tree):
    for name in tree.select(".c", ".h"):
        text = tree.text(name)
        lines = text.splitlines()
        for begin, end in functions(text):
            count = end - begin + 1
            excused = any(LONG.search(line) for line in lines[begin - 1:end])
            if count > FUNCTION_LINES_MAX:
                yield name, begin, f"function of {count} lines, never above {FUNCTION_LINES_MAX}"
            elif count > FUNCTION_LINES and not excused:
                yield name, begin, (f"function of {count} lines, above {FUNCTION_LINES} only with"
                                    " a reason")


def rule_files(tree):
    for name in tree.files:
        if pathlib.PurePath(name).suffix not in CODE_SUFFIXES:
            continue
        lines = tree.text(name).splitlines()
        if len(lines) > FILE_LINES_MAX:
            yield name, 1, f"{len(lines)} lines, never above {FILE_LINES_MAX}"
        elif len(lines) > FILE_LINES and not any(LONG.search(line) for line in lines[:30]):
            yield name, 1, f"{len(lines)} lines, above {FILE_LINES} only with a reason"


def rule_banned(tree):
    for name in tree.select(".c", ".h"):
        text = blank(tree.text(name))
        for match in BANNED.finditer(text):
            yield name, line_of(text, match.start()), f"{match[1]} is banned"
        for pattern, what in BANNED_SHAPES:
            for match in pattern.finditer(text):
                yield name, line_of(text, match.start()), f"{what} is banned"


def rule_clocks(tree):
    for name in tree.select(".c", ".h"):
        if not name.startswith(("include/", "src/", "adapters/")) or name in CLOCK_FILES:
            continue
        text = blank(tree.text(name))
        for match in CLOCKS.finditer(text):
            yield name, line_of(text, match.start()), f"{match[1]}: clocks are read by base/now.h"


def rule_spdx(tree):
    for name in tree.files:
        if pathlib.PurePath(name).suffix in CODE_SUFFIXES or name in ("Makefile", ".ci/run"):
            lines = tree.text(name).splitlines()
            first = 1 if lines and lines[0].startswith("#!") else 0
            if SPDX not in "".join(lines[first:first + 1]):
                yield name, first + 1, f"has to begin with {SPDX}"


def rule_headers(tree):
    """The template: SPDX line, then a comment that begins with the file's name and what it is."""
    for name in tree.select(".h"):
        lines = tree.text(name).splitlines()
        opening = f"/* {pathlib.PurePath(name).name} - "
        if len(lines) < 2 or not lines[1].startswith(opening):
            yield name, 2, f"has to say what it is: `{opening}...`"


def rule_names(tree):
    seen = {}
    for name in tree.select(".c", ".h"):
        base = pathlib.PurePath(name).name
        if not re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*\.[ch]", base):
            yield name, 1, "file names are snake_case"
        if name.startswith(("src/", "adapters/")):
            if base in seen:
                yield name, 1, f"the name stands in the tree twice: {seen[base]}"
            seen[base] = name


def rule_tags(tree):
    """One struct, union or enum of a name, so that a search finds one."""
    first = {}
    for name in tree.select(".c", ".h"):
        if not name.startswith(("src/", "adapters/", "include/")):
            continue
        text = blank(tree.text(name))
        for match in re.finditer(r"\b(?:struct|union|enum)\s+(\w+)\s*\{", text):
            other = first.setdefault(match[1], name)
            if other != name and match[1] not in TAG_TWINS:
                yield name, line_of(text, match.start()), f"{match[1]} is defined in {other}, too"


def syntax(command, source, root):
    done = subprocess.run([*command, "-fsyntax-only", "-Iinclude", "-Isrc", "-"], cwd=root,
                          input=source, text=True, capture_output=True)
    return "" if done.returncode == 0 else next(
        (line for line in done.stderr.splitlines() if "error" in line), "does not compile")


def rule_header_alone(tree):
    """Public headers alone as C99, C11 and C++11, internal ones as gnu11."""
    strict = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
    public = (("gcc", "-x", "c", "-std=c99", *strict), ("gcc", "-x", "c", "-std=c11", *strict),
              ("clang", "-x", "c++", "-std=c++11", *strict))
    internal = (("gcc", "-x", "c", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"),)
    for name in tree.select(".h"):
        if not name.startswith(("include/", "src/", "adapters/")):
            continue
        is_public = name.startswith("include/")
        inner = name.partition("/")[2] if is_public or name.startswith("src/") else name
        source = f'#include "{tree.root / name if name == inner else inner}"\n'
        for command in public if is_public else internal:
            problem = syntax(command, source, tree.root)
            if problem:
                standard = next(word for word in command if word.startswith("-std"))[5:]
                yield name, 1, f"alone as {standard}: {problem}"


def elsewhere(tree):
    """`source: test that covers it` lines."""
    rows = {}
    if UNTESTED_LIST in tree.files:
        for line in tree.text(UNTESTED_LIST).splitlines():
            if line.strip() and not line.startswith("#"):
                source, _, test = line.partition(": ")
                rows[source.strip()] = test.strip()
    return rows


def expected_test(name):
    parts = pathlib.PurePosixPath(name).parts
    folder = parts[1]
    return f"test/unit/{folder}/test_{pathlib.PurePath(name).stem}.c"


def rule_tests(tree):
    rows = elsewhere(tree)
    for name in tree.select(".c"):
        if not name.startswith(("src/", "adapters/")):
            continue
        if expected_test(name) in tree.files:
            if name in rows:
                yield UNTESTED_LIST, 1, f"{name} has its own test: take the line out"
        elif name not in rows:
            yield name, 1, f"no {expected_test(name)}, and no line in {UNTESTED_LIST}"
    for source, test in rows.items():
        if source not in tree.files:
            yield UNTESTED_LIST, 1, f"{source} does not exist"
        if not test or not (tree.root / test.split()[0]).exists():
            yield UNTESTED_LIST, 1, f"{source}: its test {test!r} does not exist"


def rule_events(tree):
    name = "src/wire/events.def"
    if name not in tree.files:
        return
    text = tree.text(name)
    golden = "".join(tree.text(other) for other in tree.files
                     if other.startswith("test/golden/") and not other.endswith((".trc", ".bin")))
    for match in re.finditer(r'^KY_EVENT\((\w+),\s*"([^"]*)",\s*(\w+),\s*"([^"]*)"\)', text, re.M):
        line = line_of(text, match.start())
        if not match[4].strip():
            yield name, line, f"{match[1]} has no doc"
        if golden and match[2] not in golden:
            yield name, line, f"{match[2]} is in no golden trace"
        if f"KY_EVENT_END({match[1]})" not in text:
            yield name, line, f"{match[1]} is not closed"
    for match in re.finditer(r'^KY_FIELD\((\w+),\s*(\w+),.*?"([^"]*)"\)\s*$', text, re.M):
        if not match[3].strip():
            yield name, line_of(text, match.start()), f"{match[1]}.{match[2]} has no doc"


def rule_generated(tree):
    for name in ("tools/gen_events.py", "tools/gen_completion.py"):
        if name not in tree.files:
            continue
        done = subprocess.run([sys.executable, name, "--check"], cwd=tree.root, text=True,
                              capture_output=True)
        if done.returncode != 0:
            yield name, 1, (done.stdout + done.stderr).strip() or "files differ"


def rule_layout(tree):
    """What lies at the root, by name: output written there by mistake was once taken in."""
    for top in sorted({name.split("/")[0] for name in tree.files} - TOP):
        yield top, 1, "not a file or folder of the root: put it below one, or name it in TOP"


def rule_machine(tree):
    for name in tree.files:
        raw = (tree.root / name).read_bytes()
        if b"\0" in raw[:4096]:
            continue
        for number, line in enumerate(tree.text(name).splitlines(), 1):
            if MACHINE.search(line):
                yield name, number, "a path of one machine"


def user_texts(tree):
    """(file, line, text) of what users read."""
    for name in tree.files:
        if name.startswith(USER_TEXTS):
            for number, line in enumerate(tree.text(name).splitlines(), 1):
                yield name, number, line
        elif name.startswith(USER_LITERALS) and name.endswith((".c", ".h", ".def")):
            for offset, text in literals(tree.text(name)):
                yield name, line_of(tree.text(name), offset), text


def rule_words(tree):
    for name, number, text in user_texts(tree):
        for pattern, instead in WORDS:
            match = pattern.search(text)
            if match and (name, match[0]) not in WORD_EXCEPTIONS:
                yield name, number, f"'{match[0]}': write {instead} (docs/glossary.md)"


def format_command(tree, *options):
    names = [name for name in tree.select(".c", ".h")]
    return ["clang-format", *options, *names] if names else None


def rule_format(tree):
    command = format_command(tree, "--dry-run", "--Werror", "--ferror-limit=1")
    if command is None:
        return
    done = subprocess.run(command, cwd=tree.root, text=True, capture_output=True)
    for match in re.finditer(r"^(\S+?):(\d+):\d+: error: (.*)$", done.stderr, re.M):
        yield match[1], int(match[2]), match[3].replace(" [-Wclang-format-violations]", "")


RULES = {
    "includes": rule_includes, "lines": rule_lines, "functions": rule_functions,
    "files": rule_files, "banned": rule_banned, "clocks": rule_clocks, "spdx": rule_spdx,
    "headers": rule_headers, "names": rule_names, "tags": rule_tags,
    "header-alone": rule_header_alone,
    "tests": rule_tests, "events": rule_events,
    "generated": rule_generated, "machine": rule_machine, "layout": rule_layout,
    "words": rule_words, "format": rule_format,
}


def exported(path, *options):
    listed = subprocess.run(["nm", "--defined-only", "-g", *options, str(path)], text=True,
                            capture_output=True, check=True)
    for line in listed.stdout.splitlines():
        parts = line.split()
        if len(parts) == 3 and parts[1] not in "aA":
            yield parts[2].split("@")[0]


# What handlers of signals may call: async-signal-safe, and no lock in any libc we know.
SIGNAL_SAFE = set("""__errno_location clock_gettime getpid memcpy memset nanosleep sigaction syscall
__stack_chk_fail _GLOBAL_OFFSET_TABLE_ ky_engine""".split())
INSTRUMENTED = re.compile(r"__(asan|ubsan|tsan|msan|sanitizer|gcov|llvm)_")


def signal_findings(build):
    """Objects of *_sig.c call nothing but what a signal handler may."""
    for path in build.rglob("*_sig.c.o"):
        if path.relative_to(build).parts[0] == "test":
            continue  # with clocks and places of the tests'
        listed = subprocess.run(["nm", "-u", str(path)], text=True, capture_output=True, check=True)
        for line in listed.stdout.splitlines():
            symbol = line.split()[-1].split("@")[0]
            if symbol not in SIGNAL_SAFE and not INSTRUMENTED.match(symbol):
                yield str(path), 1, f"{symbol} is not known to be safe in a signal handler"


# One in a program, whichever object it is of: notes of static tracepoints count from it.
SHARED_SYMBOLS = ("_.stapsdt.base",)


def symbol_findings(build):
    """Our archives export ky_* and kymo_*, shared objects kymo_* alone."""
    folders = [build / "src", build / "adapters"]
    archives = [*build.glob("*.a"), *(path for folder in folders for path in folder.rglob("*.a"))]
    shared = [path for folder in folders for path in folder.rglob("*.so*") if path.is_file()]
    for path in archives:
        for symbol in exported(path):
            if not symbol.startswith(("ky_", "kymo_")) and symbol not in SHARED_SYMBOLS:
                yield str(path), 1, f"exports {symbol}: ours begin with ky_ or kymo_"
    for path in shared:
        if path.suffix == ".symbols" or path.name.endswith(".p"):
            continue
        for symbol in exported(path, "-D"):
            if not symbol.startswith("kymo_"):
                yield str(path), 1, f"exports {symbol}: only kymo_* leaves a shared object"
    if not archives and not shared:
        yield str(build), 1, "holds no archive and no shared object: build first"


def report(rows, as_tap):
    """rows: (rule, findings). Returns the number of findings."""
    count = 0
    if as_tap:
        print(f"1..{len(rows)}")
    for number, (rule, findings) in enumerate(rows, 1):
        count += len(findings)
        if as_tap:
            print(f"{'not ok' if findings else 'ok'} {number} - {rule}")
        for name, line, text in findings:
            print(f"{'# ' if as_tap else ''}{name}:{line}: {rule}: {text}")
    return count


def main():
    parser = argparse.ArgumentParser(description="Checks the rules of docs/style.md.")
    parser.add_argument("--tap", action="store_true", help="one TAP case per rule")
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--rule", action="append", choices=RULES, help="only this rule")
    parser.add_argument("--symbols", metavar="BUILD", help="check what BUILD's objects export")
    parser.add_argument("--format", action="store_true", help="rewrite C sources")
    options = parser.parse_args()
    if options.symbols:
        build = pathlib.Path(options.symbols)
        rows = [("symbols", list(symbol_findings(build))),
                ("signal-safe", list(signal_findings(build)))]
    else:
        tree = Tree(options.root)
        if options.format:
            return subprocess.run(format_command(tree, "-i"), cwd=tree.root).returncode
        rows = [(rule, list(RULES[rule](tree))) for rule in options.rule or RULES]
    return 1 if report(rows, options.tap) else 0


if __name__ == "__main__":
    sys.exit(main())
