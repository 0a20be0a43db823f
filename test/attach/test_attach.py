#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kymo attach and kymo detach: what they do to a process that runs, and what they refuse.

usage: test_attach.py KYMO HOST STEPS LIBRARY DENY [unittest arguments]
They are those of attach_case.py.
"""
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import unittest

from attach_case import (ANSWERED, HOST, KYMO, WAITS, Attach, executable_unnamed, main, maps,
                         threads)
from sample_case import SampleCase
from unittest_tap import DEADLINE_S, wait_until

ROUNDS = 50
PTRACE_ATTACH, PTRACE_DETACH = 16, 17


class Records(Attach):
    def events(self, process, at_least):
        """Events of a dump, once it has so many polls."""
        trace = self.dir / "dump.trc"

        def is_enough():
            self.kymo("dump", process.pid, "-o", trace)
            types = json.loads(self.done("info", "--json", trace))["types"]
            self.count = {row["name"]: row["count"] for row in types}
            return self.count.get("PollStartEvent", 0) >= at_least
        wait_until(is_enough)
        return self.count

    def test_each_kind_of_park_can_be_borrowed(self):
        for kind in WAITS + ["lone"]:
            with self.subTest(kind=kind):
                process = self.host(kind)
                self.attach(process)
                self.assertEqual(len(list(self.rings.iterdir())), 1)
                self.detach(process)
                self.assertEqual(list(self.rings.iterdir()), [])
                self.ended(process)

    def test_fifty_rounds_leave_every_wait_as_it_was(self):
        process = self.host(*WAITS, "sleep", "read")
        longest = 0
        for _ in range(ROUNDS):
            longest = max(longest, self.attach(process), self.detach(process))
        print(f"# {ROUNDS} rounds, a thread was borrowed for at most {longest} us")
        self.assertGreater(self.ended(process)["polls"], 0)

    def test_nothing_is_left_but_the_library(self):
        process = self.host(*WAITS)
        own = threads(process.pid)
        before = executable_unnamed(process.pid)
        words = self.words(process)
        self.attach(process)
        self.assertNotEqual(self.words(process), words)
        self.detach(process)
        wait_until(lambda: threads(process.pid) == own)
        wait_until(lambda: executable_unnamed(process.pid) == before)
        self.assertEqual(self.words(process), words)
        self.ended(process)

    def words(self, process):
        """The read-only data of the program, where its tables and GOT lie."""
        found = b""
        with open(f"/proc/{process.pid}/mem", "rb") as memory:
            for line in maps(process.pid):
                fields = line.split()
                if fields[1] == "r--p" and fields[-1] == HOST:
                    start, end = (int(part, 16) for part in fields[0].split("-"))
                    memory.seek(start)
                    found += memory.read(end - start)
        return found

    def test_what_ran_before_is_recorded(self):
        process = self.host(*WAITS)
        self.attach(process)
        count = self.events(process, 100)
        for name in ("WorkerParkEvent", "PollEndEvent", "WorkerEvent"):
            self.assertGreater(count.get(name, 0), 0, count)
        self.detach(process)
        self.ended(process)

    def test_a_second_recording_knows_the_workers_again(self):
        process = self.host(*WAITS)
        self.attach(process)
        self.detach(process)
        self.attach(process)
        count = self.events(process, 100)
        self.assertGreaterEqual(count["WorkerEvent"], 4, count)
        self.detach(process)
        self.ended(process)

    def test_a_child_of_a_recorded_program_that_was_not_preloaded(self):
        os.environ["KYMO_SESSION"] = "1234"
        try:
            process = self.host(*WAITS)
        finally:
            del os.environ["KYMO_SESSION"]
        self.attach(process)
        self.detach(process)
        self.ended(process)

    def test_all_of_many_pairs_are_in_the_trace(self):
        process = self.host("futex")
        pairs = [word for i in range(40) for word in ("-m", f"pair{i}=value")]
        traces = self.dir / "many"
        stream = subprocess.Popen([KYMO, "attach", "--mode", "stream", "--ring-dir", self.rings,
                                   "-o", traces, str(process.pid), *pairs],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertRegex(stream.stdout.readline(), ANSWERED)
        wait_until(lambda: list(traces.rglob("*.trc.zst*")))
        self.detach(process)
        out, err = stream.communicate(timeout=DEADLINE_S)
        self.assertEqual((err, stream.returncode), ("", 0), out)
        reply = json.loads(self.done("info", "--json", traces))["metadata"]
        self.assertEqual([f"pair{i}" for i in range(40) if f"pair{i}" not in reply], [])
        self.ended(process)

    def test_streaming_ends_with_the_detach(self):
        process = self.host(*WAITS)
        stream = subprocess.Popen([KYMO, "attach", "--mode", "stream", "--ring-dir", self.rings,
                                   "-o", self.dir / "traces", str(process.pid)],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertRegex(stream.stdout.readline(), ANSWERED)
        self.detach(process)
        out, err = stream.communicate(timeout=DEADLINE_S)
        self.assertEqual((err, stream.returncode), ("", 0))
        self.assertRegex(out, r"^trace: .* 0 records lost, 0 dropped\)\n$")
        self.assertEqual(list(self.rings.iterdir()), [])
        self.ended(process)

    def test_a_trigger_dumps_what_is_in_the_ring(self):
        process = self.host("futex", "in-poll")
        dumps = self.dir / "dumps"
        watch = subprocess.Popen([KYMO, "attach", "--ring-dir", self.rings, "-o",
                                  self.dir / "traces", "--dump-dir", dumps, "--trigger",
                                  "poll>1ms", str(process.pid)], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        wait_until(lambda: dumps.exists() and list(dumps.glob("*.trc*")))
        self.detach(process)
        out, err = watch.communicate(timeout=DEADLINE_S)
        self.assertEqual(watch.returncode, 0, err)
        self.assertIn("poll>1ms", err)
        self.assertRegex(out, ANSWERED)
        self.ended(process)

    def test_streaming_ends_with_ctrl_c_and_with_the_process(self):
        for end in ("interrupt", "exit"):
            process = self.host(*WAITS)
            stream = subprocess.Popen([KYMO, "attach", "--mode", "stream", "--ring-dir",
                                       self.rings, "-o", self.dir / end, str(process.pid)],
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            stream.stdout.readline()
            if end == "interrupt":
                stream.send_signal(signal.SIGINT)
            else:
                self.ended(process)
            out, err = stream.communicate(timeout=DEADLINE_S)
            self.assertEqual((err, stream.returncode), ("", 0))
            self.assertRegex(out, r"trace: .* 0 dropped\)")
            if end == "interrupt":
                self.refused(process.pid, "is not recorded", command="detach")
                self.ended(process)


class Samples(SampleCase):
    def test_off_is_off_whatever_the_environment_says(self):
        os.environ["KYMO_SAMPLE"] = "99"
        try:
            process = self.host("futex", "busy")
        finally:
            del os.environ["KYMO_SAMPLE"]
        stream = self.stream(process, "--sample", "off", "--switches", "off")
        self.burned(process, 0.2)
        self.assertEqual((self.timers(process), self.events_of_perf(stream.pid)), (0, 0))
        self.finish(process, stream)
        self.assertEqual(self.source(), ("off", None))
        self.ended(process)


class Refuses(Attach):
    @staticmethod
    def status(process):
        return pathlib.Path(f"/proc/{process.pid}/status").read_text()

    def test_threads_that_must_not_be_borrowed(self):
        for kind in ("in-poll", "held", "busy", "relative"):
            with self.subTest(kind=kind):
                process = self.host(kind, "sleep", "read")
                before = executable_unnamed(process.pid)
                self.refused(process.pid, "no thread that could be borrowed")
                self.assert_untouched(process, before)
                self.ended(process)

    def drainer(self, pid):
        done = self.kymo("status", "--json", "--ring-dir", self.rings, pid)
        return json.loads(done.stdout)["drained_by_pid"] if done.returncode == 0 else None

    def test_a_process_that_kymo_run_records(self):
        run = subprocess.Popen([KYMO, "run", "-q", "--mode", "flight", "--ring-dir", self.rings,
                                "-o", self.dir / "traces", "--", HOST, "futex"],
                               stdout=subprocess.PIPE, text=True)
        self.started.append(run)
        pid = int(run.stdout.readline())
        self.left.append(pid)
        wait_until(lambda: list(self.rings.iterdir()))
        wait_until(lambda: self.drainer(pid) is not None)
        self.refused(pid, "is recorded already", "kymo set")
        self.assertTrue(list(self.rings.iterdir()))
        counts = self.ended(run)
        self.assertGreater(counts["polls"], 0)
        self.assertTrue(list((self.dir / "traces").rglob("*.trc.zst")))

    def test_many_at_once_make_one_recording(self):
        process = self.host(*WAITS, "sleep", "read")
        for _ in range(5):
            attempts = [subprocess.Popen([KYMO, "attach", str(process.pid)], text=True,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                        for _ in range(6)]
            answers = [one.communicate(timeout=DEADLINE_S) + (one.returncode,) for one in attempts]
            made = [out for out, _, code in answers if code == 0]
            self.assertEqual(len(made), 1, answers)
            self.assertRegex(made[0], ANSWERED)
            for out, err, code in answers:
                if code != 0:
                    self.assertEqual((code, out, err.count("\n")), (1, "", 1), answers)
                    self.assertRegex(err, "recorded already|another kymo attach")
            self.assertEqual(len(list(self.rings.iterdir())), 1)
            self.detach(process)
        self.ended(process)

    def test_what_is_recorded_already(self):
        process = self.host("futex")
        self.attach(process)
        self.refused(process.pid, "is recorded already", "kymo dump")
        self.detach(process)
        self.refused(process.pid, "is not recorded", command="detach")
        self.ended(process)

    def test_no_such_process_a_zombie_and_a_stopped_one(self):
        gone = subprocess.Popen(["true"], stdout=subprocess.PIPE)
        self.started.append(gone)
        wait_until(lambda: pathlib.Path(f"/proc/{gone.pid}/stat").read_text().split()[2] == "Z")
        self.refused(gone.pid, "has ended")
        gone.wait()
        self.refused(gone.pid, "does not exist")
        process = self.host("futex")
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: "T (stopped)" in self.status(process))
        self.refused(process.pid, "is stopped")
        process.send_signal(signal.SIGCONT)
        self.ended(process)

    def test_a_thread_of_a_process(self):
        process = self.host("futex")
        thread = next(tid for tid in threads(process.pid) if tid != str(process.pid))
        self.refused(thread, f"is a thread of process {process.pid}")
        self.ended(process)

    def test_a_program_without_tokio(self):
        process = subprocess.Popen(["sleep", "1000"], stdout=subprocess.PIPE)
        self.started.append(process)
        # While it is being executed it has the name, and nothing mapped yet.
        wait_until(lambda: "sleep" in os.readlink(f"/proc/{process.pid}/exe") and
                   any("libc.so" in line for line in maps(process.pid)))
        self.refused(process.pid, "does not use Tokio")

    def compiled(self, *flags):
        """A program that says its pid and sleeps; None: this machine cannot build one."""
        source = self.dir / "sleeper.c"
        source.write_text("#include <stdio.h>\n#include <unistd.h>\nint main(void)\n{\n"
                          "printf(\"%d\\n\", getpid());\nfflush(stdout);\nreturn pause();\n}\n")
        done = subprocess.run(["cc", *flags, "-o", self.dir / "sleeper", source],
                              capture_output=True, check=False)
        return self.dir / "sleeper" if done.returncode == 0 else None

    def test_a_static_program(self):
        program = self.compiled("-static")
        if program is None:
            self.skipTest("no static C library here")
        process = self.host(program=program)
        self.refused(process.pid, "is statically linked")

    def test_a_program_of_32_bits(self):
        # Without a C library, which many machines have for one word size only.
        source, program = self.dir / "small.c", self.dir / "small"
        source.write_text("void _start(void)\n{\nfor (;;) {\nint got;\n"
                          "__asm__ volatile(\"int $0x80\" : \"=a\"(got) : \"a\"(29));\n}\n}\n")
        done = subprocess.run(["cc", "-m32", "-static", "-nostdlib", "-fno-pie", "-no-pie", "-O1",
                               "-o", program, source], capture_output=True, check=False)
        if done.returncode != 0:
            self.skipTest("the compiler makes no 32-bit programs")
        try:
            process = subprocess.Popen([program], stdout=subprocess.PIPE)
        except OSError:
            self.skipTest("the kernel runs no 32-bit programs")
        self.started.append(process)
        wait_until(lambda: "small" in os.readlink(f"/proc/{process.pid}/exe"))
        self.refused(process.pid, "another architecture or word size")
        self.assertIsNone(process.poll())

    def test_a_stripped_program(self):
        program = self.dir / "stripped"
        subprocess.run(["strip", "-o", program, HOST], check=True)
        process = self.host("futex", program=program)
        self.refused(process.pid, "is stripped")
        self.ended(process)

    def test_a_process_under_a_debugger(self):
        process = self.host("futex")
        ptrace = ctypes.CDLL(None, use_errno=True).ptrace
        self.assertEqual(ptrace(PTRACE_ATTACH, process.pid, None, None), 0)
        os.waitpid(process.pid, 0x40000000)
        try:
            self.refused(process.pid, "is traced by process")
        finally:
            ptrace(PTRACE_DETACH, process.pid, None, None)
        self.ended(process)

    def test_a_filtered_process(self):
        def confine():
            libc = ctypes.CDLL(None, use_errno=True)
            filters = (ctypes.c_uint64 * 1)(0x7fff000000000006)  # ret ALLOW

            class Program(ctypes.Structure):
                _fields_ = [("count", ctypes.c_ushort), ("filters", ctypes.c_void_p)]
            program = Program(1, ctypes.addressof(filters))
            if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.byref(program)) != 0:
                os._exit(3)
        process = self.host("futex", preexec_fn=confine)
        self.refused(process.pid, "seccomp", "kymo run")
        self.ended(process)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("unshare"), "needs root and unshare")
    def test_what_yama_forbids_is_reported_with_its_level(self):
        """A process that may not be traced, under a /proc that says that yama is the reason."""
        os.chmod(self.dir, 0o755)
        program = shutil.copy(shutil.which("sleep"), self.dir / "unreadable")
        os.chmod(program, 0o711)  # a user who may not read it may not trace it
        kymo = shutil.copy(KYMO, self.dir)  # a clone may lie where no other user may read
        process = subprocess.Popen([program, "1000"], stdout=subprocess.PIPE, user=65534,
                                   group=65534, extra_groups=[])
        self.started.append(process)
        for level, part in (("0", "it changed its user, or may not be dumped"),
                            ("1", "only by its parent: kernel.yama.ptrace_scope is 1; it takes "
                             "root or CAP_SYS_PTRACE"),
                            ("2", "by root alone: kernel.yama.ptrace_scope is 2"),
                            ("3", "by no process until the next boot: kernel.yama.ptrace_scope is "
                             "3")):
            done = subprocess.run(
                ["unshare", "-m", "sh", "-c", "mount -t tmpfs -o mode=755 none /proc/sys/kernel && "
                 f"mkdir /proc/sys/kernel/yama && echo {level} > "
                 "/proc/sys/kernel/yama/ptrace_scope && exec setpriv --reuid 65534 --regid 65534 "
                 "--clear-groups \"$@\"", "sh", kymo, "attach", str(process.pid)],
                capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1),
                             done.stderr)
            self.assertIn(part, done.stderr)
        self.assertIsNone(process.poll())

    @unittest.skipUnless(os.geteuid() == 0, "takes root to become two users")
    def test_another_users_process(self):
        process = self.host("futex")
        os.chmod(self.dir, 0o755)
        program = shutil.copy(KYMO, self.dir)  # a clone may lie where no other user may read
        done = subprocess.run([program, "attach", str(process.pid)], capture_output=True, text=True,
                              check=False, user=65534, group=65534, extra_groups=[], cwd="/")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("belongs to another user", done.stderr)
        self.ended(process)

    @unittest.skipUnless(os.path.exists("/proc/2/stat"), "no threads of the kernel here")
    def test_a_thread_of_the_kernel(self):
        name = pathlib.Path("/proc/2/comm").read_text().strip()
        if name != "kthreadd":
            self.skipTest("another process namespace")
        self.refused(2, "thread of the kernel")

    def test_a_library_that_cannot_be_loaded_there(self):
        process = self.host("futex")
        broken = self.dir / "libkymo-preload.so"
        broken.write_text("no library\n")
        done = subprocess.run([KYMO, "attach", str(process.pid)], capture_output=True, text=True,
                              check=False, env={**os.environ, "KYMO_PRELOAD": str(broken)})
        self.assertEqual(done.returncode, 1)
        self.assertIn("could not load the recorder", done.stderr)
        self.attach(process)
        self.detach(process)
        self.ended(process)

    def test_options_stand_before_and_after_the_pid(self):
        process = self.host("futex")
        answer = self.done("attach", process.pid, "-s", "after", "--mode", "flight")
        self.assertRegex(answer, ANSWERED)
        found = self.done("ps", "--json", "-i", 0, "--ring-dir", self.rings)
        self.assertEqual([row["service"] for row in json.loads(found)["rings"]], ["after"])
        self.assertEqual(self.done("detach", process.pid, "-q"), "")
        self.assertEqual(self.done("attach", "-q", process.pid, "--service=after"), "")
        self.detach(process)
        self.ended(process)

    def test_as_json(self):
        process = self.host("futex")
        reply = json.loads(self.done("attach", process.pid, "--json", "-s", "front"))
        self.assertEqual((reply["pid"], reply["service"], reply["mode"], reply["is_staying"]),
                         (process.pid, "front", "flight", False))
        self.assertGreater(reply["threads_stopped"], 0)
        self.assertGreater(reply["task_types"], 0)
        self.assertGreater(reply["borrowed_ns"], 0)
        ring = pathlib.Path(reply["ring"])
        self.assertEqual(list(self.rings.iterdir()), [ring])
        self.refused(process.pid, "is recorded already")
        reply = json.loads(self.done("detach", "--json", process.pid))
        self.assertEqual((reply["pid"], reply["ring"], reply["is_ring_removed"]),
                         (process.pid, str(ring), True))
        self.assertFalse(ring.exists())
        self.ended(process)

    def test_wrong_usage(self):
        for command, *args in (("attach",), ("attach", "x"), ("attach", "--json"),
                               ("attach", "1", "2"), ("attach", "-o", "here", "1"),
                               ("attach", "--nope", "1"),
                               ("attach", "1", "--nope"), ("attach", "1", "-q", "2"),
                               ("detach",), ("detach", "-1"), ("detach", "1", "2")):
            done = self.kymo(command, *args)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1),
                             (command, args, done.stderr))


if __name__ == "__main__":
    main()
