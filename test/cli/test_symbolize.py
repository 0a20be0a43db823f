#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`kymo symbolize` on programs built in every way in which names can be had or be missing.

usage: test_symbolize.py KYMO [unittest arguments]
"""
import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import trace_maker

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import unittest_tap  # noqa: E402

KYMO = ""
BIAS = 0x7F0000000000
SANITIZER = ("AddressSanitizer", "runtime error:", "LeakSanitizer")
SOURCE = r"""
#include <stdint.h>
volatile uint64_t sink;
static inline __attribute__((always_inline)) void inner_work(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		sink += i * n;
}
__attribute__((noinline)) uint64_t outer_work(uint64_t n)
{
	inner_work(n + 3);
	return sink;
}
int main(int argc, char **argv)
{
	(void)argv;
	if (argc > 1) for (;;) outer_work(1000);
	return (int)outer_work((uint64_t)argc);
}
"""
CPP = r"""
#include <vector>
namespace shop { template <typename T> struct Cart {
	__attribute__((noipa))
	T total(const std::vector<T> &v) { T t{}; for (auto x : v) t += x; return t; }
}; }
int main(int argc, char **) { return shop::Cart<int>().total({argc, 2}); }
"""


# Crashes two calls deep without frame pointers, and leaves what the recorder's handler does.
CRASH = r"""
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>
volatile uint64_t sink;
static void leave(int number, siginfo_t *info, void *context)
{
	const greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	(void)number;
	(void)info;
	if (write(3, registers, 23 * 8) == 23 * 8)
		(void)!write(3, (void *)registers[REG_RSP], 4096);
	_exit(7);
}
__attribute__((noinline)) void crash_here(uint64_t *where)
{
	char room[200];
	memset(room, (int)sink, sizeof(room));
	sink += (uint64_t)room[sink % 100];
	*where = 1;
	sink += (uint64_t)room[sink % 90];
}
__attribute__((noinline)) void call_it(void (*called)(uint64_t *))
{
	volatile uint64_t some[30];
	some[sink % 30] = 1;
	called((uint64_t *)16);
	sink += some[2];
}
int main(int argc, char **argv)
{
	static char other[65536];
	stack_t stack = {.ss_sp = other, .ss_size = sizeof(other)};
	struct sigaction action = {.sa_sigaction = leave, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	char maps[65536];
	volatile char below[8192];
	int fd = open("/proc/self/maps", O_RDONLY);
	ssize_t count = read(fd, maps, sizeof(maps));
	below[argc] = 1;
	sigaltstack(&stack, NULL);
	sigaction(SIGSEGV, &action, NULL);
	(void)!write(4, maps, (size_t)count);
	call_it(argc > 1 ? (void (*)(uint64_t *))(uintptr_t)0x10 : crash_here);
	return below[3] + (int)(argv == NULL);
}
"""


def tool(*args, **more):
    return subprocess.run([str(arg) for arg in args], check=True, capture_output=True, text=True,
                          **more).stdout


def build(folder, *flags, name="prog", source=SOURCE, compiler="gcc", suffix=".c"):
    text = folder / ("work" + suffix)
    text.write_text(source)
    path = folder / name
    tool(compiler, "-O2", "-Wl,--build-id", *flags, "-o", path, text, cwd=folder)
    return path


def build_id(path):
    return re.search(r"Build ID: ([0-9a-f]+)", tool("readelf", "-n", path))[1]


def function(path, name):
    for line in tool("nm", "-S", path).splitlines():
        parts = line.split()
        if len(parts) == 4 and parts[3] == name:
            return int(parts[0], 16), int(parts[1], 16)
    raise AssertionError(f"no {name} in {path}")


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-symbolize-"))
        self.env = dict(os.environ, DEBUGINFOD_CACHE_PATH=str(self.dir / "no-cache"),
                        TMPDIR=str(self.dir))

    def tearDown(self):
        shutil.rmtree(self.dir)

    def kymo(self, *args, code=0):
        done = subprocess.run([KYMO, *map(str, args)], capture_output=True, text=True,
                              check=False, env=self.env)
        for word in SANITIZER:
            self.assertNotIn(word, done.stderr)
        self.assertEqual(done.returncode, code, f"{args}\n{done.stdout}\n{done.stderr}")
        return done

    def trace(self, path, addresses, program=None, name="t.trc", identity=None):
        """A trace of `program`, which stood at `path`."""
        trace = trace_maker.Trace()
        trace.map(path, build_id(program or path) if identity is None else identity, BIAS,
                  BIAS + 0x100000, BIAS)
        trace.stack(100, *[BIAS + address for address in addresses])
        return trace.save(self.dir / name)

    def every(self, path):
        start, count = function(path, "outer_work")
        return [start + i for i in range(count)]

    def symbolize(self, *args, code=0):
        return json.loads(self.kymo("symbolize", "--json", *args, code=code).stdout)

    def rows(self, trace):
        out = {}
        for line in self.kymo("events", "--json", "--type", "Symbol*", trace).stdout.splitlines():
            fields = json.loads(line)["fields"]
            out.setdefault(fields["addr"] - BIAS, []).append(fields)
        return out

    def check_inlines(self, trace, address):
        """Some address of the function lies in what was inlined into it, with its line."""
        rows = self.rows(trace)
        names = [tuple(row["symbol_name"] for row in group) for group in rows.values()]
        self.assertIn(("outer_work", "inner_work"), names)
        self.assertTrue(all(name[0] == "outer_work" for name in names), names)
        for group in rows.values():
            self.assertEqual([row["inline_depth"] for row in group], list(range(len(group))))
            self.assertTrue(group[0]["source_file"].endswith("work.c"), group)
        lines = {row["source_line"] for group in rows.values() for row in group[1:]}
        self.assertTrue(lines & {6, 7} and lines <= {0, 5, 6, 7}, lines)  # 0: of no line
        outer = {group[0]["source_line"] for group in rows.values() if len(group) > 1}
        self.assertEqual(outer, {11}, "the outer frame stands at the call")
        self.assertIn(address, rows)


class Builds(Case):
    """Debug information in every form, named down to the inlined call."""

    def named(self, *flags, **more):
        path = build(self.dir, *flags, **more)
        addresses = self.every(path)
        trace = self.trace(path, addresses)
        reply = self.symbolize(trace)
        self.assertEqual((reply["addresses"], reply["named"]), (len(addresses), len(addresses)))
        self.check_inlines(trace, addresses[0])

    def test_pie_with_dwarf_4(self):
        self.named("-g", "-gdwarf-4", "-fPIE", "-pie")

    def test_pie_with_dwarf_5(self):
        self.named("-g", "-gdwarf-5", "-fPIE", "-pie")

    def test_a_page_has_the_names_that_the_trace_has_not(self):
        path = build(self.dir, "-g")
        addresses = self.every(path)
        program = self.dir / "kymo"
        shutil.copy(KYMO, program)
        (self.dir / "viewer").mkdir()
        (self.dir / "viewer" / "viewer.html").write_text("<body><!--kymo-trace--></body>")
        page = self.dir / "page.html"
        subprocess.run([program, "html", self.trace(path, addresses), "-o", page], check=True,
                       capture_output=True, env=self.env)
        held = re.search('data-name="t.trc">([^<]*)</script>', page.read_text())[1]
        named = self.dir / "named.trc.zst"
        named.write_bytes(base64.b64decode(held))
        self.assertEqual(len(self.rows(named)), len(addresses))
        self.assertEqual(list(self.dir.glob("kymo-page-*")), [])

    def test_static_without_pie(self):
        path = build(self.dir, "-g", "-static", "-no-pie")
        addresses = self.every(path)
        trace = trace_maker.Trace()
        trace.map(path, build_id(path), 0x400000, 0x900000, 0).stack(5, *addresses)
        file = trace.save(self.dir / "t.trc")
        self.assertEqual(self.symbolize(file)["named"], len(addresses))
        names = {row["symbol_name"] for group in self.rows(file).values() for row in group}
        self.assertEqual(names, {"outer_work", "inner_work"})

    def test_sections_packed_with_zlib(self):
        self.named("-g", "-gz=zlib")

    def test_sections_packed_as_before_2015(self):
        path = build(self.dir, "-g")
        tool("objcopy", "--compress-debug-sections=zlib-gnu", path)
        addresses = self.every(path)
        self.assertEqual(self.symbolize(self.trace(path, addresses))["named"], len(addresses))

    def test_sections_packed_with_zstd(self):
        path = build(self.dir, "-g")
        done = subprocess.run(["objcopy", "--compress-debug-sections=zstd", path],
                              capture_output=True, check=False)
        if done.returncode or b"ZSTD" not in subprocess.run(
                ["readelf", "-tW", path], capture_output=True, check=True).stdout:
            self.skipTest("this objcopy cannot pack with zstd")
        addresses = self.every(path)
        trace = self.trace(path, addresses)
        self.symbolize(trace)
        self.check_inlines(trace, addresses[0])

    def test_split_dwarf_in_a_package(self):
        path = build(self.dir, "-g", "-gsplit-dwarf", "-gdwarf-5", compiler="clang")
        tool("llvm-dwp", "-e", path, "-o", f"{path}.dwp")
        addresses = self.every(path)
        trace = self.trace(path, addresses)
        self.symbolize(trace)
        self.check_inlines(trace, addresses[0])

    def test_split_dwarf_whose_parts_are_gone_still_has_functions(self):
        path = build(self.dir, "-g", "-gsplit-dwarf")
        for part in self.dir.glob("*.dwo"):
            part.unlink()
        addresses = self.every(path)
        trace = self.trace(path, addresses)
        self.assertEqual(self.symbolize(trace)["named"], len(addresses))
        self.assertEqual({row["symbol_name"] for group in self.rows(trace).values()
                          for row in group}, {"outer_work"})

    def test_symbols_without_dwarf(self):
        path = build(self.dir)
        addresses = self.every(path)
        trace = self.trace(path, addresses)
        self.assertEqual(self.symbolize(trace)["named"], len(addresses))
        self.assertEqual({row["symbol_name"] for group in self.rows(trace).values()
                          for row in group}, {"outer_work"})

    def test_cpp_is_demangled(self):
        path = build(self.dir, "-g", source=CPP, compiler="g++", suffix=".cc")
        name = "_ZN4shop4CartIiE5totalERKSt6vectorIiSaIiEE"
        trace = self.trace(path, [function(path, name)[0]])
        self.symbolize(trace)
        group = list(self.rows(trace).values())[0]
        self.assertTrue(group[0]["symbol_name"].startswith("shop::Cart<int>::total("), group)


class Elsewhere(Case):
    """The file is stripped, gone or another one."""

    def setUp(self):
        super().setUp()
        self.path = build(self.dir, "-g")
        self.full = self.dir / "full"
        shutil.copy(self.path, self.full)
        self.addresses = self.every(self.path)

    def why(self, reply):
        self.assertEqual(reply["named"], 0, reply)
        self.assertEqual(len(reply["unnamed"]), 1, reply)
        self.assertEqual(reply["unnamed"][0]["addresses"], len(self.addresses))
        return reply["unnamed"][0]["why"]

    def test_a_stripped_file_gives_no_wrong_names(self):
        tool("strip", self.path)
        self.assertIn("stripped", self.why(self.symbolize(
            self.trace(self.path, self.addresses, self.full))))

    def test_a_deleted_file_is_reported(self):
        trace = self.trace(self.path, self.addresses)
        self.path.unlink()
        self.assertIn("not found", self.why(self.symbolize(trace)))

    def test_a_replaced_file_gives_no_names(self):
        trace = self.trace(self.path, self.addresses)
        self.path.unlink()
        build(self.dir, "-g", source=SOURCE.replace("n + 3", "n + 4"))
        self.assertIn("another one by now", self.why(self.symbolize(trace)))

    def test_a_file_without_build_id_is_not_taken_for_one_with(self):
        trace = self.trace(self.path, self.addresses)
        build(self.dir, "-g", "-Wl,--build-id=none")
        self.assertIn("another one by now", self.why(self.symbolize(trace)))

    def test_a_module_without_build_id_is_not_taken_for_a_file_with(self):
        trace = self.trace(self.path, self.addresses, identity="")
        self.assertIn("another one by now", self.why(self.symbolize(trace)))

    def test_debuglink_beside_the_file(self):
        tool("objcopy", "--only-keep-debug", self.path, self.dir / "prog.debug")
        tool("strip", self.path)
        tool("objcopy", "--add-gnu-debuglink=prog.debug", self.path, cwd=self.dir)
        trace = self.trace(self.path, self.addresses)
        self.symbolize(trace)
        self.check_inlines(trace, self.addresses[0])

    def test_symbols_that_were_stripped_off_without_debug_information(self):
        """As a release build has them, whose symbols are kept apart."""
        path = build(self.dir, name="release")
        addresses = self.every(path)
        debug = self.dir / "release.debug"
        tool("objcopy", "--only-keep-debug", path, debug)
        tool("strip", path)
        trace = self.trace(path, addresses)
        self.assertIn("stripped", self.why(self.symbolize(trace)))
        root, identity = self.dir / "debug", build_id(path)
        place = root / ".build-id" / identity[:2] / (identity[2:] + ".debug")
        place.parent.mkdir(parents=True)
        shutil.copy(debug, place)
        reply = self.symbolize("-o", self.dir / "a.trc", "--debug-dir", root, trace)
        self.assertEqual(reply["named"], len(addresses), reply)
        tool("objcopy", "--add-gnu-debuglink=release.debug", path, cwd=self.dir)
        self.assertEqual(self.symbolize("-o", self.dir / "b.trc", trace)["named"], len(addresses))

    def test_debuglink_to_a_file_of_another_build_is_not_followed(self):
        other = build(self.dir, "-g", name="other", source=SOURCE.replace("n + 3", "n + 9"))
        tool("objcopy", "--only-keep-debug", other, self.dir / "prog.debug")
        tool("strip", self.path)
        tool("objcopy", "--add-gnu-debuglink=prog.debug", self.path, cwd=self.dir)
        self.assertIn("stripped", self.why(self.symbolize(
            self.trace(self.path, self.addresses))))

    def test_debuglink_without_build_ids_needs_the_checksum(self):
        path = build(self.dir, "-g", "-Wl,--build-id=none", name="plain")
        addresses = self.every(path)
        tool("objcopy", "--only-keep-debug", path, self.dir / "plain.debug")
        tool("strip", path)
        tool("objcopy", "--add-gnu-debuglink=plain.debug", path, cwd=self.dir)
        trace = self.trace(path, addresses, identity="")
        self.assertEqual(self.symbolize("-o", self.dir / "a.trc", trace)["named"], len(addresses))
        with open(self.dir / "plain.debug", "ab") as file:
            file.write(b"\0")
        self.assertEqual(self.symbolize("-o", self.dir / "b.trc", trace)["named"], 0)

    def test_every_layout_of_a_debug_directory(self):
        identity = build_id(self.path)
        trace = self.trace(self.path, self.addresses)
        self.path.unlink()
        debug = self.dir / "debug-only"
        tool("objcopy", "--only-keep-debug", self.full, debug)
        for place in (f".build-id/{identity[:2]}/{identity[2:]}.debug",
                      f"buildid/{identity[:2]}/{identity[2:]}.debug", f"{identity}/debuginfo",
                      f"buildid/{identity}/debuginfo", "prog.debug", "prog"):
            with self.subTest(place=place):
                root = self.dir / "debug"
                shutil.rmtree(root, ignore_errors=True)
                (root / place).parent.mkdir(parents=True)
                shutil.copy(debug, root / place)
                out = self.dir / "out.trc"
                self.symbolize("-f", "-o", out, "--debug-dir", root, trace)
                self.check_inlines(out, self.addresses[0])

    def test_a_debug_directory_with_another_build_is_of_no_use(self):
        identity = build_id(self.path)
        trace = self.trace(self.path, self.addresses)
        self.path.unlink()
        other = build(self.dir, "-g", source=SOURCE.replace("n + 3", "n + 7"), name="other")
        place = self.dir / "debug" / ".build-id" / identity[:2]
        place.mkdir(parents=True)
        shutil.copy(other, place / f"{identity[2:]}.debug")
        self.assertIn("not found", self.why(
            self.symbolize("--debug-dir", self.dir / "debug", trace)))

    def test_a_process_that_lives_still_has_the_file_it_was_started_from(self):
        start = (0, 0)
        with subprocess.Popen([self.path, "on"]) as process:
            try:
                while b"prog" not in (pathlib.Path(f"/proc/{process.pid}/comm").read_bytes()):
                    time.sleep(0.001)
                stat = pathlib.Path(f"/proc/{process.pid}/stat").read_text()
                start = stat.rsplit(")", 1)[1].split()[19]
                boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
                trace = trace_maker.Trace()
                trace.metadata(pid=process.pid, boot_id=boot, process__start_time_ticks=start)
                trace.map(self.path, build_id(self.path), BIAS, BIAS + 0x100000, BIAS)
                trace.stack(9, *[BIAS + address for address in self.addresses])
                file = trace.save(self.dir / "t.trc")
                self.path.unlink()
                build(self.dir, source=SOURCE.replace("n + 3", "n + 5"))
                self.symbolize(file)
                self.check_inlines(file, self.addresses[0])
            finally:
                process.kill()

    def test_a_damaged_file_ends_nothing(self):
        """Bytes of the file turned over, its length kept: whatever comes, no crash."""
        raw = bytearray(self.full.read_bytes())
        trace = self.trace(self.path, self.addresses)
        for seed in range(40):
            damaged = bytearray(raw)
            state = seed * 2654435761 + 1
            for _ in range(1 + seed * 8):
                state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
                damaged[(state >> 20) % len(damaged)] ^= 1 << (state >> 60 & 7)
            self.path.write_bytes(damaged)
            self.kymo("symbolize", "-f", "-o", self.dir / "out.trc", trace)
        for count in (0, 3, 64, 1000, len(raw) // 2, len(raw) - 1):
            self.path.write_bytes(raw[:count])
            reply = self.symbolize("-f", "-o", self.dir / "out.trc", trace)
            self.assertEqual(reply["addresses"], len(self.addresses))


class Traces(Case):
    def setUp(self):
        super().setUp()
        self.path = build(self.dir, "-g")
        self.addresses = self.every(self.path)

    def test_twice_is_once(self):
        trace = self.trace(self.path, self.addresses)
        self.symbolize("-o", self.dir / "a.trc", trace)
        self.symbolize("-o", self.dir / "b.trc", self.dir / "a.trc")
        self.assertEqual((self.dir / "a.trc").read_bytes(), (self.dir / "b.trc").read_bytes())
        again = self.symbolize(self.dir / "a.trc")
        self.assertEqual((again["written"], again["had_names"]), (False, len(self.addresses)))

    def test_its_names_need_no_file_any_more(self):
        trace = self.trace(self.path, self.addresses)
        self.symbolize(trace)
        self.path.unlink()
        reply = self.symbolize("-o", self.dir / "b.trc", trace)
        self.assertEqual((reply["named"], reply["unnamed"]), (0, []))
        self.check_inlines(self.dir / "b.trc", self.addresses[0])

    def test_two_libraries_at_one_address_are_distinguished_by_time(self):
        other = build(self.dir, "-g", name="other",
                      source=SOURCE.replace("outer_work", "other_work"))
        first, second = self.addresses[0], function(other, "other_work")[0]
        trace = trace_maker.Trace()
        trace.map(self.path, build_id(self.path), BIAS, BIAS + 0x100000, BIAS, 100, 200)
        trace.map(other, build_id(other), BIAS, BIAS + 0x100000, BIAS + first - second, 300)
        trace.stack(150, BIAS + first).stack(350, BIAS + first)
        file = trace.save(self.dir / "t.trc")
        self.symbolize(file)
        rows = [(row["symbol_name"], row["from_ns"], row["to_ns"])
                for group in self.rows(file).values() for row in group
                if row["inline_depth"] == 0]
        self.assertEqual(rows, [("outer_work", 100, 200), ("other_work", 300, None)])

    def test_the_pc_of_a_crash_is_named(self):
        trace = trace_maker.Trace()
        trace.map(self.path, build_id(self.path), BIAS, BIAS + 0x100000, BIAS)
        trace.crash(50, BIAS + self.addresses[0])
        file = trace.save(self.dir / "t.trc")
        self.assertEqual(self.symbolize(file)["named"], 1)

    def test_packed_files_stay_packed(self):
        trace = self.trace(self.path, self.addresses)
        self.kymo("convert", trace, "-o", self.dir / "a.trc.zst")
        self.symbolize(self.dir / "a.trc.zst")
        self.assertEqual((self.dir / "a.trc.zst").read_bytes()[:4], b"\x28\xb5\x2f\xfd")
        self.check_inlines(self.dir / "a.trc.zst", self.addresses[0])

    def test_addresses_without_a_name_are_reported(self):
        trace = trace_maker.Trace()
        trace.stack(5, 0x1234, 0xFFFFFFFF81000010)
        file = trace.save(self.dir / "t.trc")
        before = file.read_bytes()
        done = self.kymo("symbolize", file)
        self.assertIn("0 of 2 addresses have names; nothing was written", done.stdout)
        self.assertIn("the trace does not say what lay there", done.stdout)
        self.assertIn("kernel: recorded before this system started", done.stdout)
        self.assertEqual(file.read_bytes(), before)

    def test_wrong_use(self):
        trace = self.trace(self.path, self.addresses)
        self.kymo("symbolize", code=2)
        self.kymo("symbolize", "--json", "-o", "-", trace, code=2)
        done = self.kymo("symbolize", "--debug-dir", self.dir / "none", trace, code=1)
        self.assertRegex(done.stderr, r"--debug-dir \S+none: No such file or directory\n")
        done = self.kymo("symbolize", "--debug-dir", trace, trace, code=1)
        self.assertRegex(done.stderr, r"--debug-dir \S+: Not a directory\n")
        active = self.dir / "000001.trc.active"
        shutil.copy(trace, active)
        self.assertIn("still being written", self.kymo("symbolize", active, code=1).stderr)
        (self.dir / "there.trc").write_bytes(b"")
        done = self.kymo("symbolize", "-o", self.dir / "there.trc", trace, code=1)
        self.assertIn("--force", done.stderr)
        damaged = self.dir / "damaged.trc"
        damaged.write_bytes(trace.read_bytes() + b"\xff\xff\xff" + trace.read_bytes())
        before = damaged.read_bytes()
        done = self.kymo("symbolize", damaged, code=1)
        self.assertIn("is damaged, and stays as it is", done.stderr)
        self.assertEqual(damaged.read_bytes(), before)


@unittest.skipUnless(os.uname().machine == "x86_64", "made for x86-64")
class Crashes(Case):
    def crashed(self, *args):
        path = build(self.dir, "-g", "-D_GNU_SOURCE", "-fomit-frame-pointer",
                     source=CRASH)
        left, maps = self.dir / "left", self.dir / "maps"
        done = subprocess.run(["sh", "-c", 'exec "$0" "$@" 3>left 4>maps', path, *args],
                              cwd=self.dir, check=False)
        self.assertEqual(done.returncode, 7)
        raw, trace = left.read_bytes(), trace_maker.Trace()
        registers = [int.from_bytes(raw[i:i + 8], "little") for i in range(0, 23 * 8, 8)]
        ranges = [line.split() for line in maps.read_text().splitlines()]
        ranges = [line for line in ranges if line[-1] == str(path)]
        start = int(ranges[0][0].split("-")[0], 16)
        end = int(ranges[-1][0].split("-")[1], 16)
        trace.map(path, build_id(path), start, end, start)
        trace.crash(50, registers[16], registers[15], registers[10], registers, raw[23 * 8:])
        return path, trace.save(self.dir / "t.trc")

    def names(self, *args):
        out = self.kymo(*args).stdout
        return re.findall(r"^ +(?:in|from) (\S+)", out, re.M), out

    def test_the_stack_is_walked_without_frame_pointers(self):
        _, trace = self.crashed()
        for command in ("info", "report"):
            names, out = self.names(command, trace)
            self.assertEqual(names[:3], ["crash_here", "call_it", "main"], out)

    def test_a_call_to_nowhere_names_the_caller(self):
        _, trace = self.crashed("nowhere")
        names, out = self.names("info", trace)
        self.assertEqual(names[:3], ["0x10", "call_it", "main"], out)

    def test_the_names_of_the_stack_are_written_too(self):
        path, trace = self.crashed()
        self.symbolize(trace)
        names = [json.loads(line)["fields"]["symbol_name"] for line in self.kymo(
            "events", "--json", "-t", "SymbolTableEntry", trace).stdout.splitlines()]
        self.assertTrue({"crash_here", "call_it", "main"} <= set(names), names)

    def test_without_the_file_there_is_the_pc_alone(self):
        path, trace = self.crashed()
        path.unlink()
        names, out = self.names("info", trace)
        self.assertEqual(len(names), 1, out)
        self.assertRegex(names[0], r"^prog\+0x[0-9a-f]+$")

    def test_another_machine_has_the_file_in_a_debug_directory(self):
        path, trace = self.crashed()
        place = self.dir / "debug" / build_id(path) / "executable"
        place.parent.mkdir(parents=True)
        path.rename(place)
        names, out = self.names("report", "--debug-dir", self.dir / "debug", trace)
        self.assertEqual(names[:3], ["crash_here", "call_it", "main"], out)


class Events(Case):
    def setUp(self):
        super().setUp()
        self.path = build(self.dir, "-g")
        self.addresses = self.every(self.path)
        self.file = self.trace(self.path, self.addresses[:1] * 2 + [0x900000])

    def text(self, *args):
        return self.kymo("events", "-t", "CustomStackEvent", *args, self.file).stdout

    def test_without_files_a_module_and_an_offset(self):
        self.assertIn(f'["prog+{self.addresses[0]:#x}","prog+{self.addresses[0]:#x}",',
                      self.text())
        self.assertIn(f"[{BIAS + self.addresses[0]:#x},", self.text("--no-symbols"))

    def test_names_from_files_when_asked(self):
        self.assertIn('["outer_work","outer_work","0x', self.text("--symbols").replace(
            '"inner_work",', ""))

    def test_names_of_the_trace_without_asking(self):
        self.symbolize(self.file)
        self.path.unlink()
        self.assertIn('"outer_work"', self.text())

    def test_json_has_addresses_and_beside_them_names(self):
        plain = json.loads(self.text("--json"))
        self.assertNotIn("symbols", plain)
        event = json.loads(self.text("--json", "--symbols"))
        self.assertEqual(event["fields"], plain["fields"])
        self.assertEqual(list(event["symbols"]), list(dict.fromkeys(event["fields"]["frames"])))
        named = event["symbols"][event["fields"]["frames"][0]]
        self.assertEqual(named[-1]["name"], "outer_work")
        self.assertTrue(named[-1]["file"].endswith("work.c") and named[-1]["line"] > 0, named)

    def test_the_pc_of_a_crash(self):
        trace = trace_maker.Trace()
        trace.map(self.path, build_id(self.path), BIAS, BIAS + 0x100000, BIAS)
        trace.crash(50, BIAS + self.addresses[0])
        file = trace.save(self.dir / "c.trc")
        out = self.kymo("events", "--symbols", "-t", "CrashEvent", file).stdout
        self.assertRegex(out, r'pc=\d+ \("(inner_work",")?outer_work"\)')

    def test_info_and_report_say_where_it_crashed_and_was_stuck(self):
        pc = BIAS + self.addresses[0]
        trace = trace_maker.Trace()
        trace.map(self.path, build_id(self.path), BIAS, BIAS + 0x100000, BIAS)
        trace.crash(50, pc)
        trace.event("StuckThreadEvent", 60, ("tid", "U32", 7), ("task_id", "VARINT", 3),
                    ("poll_start_ns", "VARINT", 10), ("pc", "VARINT", pc))
        file = trace.save(self.dir / "c.trc")
        place = r"(inner_work \(.*work.c:[67]\), inlined in )?outer_work \(.*work.c:\d+\)\n"
        for command in ("info", "report"):
            out = self.kymo(command, file).stdout
            self.assertRegex(out, r"\n +in " + place)
            self.assertRegex(out, r"\n +last seen in " + place)

    def test_wrong_use(self):
        self.kymo("events", "--symbols", "--no-symbols", self.file, code=2)
        self.kymo("events", "--symbols", "--format", "csv", self.file, code=2)
        for command in (["events"], ["symbolize"], ["report"], ["export", "--format", "folded"]):
            done = self.kymo(*command, *["--debug-dir=/"] * 17, self.file, code=2)
            self.assertIn("--debug-dir can be given 16 times at most", done.stderr)


if __name__ == "__main__":
    KYMO = str(pathlib.Path(sys.argv[1]).resolve())
    unittest_tap.main(sys.argv[2:])
