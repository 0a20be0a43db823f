#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`kymo doctor` on programs built in every way that limits what can be seen of them.

usage: test_doctor.py KYMO [unittest arguments]
"""
import fcntl
import json
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import unittest_tap  # noqa: E402

KYMO = ""
TRIED = {"perf_event", "context_switches"}
MACHINE = ["perf_event", "context_switches", "cpu_timers", "kernel_symbols", "ptrace",
           "shared_memory", "clock", "cgroup"]
# What Tokio's tables are in a symbol table: data that points to a function of that name.
TOKIO = """
#ifndef BAD
#define BAD 0
#endif
void task_poll(void) __asm__("_ZN5tokio7runtime4task3raw4poll17h0123456789abcdefE");
void task_poll(void) {}
struct { void (*const functions[7])(void); long trailer, scheduler, id; } const table = {
    {task_poll, task_poll, task_poll, task_poll, task_poll, task_poll, task_poll},
    128, 32 + BAD, 40};
#ifdef WAKER
extern void *const waker[4];
__asm__(".text; clone: .cfi_startproc; mov $0x40, %eax; lock xadd %rax, (%rdi);"
        "lea waker(%rip), %rdx; ret; .cfi_endproc;"
        ".section .data.rel.ro,\\"aw\\"; .globl waker; .balign 8;"
        "waker: .quad clone, clone, clone, clone; .text");
#endif
int main(int argc, char **argv) {
#ifdef WAKER
    if (argc > 9) return waker[argc] != 0;
#endif
    (void)argv; table.functions[argc - 1](); return 0; }
