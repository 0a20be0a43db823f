#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""test_guide.py [--build DIR] [GUIDE...] - runs what docs/guide shows and compares what it prints.

All `sh` blocks of a guide run one after another in one shell, in a folder where build/, examples/
and test/ are those of the repository. A block has to end with status 0. A `text` block after it is
what it prints, in shape: its lines have to come in that order, others may come between; a word with
a digit in it stands for any word, a unit after a number for any unit, and so does the space
between words.
`sh setup` runs in the repository itself, first. Blocks that need another machine are read only:
yaml and ini have to be well-formed, and a kymo command in them has to know its options.
"""
import argparse
import configparser
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MARK = "==== end of block"
LIMIT_S = 300
UNITS = {"ns", "us", "ms", "s", "m", "h", "B", "kB", "MB", "GB"}


class Block:
    def __init__(self, info, line):
        self.language, _, self.kind = info.partition(" ")
        self.line, self.lines = line, []
        self.expected = None

    @property
    def text(self):
        return "\n".join(self.lines) + "\n"

    @property
    def title(self):
        first = next((line for line in self.lines if line.strip()), "")
        return f"line {self.line}: {first.strip()[:60]}".replace("#", "\\#")


def blocks_of(text):
    """The fenced blocks, each `text` block after an `sh` block as what that prints."""
    found, block = [], None
    for number, line in enumerate(text.splitlines(), 1):
        if block is None and line.startswith("```"):
            block = Block(line[3:].strip(), number)
        elif block is not None and line.rstrip() == "```":
            if block.language == "text" and found and found[-1].language == "sh":
                found[-1].expected = block.lines
            else:
                found.append(block)
            block = None
        elif block is not None:
            block.lines.append(line)
    if block is not None:
        raise ValueError(f"line {block.line}: the block has no end")
    return found


def shape(line):
    """A line as a pattern: see above."""
    pattern, is_behind_number = [], False
    for word in line.split():
        bare = word.strip("(),;:.")
        if any(letter.isdigit() for letter in word):
            pattern.append(r"\S+")
        elif is_behind_number and bare in UNITS:
            pattern.append(re.escape(word).replace(re.escape(bare), f"(?:{'|'.join(UNITS)})"))
        else:
            pattern.append(re.escape(word))
        is_behind_number = bare[:1].isdigit()
    return re.compile(r"\s*" + r"\s+".join(pattern) + r"\s*")


def difference(expected, printed):
    """The first line of the guide that was not printed; None: all were."""
    rest = iter(printed)
    for line in expected:
        if line.strip() and not any(shape(line).fullmatch(other) for other in rest):
            return line
    return None


class Shell:
    """One bash for a whole guide; what it started goes with it."""

    def __init__(self, folder):
        self.rings = tempfile.TemporaryDirectory(
            prefix="kymo-guide-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        environment = {**os.environ, "KYMO_RING_DIR": self.rings.name, "LC_ALL": "C.UTF-8"}
        environment.pop("KYMO_TRIGGERS", None)
        self.process = subprocess.Popen(["bash"], cwd=folder, env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, start_new_session=True)

    def run(self, text):
        """Status and lines of one block."""
        self.process.stdin.write(f"{text}\nprintf '\\n%s %d\\n' '{MARK}' $?\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line.startswith(MARK):
                return int(line[len(MARK):]), lines
            lines.append(line.rstrip("\n"))
        return None, lines

    def check_block(self, block):
        """What is wrong with it, or None, and what it printed."""
        status, lines = self.run(block.text)
        if status != 0:
            return "the shell ended" if status is None else f"it ended with {status}", lines
        line = difference(block.expected or [], lines)
        return None if line is None else f"not printed: {line}", lines

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.rings.cleanup()


def scene(folder, build):
    """build/, examples/ and test/ as after `make`; what the guide writes goes elsewhere."""
    (folder / "build").mkdir()
    for name in ("kymo", "libkymo_recorder.a", "adapters"):
        (folder / "build" / name).symlink_to(build / name)
    (folder / "build" / "cargo").symlink_to(ROOT / "build" / "cargo")
    for name in ("examples", "include", "test"):
        (folder / name).symlink_to(ROOT / name)


def unknown_options(kymo, text):
    """Options of kymo commands in a block that is not run, which the program does not have."""
    missing = []
    joined = re.sub(r"\\\n\s*", " ", text)
    for found in re.finditer(r"\bkymo\s+([a-z]+)\b([^\n]*)", joined):
        command, rest = found.group(1), found.group(2)
        done = subprocess.run([kymo, command, "--help"], text=True,
                              capture_output=True)
        if done.returncode != 0:
            missing.append(f"kymo {command}")
            continue
        words = re.split(r"\s+--(?:\s|,|\")", rest.replace("\"", " ").replace(",", " "))[0].split()
        for word in words:
            option = word.split("=")[0].strip("[]'")
            if re.fullmatch(r"--?[a-z][a-z-]*", option) and not re.search(
                    rf"(?<![\w-]){re.escape(option)}(?![\w-])", done.stdout):
                missing.append(f"kymo {command} {option}")
    return missing


def check_unrun(kymo, block):
    """Why a block that is not run cannot be right; None: it may be."""
    missing = unknown_options(kymo, block.text)
    if missing:
        return f"no such command or option: {', '.join(missing)}"
    if block.language == "ini":
        try:
            configparser.RawConfigParser(strict=False).read_string(block.text)
        except configparser.Error as error:
            return str(error)
    if block.language == "yaml":
        try:
            import yaml
        except ImportError:
            return None
        try:
            list(yaml.safe_load_all(block.text))
        except yaml.YAMLError as error:
            return str(error)
    return None


class Tap:
    def __init__(self):
        self.count, self.failed = 0, 0

    def result(self, title, problem, lines=()):
        self.count += 1
        self.failed += problem is not None
        print(f"{'ok' if problem is None else 'not ok'} {self.count} - {title}")
        if problem is not None:
            for line in [problem, *lines]:
                print(f"# {line}")
        sys.stdout.flush()


def run_guide(path, build, tap):
    blocks = blocks_of(path.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="kymo-guide-") as name:
        folder = pathlib.Path(name)
        scene(folder, build)
        shell = Shell(folder)
        try:
            for block in blocks:
                title = f"{path.stem}, {block.title}"
                if block.language != "sh":
                    tap.result(title, check_unrun(build / "kymo", block))
                elif block.kind != "setup":
                    problem, lines = shell.check_block(block)
                    tap.result(title, problem, lines[-30:])
        finally:
            shell.close()


def run_setup(paths, tap):
    """Returns whether everything that guides ask for first could be built."""
    texts = dict.fromkeys(block.text for path in paths
                          for block in blocks_of(path.read_text(encoding="utf-8"))
                          if block.language == "sh" and block.kind == "setup")
    for text in texts:
        done = subprocess.run(["bash", "-e", "-c", text], cwd=ROOT, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        tap.result(f"setup: {shlex.quote(text.splitlines()[0])}",
                   None if done.returncode == 0 else f"it ended with {done.returncode}",
                   done.stdout.splitlines()[-30:])
    return tap.failed == 0


def main():
    parser = argparse.ArgumentParser(description="Runs the examples of docs/guide.")
    parser.add_argument("--build", type=pathlib.Path, metavar="DIR",
                        help="take this build as it is, and do no setup")
    parser.add_argument("guides", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    paths = options.guides or sorted((ROOT / "docs" / "guide").glob("*.md"))
    tap = Tap()
    signal.alarm(LIMIT_S * (1 + len(paths)))
    if options.build or run_setup(paths, tap):
        for path in paths:
            run_guide(path, (options.build or ROOT / "build").resolve(), tap)
    print(f"1..{tap.count}")
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
