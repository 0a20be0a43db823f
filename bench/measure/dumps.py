# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What `kymo dump` of a full ring costs, and what an echo server under load feels of it.

One server; loads without anything beside them, with dumps one behind the other, with one dump, and
with a program that has nothing to do with kymo and burns as much at the same priorities take
turns. Where that program stretches the load as dumps do, it is the processors that are shared.
"""
import concurrent.futures
import contextlib
import socket
import statistics
import threading
import types

from .echo import cpu_ns
from .flight import CONNECTIONS, load, rotated
from .memory import host_of
from .programs import Running, run
from .rows import ratios, row

RING_BYTES = 64 << 20
FILL = 1_800_000  # 40 bytes a request
REQUESTS = 150_000
KINDS = ("quiet", "dumped", "burned", "once")


class Beside:
    """What runs beside a load, and the CPU time of each dump so far, in ms."""

    def __init__(self, context, pid, directory):
        self.context, self.pid, self.directory = context, pid, directory
        self.dump_ms = []
        self.burn_ms = 0

    def dump(self):
        path = self.directory / f"{len(self.dump_ms)}.trc.zst"
        _, cpu_s, _ = run([self.context.kymo, "dump", str(self.pid), "-o", path])
        self.dump_ms.append(cpu_s * 1e3)
        self.burn_ms = round(statistics.median(self.dump_ms))
        path.unlink()

    def burn(self):
        run([self.context.program("burn"), str(RING_BYTES), str(self.burn_ms)])

    def load(self, kind, programs, port):
        """Figures of one load. What is under way when it ends comes to its end afterwards."""
        is_over = threading.Event()

        def work():
            step = self.burn if kind == "burned" else self.dump
            step()
            while kind != "once" and not is_over.is_set():
                step()

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            working = None if kind == "quiet" else pool.submit(work)
            before = cpu_ns(self.pid)
            try:
                result = load(programs, port, REQUESTS)
                result["cpu_ns"] = (cpu_ns(self.pid) - before) / REQUESTS
            finally:
                is_over.set()
            if working:
                working.result()
        return result


def measure(context):
    """One server whose ring is full; loads of each kind take turns."""
    programs = types.SimpleNamespace(plain=context.crate("tokio/plain"))
    figures = {kind: [] for kind in KINDS}
    rounds = context.rounds
    with context.directory() as directory:
        echo = programs.plain / "echo"
        count = str(1 + CONNECTIONS * (1 + len(KINDS) * rounds))
        command = [context.kymo, "run", "--quiet", "--mode", "flight", "--ring-bytes",
                   str(RING_BYTES), "-o", directory / "end", "--", echo, count]
        with Running(command, limit_s=900) as server:
            port = server.line()
            beside = Beside(context, host_of(server.process.pid, echo), directory)
            with contextlib.closing(socket.create_connection(("127.0.0.1", int(port)))):
                context.progress("dumps: filling a ring of 64 MiB")
                load(programs, port, FILL)
                beside.dump()  # so that it is known how much to burn
                beside.dump_ms.clear()
                for index in range(rounds):
                    context.progress(f"dumps, {index + 1} of {rounds}")
                    for kind in rotated(KINDS, index):
                        figures[kind].append(beside.load(kind, programs, port))
            server.finish()
    figures["dump_ms"] = beside.dump_ms
    return figures


def rows_of(figures):
    def changes(kind, base, key):
        return [100 * (ratio - 1) for ratio in ratios([found[key] for found in figures[kind]],
                                                      [found[key] for found in figures[base]])]

    result = [
        row("kymo dump of a full 64 MiB ring under load, zstd, CPU of the process",
            figures["dump_ms"], "ms", 300),
        row("the same, the worst", max(figures["dump_ms"]), "ms"),
    ]
    for key, name in (("p999_ns", "p99.9 of the load"), ("p50_ns", "p50 of the load"),
                      ("cpu_ns", "the server's CPU per request")):
        result += [
            row(f"{name} while dumps follow one another, change", changes("dumped", "quiet", key),
                "%"),
            row(f"{name} beside a program that burns as much at the same priority, change",
                changes("burned", "quiet", key), "%"),
            row(f"{name} beside dumps, against beside that program",
                changes("dumped", "burned", key), "%"),
            row(f"{name} with one dump in it, change", changes("once", "quiet", key), "%"),
        ]
    return result


def rows(context):
    return rows_of(measure(context))