"""


class Doctor(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.dir = pathlib.Path(held.name)

    def build(self, name, *flags):
        if not shutil.which("cc"):
            self.skipTest("there is no C compiler here")
        source, out = self.dir / "a.c", self.dir / name
        source.write_text(TOKIO)
        subprocess.run(["cc", "-O1", *flags, "-o", out, source], check=True, capture_output=True)
        return out

    def doctor(self, *arguments, codes=(0, 1)):
        ran = subprocess.run([KYMO, "doctor", *map(str, arguments)], capture_output=True,
                             text=True, check=False)
        self.assertIn(ran.returncode, codes, ran.stderr)
        return ran

    def checks(self, *arguments):
        ran = self.doctor("--json", *arguments)
        checks = {check["name"]: check for check in json.loads(ran.stdout)["checks"]}
        limited = [name for name, check in checks.items() if check["state"] != "ok"]
        self.assertEqual(ran.returncode, 1 if limited else 0, limited)
        for name in limited:
            self.assertTrue(checks[name]["effect"], name)
        return checks

    def test_reports_every_part_of_the_machine(self):
        checks, text = self.checks(), self.doctor().stdout
        for name in MACHINE:
            self.assertIn(name, checks)
            self.assertTrue(checks[name]["value"])
        for name, check in checks.items():
            # What the kernel yields when tried may be something else each time.
            state = r"\w+" if name in TRIED else check["state"]
            self.assertRegex(text, rf"(?m)^{state} +{name} ")

    def test_a_time_has_three_digits_and_a_unit(self):
        found = self.checks()["context_switches"]["value"]
        if found.startswith("are reported"):
            self.assertRegex(found, r"takes (\d{1,3}|\d\.\d\d|\d\d\.\d) [num]s of CPU time$")

    def on_terminal(self, columns):
        """What kymo doctor prints on a terminal that is so wide."""
        ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 25, columns, 0, 0))
        env = {**os.environ, "TERM": "dumb", "COLUMNS": ""}
        out = b""
        with subprocess.Popen([KYMO, "doctor"], stdout=its, env=env) as process:
            os.close(its)
            while True:
                try:
                    out += os.read(ours, 4096)
                except OSError:  # the last one with the terminal open has ended
                    break
            os.close(ours)
        self.assertIn(process.returncode, (0, 1))
        return out.decode().replace("\r\n", "\n")

    def test_the_table_is_folded_on_a_terminal_and_nowhere_else(self):
        def names(lines):
            found = lines[0].index("Found")
            return [line[:found].split()[-1] for line in lines if line[:found].strip()]

        table = self.doctor().stdout.partition("\n\n")[0].splitlines()
        columns = table[0].index("Found") + 25
        folded = self.on_terminal(columns).partition("\n\n")[0].splitlines()
        wide = self.on_terminal(500).partition("\n\n")[0].splitlines()
        self.assertGreater(max(map(len, table)), columns)
        self.assertLessEqual(max(map(len, folded)), columns)
        self.assertGreater(len(folded), len(table))
        self.assertEqual(len(wide), len(table))
        # What the kernel yields when tried may be something else each time: the names are not.
        self.assertEqual(names(folded), names(table))
        self.assertEqual(names(wide), names(table))

    def test_settings_are_those_of_the_kernel(self):
        path = pathlib.Path("/proc/sys/kernel/perf_event_paranoid")
        if not path.exists():
            self.skipTest("no perf_event here")
        self.assertIn(f"perf_event_paranoid is {path.read_text().strip()}",
                      self.checks()["perf_event"]["value"])

    def test_a_program_that_has_everything(self):
        checks = self.checks(self.build("all", "-g", "-Wl,--build-id"))
        for name in ("reach", "symbols", "build_id", "debug_info", "unwind_tables", "tokio"):
            self.assertEqual(checks[name]["state"], "ok", checks[name])
        self.assertEqual(checks["tokio"]["value"], "1 kind of Tokio tasks, by its symbols")

    def test_a_program_that_lacks_something(self):
        for flags, name, state in ((["-s"], "symbols", "limited"),
                                   (["-s", "-DWAKER"], "tokio", "limited"),
                                   (["-DBAD=1"], "tokio", "none"),
                                   (["-Wl,--build-id=none"], "build_id", "limited"),
                                   (["-g0"], "debug_info", "limited"),
                                   (["-static"], "reach", "none")):
            with self.subTest(flags=flags):
                try:
                    program = self.build("lacks", *flags)
                except subprocess.CalledProcessError:
                    continue # no static libc
                check = self.checks(program)[name]
                self.assertEqual(check["state"], state, check)
                self.assertTrue(check["command"], check)

    def test_a_stripped_program_has_its_tables_by_shape(self):
        check = self.checks(self.build("bare", "-s", "-DWAKER"))["tokio"]
        self.assertEqual(check["value"], "1 table of Tokio tasks, by shape")
        self.assertIn("STRIP=false", check["command"])
        check = self.checks(self.build("none", "-s"))["tokio"]  # a table alone is no Tokio
        self.assertEqual((check["state"], check["value"]), ("none", "no table of Tokio tasks"))

    def test_a_layout_that_is_not_known(self):
        program = self.build("old", "-DBAD=1")
        with program.open("ab") as file:
            file.write(b"\0/registry/tokio-1.8.1/src/runtime/task/raw.rs")
        check = self.checks(program)["tokio"]
        self.assertEqual(check["value"], "1 kind of Tokio tasks, by its symbols; Tokio 1.8.1")
        self.assertIn("refuses", check["effect"])

    def test_advice_fits_the_program(self):
        try:
            program = self.build("static", "-static", "-DALLOCATOR")
        except subprocess.CalledProcessError:
            self.skipTest("no static libc here")
        for check in self.checks(program).values():
            self.assertNotIn("LD_PRELOAD", check["command"])
            self.assertNotIn("crate kymo", check["command"])
        self.assertNotIn("line-tables-only", self.doctor(self.build("plain", "-g0")).stdout)

    def test_shared_memory_that_cannot_be_used(self):
        for option, value, state in (("ro", "read-only", "none"), ("size=64k", "free", "none"),
                                     ("size=2m", "free", "limited")):
            script = (f"mount --make-rprivate / && mount -t tmpfs -o {option} tmpfs /dev/shm "
                      f"|| exit 77; exec {KYMO} doctor --json")
            ran = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True,
                                 text=True, check=False)
            if ran.returncode not in (0, 1):
                self.skipTest("no mount namespace can be had here")
            check = next(one for one in json.loads(ran.stdout)["checks"]
                         if one["name"] == "shared_memory")
            self.assertEqual(check["state"], state, check)
            self.assertIn(value, check["value"])
            self.assertNotRegex(check["command"], "--ring-bytes")

    def test_a_program_without_tokio_gets_no_advice_on_symbols(self):
        program = self.build("other")
        program.write_bytes(program.read_bytes().replace(b"5tokio7runtime", b"5other7runtime"))
        check = self.checks(program)["tokio"]
        self.assertEqual((check["state"], check["command"]), ("none", ""))

    def test_a_refused_sampler_is_not_offered_as_substitute(self):
        """Where nothing can be sampled timers are not offered."""
        for denied in (["perf"], ["timer"], ["perf", "timer"]):
            ran = subprocess.run([DENY, *denied, "--", KYMO, "doctor", "--json"],
                                 capture_output=True, text=True, check=False)
            if ran.returncode == 77:
                self.skipTest("no filter can be had here")
            checks = {check["name"]: check for check in json.loads(ran.stdout)["checks"]}
            if "refused" not in checks["perf_event"]["value"]:
                self.assertNotIn("perf", denied)
                continue
            effect = checks["perf_event"]["effect"]
            self.assertEqual("no CPU samples" in effect, "timer" in denied, effect)
            self.assertEqual("timers inside" in effect, "timer" not in denied, effect)

    def test_a_process_and_its_program(self):
        host = subprocess.Popen(["sleep", "60"])
        self.addCleanup(host.wait)
        self.addCleanup(host.kill)
        checks = self.checks(host.pid)
        self.assertEqual(checks["process"]["state"], "ok")
        self.assertRegex(checks["cgroup"]["value"], r"^memory.*, CPU time")
        self.assertEqual(checks["cgroup"], self.checks()["cgroup"]) # it is in the same
        self.assertEqual(checks["reach"]["state"], "ok")

    def test_hostile_and_missing_files(self):
        for number, content in enumerate((b"", b"\x7fELF", b"\x7fELF" + b"\xff" * 200,
                                          b"#!/bin/sh\n" * 50)):
            file = self.dir / f"bad{number}"
            file.write_bytes(content)
            file.chmod(0o755)
            self.assertEqual(self.checks(file)["program"]["state"], "none")
        self.assertIn("no ELF file", self.checks(file)["program"]["value"])
        self.assertIn("no such program", self.doctor("/proc/nonexistent", codes=(1,)).stderr)
        self.assertIn("no process", self.doctor("2147483647", codes=(1,)).stderr)
        self.doctor("a", "b", codes=(2,))


if __name__ == "__main__":
    KYMO = str(pathlib.Path(sys.argv[1]).resolve())
    DENY = pathlib.Path(sys.argv[2]).resolve()
    unittest_tap.main(sys.argv[3:])
