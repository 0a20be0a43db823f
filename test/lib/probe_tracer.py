# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A tracer of USDT probes by ptrace(2), for x86-64: it goes by the notes of a file alone, as
bpftrace does. It counts the semaphores up in the program's memory, stops at each probe's address
and reads the arguments where the note says they are. One thread."""
import ctypes
import os
import re
import signal
import struct

TRACEME, CONT, GETREGS, SETREGS = 0, 7, 12, 13
REGISTERS = ("r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags "
             "rsp ss fs_base gs_base ds es fs gs").split()
BREAKPOINT = b"\xcc"
NOP_BYTES = 5
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]


def ptrace(request, pid, data=None):
    if libc.ptrace(request, pid, None, data) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request}")


class Tracer:
    """Runs a program, stopped at its start. on_hit(tracer, probe, values) while it is stopped at
    one."""

    def __init__(self, command, probes, on_hit):
        self.probes, self.on_hit, self.is_on = probes, on_hit, False
        self.pid = os.fork()
        if self.pid == 0:
            try:
                ptrace(TRACEME, 0)
                os.execv(command[0], command)
            finally:
                os._exit(127)
        self.stopped_by(os.waitpid(self.pid, 0)[1], signal.SIGTRAP)
        self.bias = self.read_bias(command[0])
        self.memory = os.open(f"/proc/{self.pid}/mem", os.O_RDWR)
        self.saved = {}

    @staticmethod
    def stopped_by(status, number):
        if not os.WIFSTOPPED(status) or os.WSTOPSIG(status) != number:
            raise RuntimeError(f"status {status:#x} in place of signal {number}")

    def read_bias(self, program):
        with open(f"/proc/{self.pid}/maps", encoding="ascii") as maps:
            return min(int(line.split("-")[0], 16) for line in maps
                       if line.split()[-1] == os.path.realpath(program))

    def text(self, address):
        out = b""
        while b"\0" not in out:
            out += os.pread(self.memory, 16, address + len(out))
        return out.split(b"\0")[0].decode()

    def turn(self, is_on):
        """Comes, or goes: both only while the program is stopped."""
        for probe in self.probes:
            at = self.bias + probe.semaphore
            count = struct.unpack("<H", os.pread(self.memory, 2, at))[0] + (1 if is_on else -1)
            os.pwrite(self.memory, struct.pack("<H", count), at)
            at = self.bias + probe.location
            if is_on:
                self.saved[at] = os.pread(self.memory, NOP_BYTES, at)
                os.pwrite(self.memory, BREAKPOINT, at)
            else:
                os.pwrite(self.memory, self.saved[at][:1], at)
        self.is_on = is_on

    def value(self, argument, registers):
        register = re.fullmatch(r"8@%(\w+)", argument)
        if not register:
            raise ValueError(argument)
        return registers[REGISTERS.index(register[1])]

    def on_trap(self):
        registers = (ctypes.c_ulong * len(REGISTERS))()
        ptrace(GETREGS, self.pid, registers)
        rip = REGISTERS.index("rip")
        at = registers[rip] - len(BREAKPOINT)
        probe = next(probe for probe in self.probes if self.bias + probe.location == at)
        self.on_hit(self, probe, [self.value(text, registers) for text in probe.arguments])
        registers[rip] = at + NOP_BYTES
        ptrace(SETREGS, self.pid, registers)

    def run(self):
        """Until it says that something may change, or ends: then its exit status."""
        while True:
            ptrace(CONT, self.pid)
            status = os.waitpid(self.pid, 0)[1]
            if os.WIFEXITED(status) or os.WIFSIGNALED(status):
                os.close(self.memory)
                return os.waitstatus_to_exitcode(status)
            if os.WSTOPSIG(status) == signal.SIGUSR1:
                return None
            self.stopped_by(status, signal.SIGTRAP)
            self.on_trap()
