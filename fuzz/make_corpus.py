#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes the seed inputs of fuzz_segment and fuzz_schema from the golden and the peer's traces, and
those of fuzz_unwind, fuzz_unwind_build, fuzz_unwind_table, fuzz_place_table and fuzz_sample_area.

usage: make_corpus.py [OUT_DIR]

Whole traces, pieces cut off, pieces with flipped bits, and sizes that lie. Always the same files;
what a fuzzer finds beside them is added by hand under a name that says what it is.
"""
import glob
import gzip
import os
import random
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TRACES = os.path.join(HERE, "../test/golden/traces")
HEADER = b"TRC\0\1"


def read(name):
    with open(os.path.join(TRACES, name + ".trc"), "rb") as file:
        return file.read()


def flipped(source, count, rng):
    out = bytearray(source)
    for _ in range(count):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def schema(fields, type_id=1, name=b"E"):
    raw = struct.pack("<BHH", 1, type_id, len(name)) + name + struct.pack("<BH", 1, len(fields))
    for kind in fields:
        raw += struct.pack("<H", 1) + b"f" + bytes([kind])
    return raw


def lies():
    """Lengths and counts without end."""
    event = b"\2\1\0\0\0\0"
    huge = b"\xff\xff\xff\xff"
    yield "length-string", HEADER + schema([4]) + event + huge
    yield "length-map", HEADER + schema([10]) + event + b"\1\0\0\0" + huge
    yield "count-list", HEADER + schema([14]) + event + b"\x40\x42\x0f\0" + b"\x0b\1" * 50
    yield "count-pool", HEADER + b"\3" + huge
    yield "count-stacks", HEADER + b"\4\1\0\0\0\0\0\0\0" + huge
    yield "nested-maps", HEADER + schema([15]) + event + b"\1\0\0\0\x0f" * 200
    yield "resets", HEADER + b"\5\1\2\3\4\5\6\7\x08" * 200
    yield "headers", HEADER * 300
    yield "varint-endless", HEADER + schema([9]) + event + b"\xff" * 12
    yield "time-overflow", HEADER + schema([]) + b"\5" + b"\xff" * 8 + b"\2\1\0\2\0\0"


def segments(rng):
    whole = read("all_frames")
    yield "empty", b""
    yield "all-frames", whole
    for name in ("PollStartEvent", "WorkerUnparkEvent", "SegmentMetadataEvent", "OffCpuEvent",
                 "CpuSampleEvent", "ProcessResourceUsageEvent", "SegmentIndexEvent",
                 "CudaGpuEvent"):
        yield name, read(name)
    for i in range(6):
        yield f"cut-{i}", whole[: rng.randrange(6, len(whole))]
    for i in range(8):
        yield f"flipped-{i}", flipped(whole, 1 + i, rng)
    for path in sorted(glob.glob(os.path.join(HERE, "../test/data/*.gz"))):
        name = os.path.basename(path).split(".bin")[0]
        with gzip.open(path) as file:
            piece = file.read(1 << 20)
        yield name + "-head", piece[:6000]
        # From the last header before the middle: another thread's stream.
        at = piece.rfind(HEADER, 0, len(piece) // 2)
        yield name + "-middle", piece[at:at + 6000]
        yield name + "-flipped", flipped(piece[at:at + 6000], 12, rng)
    yield from lies()


def schemas(rng):
    """Without the tag: the target puts it there."""
    for name in ("PollStartEvent", "ProcessResourceUsageEvent", "CudaGpuEvent", "all_frames"):
        raw = read(name)
        at = raw.index(b"\1", 5)
        while raw[at + 5:at + 8] not in (b"Pol", b"Pro", b"Cud", b"All"):
            at = raw.index(b"\1", at + 1)
        yield name, raw[at + 1:at + 1500]
        yield name + "-flipped", flipped(raw[at + 1:at + 600], 3, rng)
    yield "empty", b""
    yield "no-fields", schema([])[1:]
    yield "all-types", schema(list(range(1, 16)) + [0x80 | kind for kind in range(1, 16)])[1:]
    yield "unknown-type", schema([16])[1:]
    yield "then-annotations", schema([9])[1:] + (
        b"\6\1\1\0\0\0\4\0unit\2\0\0\0ns" + b"\2\1\0\1\0\0\5")
    yield "then-another", schema([9])[1:] + schema([11])
    yield "many-names", schema([9], 7, b"n" * 300)[1:]
    yield "count-lies", schema([9])[1:-4] + b"\xff\xff"


CODE, FRAMES, STACK = 0x10000, 0x20000, 0x400000  # as in fuzz_unwind.c
PLAIN = b"\x0c\x07\x08\x90\x01"  # CFA = rsp + 8, return address at CFA - 8
PUSHED = b"\x41\x0e\x10\x86\x02\x43\x0d\x06"  # push %rbp; mov %rsp, %rbp


def uleb(value):
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7f | 0x80]), value >> 7
    return out + bytes([value])


def common(program=PLAIN, augmentation=b"zR", data=b"\x1b", code_align=1, data_align=b"\x78"):
    body = struct.pack("<IB", 0, 1) + augmentation + b"\0" + uleb(code_align) + data_align + b"\x10"
    body += (uleb(len(data)) + data if augmentation[:1] == b"z" else b"") + program
    body += b"\0" * (-len(body) % 4)
    return struct.pack("<I", len(body)) + body


def frames(programs, first=None, base=FRAMES):
    """One common entry, then a function of 256 bytes at CODE + 256 * i for each program."""
    out = first or common()
    for i, program in enumerate(programs):
        at = len(out)
        body = struct.pack("<IiI", at + 4, CODE + 256 * i - base - at - 8, 256) + b"\0" + program
        body += b"\0" * (-len(body) % 4)
        out += struct.pack("<I", len(body)) + body
    return out


def thread(entries, stack, pc=CODE + 32, flags=0, **registers):
    values = [registers.get(f"r{i}", 0x1000 + i) for i in range(17)]
    values[7] = registers.get("sp", STACK)
    head = bytes([flags]) + struct.pack("<18QH", *values, pc, len(entries))
    return head + entries + struct.pack(f"<{len(stack)}Q", *stack)


def unwinds(rng):
    """Threads whose callers can be told, and such whose entries lie."""
    calls = [CODE + 256 * i + 16 for i in range(1, 4)]
    plain = thread(frames([b"", b"", b"", b"\x07\x10"]), calls)
    yield "plain", plain
    saved = [STACK + 32, calls[0], 0, 0, STACK + 64, calls[2]]
    yield "pushed", thread(frames([PUSHED] * 3 + [b"\x07\x10"]), saved, r6=STACK)
    yield "remembered", thread(frames([b"\x0a\x0e\x20\x44\x0b\x41\x0e\x10", b"\x07\x10"]), calls)
    yield "expressions", thread(frames([b"\x0f\x03\x77\x08\x06", b"\x10\x03\x02\x76\x00"]), calls)
    yield "signal-frame", thread(frames([b""], common(augmentation=b"zRS")), calls)
    yield "personality", thread(frames([b""], common(augmentation=b"zPLR",
                                                     data=b"\x9b\0\0\0\0\x1b\x1b")), calls)
    yield "absolute", thread(frames([b""], common(augmentation=b"zR", data=b"\x04")), calls)
    yield "no-augmentation", thread(frames([b""], common(augmentation=b"")), calls)
    yield "far-return", thread(frames([b"\x11\x10\x7f", b"\x14\x10\x02"]), calls * 4)
    yield "itself", thread(frames([b"\x0e\x00"] * 2), [CODE + 16] * 64)
    yield "deep", thread(frames([b""]), [CODE + 16] * 300)
    yield "data-align-overflows", thread(frames([b"\x05\x10" + b"\xff" * 9 + b"\x01"], common(
        data_align=b"\x80" * 9 + b"\x7f")), calls)
    yield "offset-overflows", thread(frames([b"\x12\x07" + b"\xff" * 9 + b"\x01",
                                             b"\x13" + b"\xff" * 9 + b"\x01"]), calls)
    yield "restore-without-remember", thread(frames([b"\x0b"]), calls)
    yield "remember-without-end", thread(frames([b"\x0a" * 200]), calls)
    yield "uleb-without-end", thread(frames([b"\x0e" + b"\xff" * 40]), calls)
    own = frames([b"", b"\x07\x10"], base=FRAMES + 28)
    table = struct.pack("<4BiIiiii", 1, 0x1b, 3, 0x3b, 0, 2, CODE - FRAMES, 28 + len(common()),
                        CODE + 256 - FRAMES, 28 + len(frames([b""])))
    yield "own-table", thread(table + own, calls, flags=1)
    yield "table-lies", thread(table[:8] + b"\xff\xff\xff\x7f" + table[12:] + own, calls, flags=1)
    for i in range(6):
        yield f"flipped-{i}", flipped(plain, 2 + i, rng)


RUST_MAIN = bytes.fromhex("504889f14863d7488d05f2f3ffff48890424488d357f2c0600"
                          "4889e74531c0ff157368060059c3")


def unwind_builds(rng):
    """The same, where what follows the entries is code that none of them describes."""
    for name, raw in unwinds(rng):
        yield name, raw
    entries = frames([b"", PUSHED])
    prefix = bytes(145) + struct.pack("<H", len(entries)) + entries
    for name, code in (("main", RUST_MAIN), ("main-later", b"\xcc" * 512 + RUST_MAIN),
                       ("jumps", bytes.fromhex("4883ec084885c07402ffd04883c408c3")),
                       ("saves", bytes.fromhex("555331dbe8000000005b5dc3")),
                       ("endless", b"\x50" * 600), ("jumps-back", b"\x74\xfe\xc3")):
        yield "code-" + name, prefix + code
        yield "code-" + name + "-flipped", prefix + flipped(code, 1, rng)
    yield "little-room", b"\2\7" + prefix[2:] + RUST_MAIN


def area(start, index=1 << 32 | 1, used=1 << 20, rows=((0, 4 | 2 << 4), (512, 2)), stack=(),
         blocks=(0, 0, 1), **lies):
    """An unwind area with one module, and a stack."""
    head, base = 64 + 2 * 2 * 512 + 64 * 512, 0x10000
    at = {"blocks": head, "rows": head + 16, "wide": head + 16 + 8 * len(rows)}
    at.update(lies)
    module = struct.pack("<IIQQQQQQII", lies.get("generation", 2), 1, base, base + 1536, base,
                         at["blocks"], at["rows"], at["wide"], len(blocks),
                         lies.get("row_count", len(rows)))
    words = b"".join(struct.pack("<Q", word) for word in stack)
    tables = struct.pack(f"<{len(blocks)}I", *blocks).ljust(16, b"\0")
    tables += b"".join(struct.pack("<II", *row) for row in rows)
    tables += lies.get("rule", struct.pack("<BBBxiihh", 6, 1, 1, -8, 16, 0, -3))
    return struct.pack("<6Q", *start, used, index) + struct.pack(
        "<HH", 1, len(words)) + module + words + tables


def unwind_tables(rng):
    """Areas as they are made, and such whose numbers lie."""
    start, calls = (CODE + 8, STACK, STACK + 16, 0), [0, CODE + 20, 0, CODE + 600, 0, 0]
    plain = area(start, stack=calls)
    yield "plain", plain
    yield "by-fp", area(start, rows=((0, 5 | 2 << 4 | 2 << 18), (512, 2)), stack=calls * 3)
    yield "by-second", area((CODE, STACK, 0, STACK), rows=((0, 6 | 2 << 4),), stack=calls)
    yield "signal", area(start, rows=((0, 3), (512, 2)), stack=[CODE + 600, STACK] * 16)
    yield "wide", area(start, rows=((0, 8), (512, 2)), stack=[STACK + 32, CODE + 600] * 8)
    yield "wide-beyond", area(start, rows=((0, 8 | 99 << 4), (512, 2)), stack=calls)
    yield "plt", area(start, rows=((0, 7 | 11 << 4), (512, 2)), stack=[CODE + 600] * 4)
    yield "no-code", area(start, rows=((0, 0), (512, 2)), stack=[STACK + 16, CODE + 600] * 8)
    yield "no-module", area((1, STACK, STACK, 0), stack=calls)
    yield "search", area((CODE + 8, STACK | 1, 0, 0), rows=((0, 5 | 2 << 4 | 2 << 18),),
                         stack=[0, CODE + 30] * 20)
    yield "odd-generation", area(start, stack=calls, generation=3)
    yield "index-lies", area(start, index=1 << 32 | 0xffffffff, stack=calls)
    yield "rows-lie", area(start, stack=calls, row_count=0xffffffff)
    yield "offset-lies", area(start, stack=calls, rows_offset=0, rows=((0, 1),), blocks=(9, 9))
    yield "blocks-lie", area(start, stack=calls, blocks=(0xffffffff, 5, 0))
    yield "used-lies", area(start, used=(1 << 64) - 1, stack=calls)
    for i in range(8):
        yield f"flipped-{i}", flipped(plain, 1 + i, rng)


def place_hash(task):
    """kymo_place_hash()."""
    return task + (task >> 14) * 10125 & 0xffffffff


class Table:
    """Changes of an empty place table, as fuzz_place_table.c reads them."""

    TASK, POINTS, ROW, STACK, UNITS, HEAD, AREA = range(7)
    NO_STACK = 0xffff
    OLDER, TRUNCATED, UNSURE = 1 << 48, 1 << 51, 1 << 54

    def __init__(self, how=0):
        self.raw = bytes([how])

    def change(self, what, which, raw):
        self.raw += struct.pack("<BH", what, which) + raw
        return self

    def stack(self, number, frames, unit=0, published=1 << 63):
        raw = b"".join(struct.pack("<Q", frame)[:6] for frame in frames)
        self.change(self.UNITS, unit, bytes([len(raw)]) + raw)
        return self.change(self.STACK, number, struct.pack(
            "<QQ", number + 1, unit | len(frames) << 16 | published))

    def points(self, number, stacks=(0,), flags=0):
        word = flags | 1 << 63
        for i, stack in enumerate(list(stacks) + [self.NO_STACK] * (3 - len(stacks))):
            word |= stack << 16 * i
        return self.change(self.POINTS, number, struct.pack("<Q", word))

    def place(self, task, points=1, polled=1 << 31, since=1 << 30, has=None):
        """In a row of its own, taken by itself or by another task."""
        raw = struct.pack("<3Q", has or task, (polled >> 12 << 24 | points) & (1 << 64) - 1,
                          (since >> 12 << 24 | 5) & (1 << 64) - 1)
        return self.change(self.ROW, place_hash(task) % 2048 * 8, raw)


def place_tables(rng):
    """Tables as they are written, and such whose words lie."""
    def two(how=0):
        table = Table(how).stack(0, [0x5500001000 + i for i in range(15)])
        table.stack(1, [0x5500002000, 0x5500003000], unit=2).points(1).points(2, (1, 0))
        return table.points(3, (1, 0, 1), Table.OLDER | Table.TRUNCATED | Table.UNSURE)

    whole = two(2).place(7).place(9, 2).place(11, 3)
    whole.change(Table.HEAD, 0, struct.pack("<5QII", 9, 1, 1, 3, 0, 0, 0))
    yield "whole", whole.raw
    yield "dead", b"\3" + whole.raw[1:]
    yield "empty", b"\0"
    yield "polled-for-the-first-time", two().place(7, polled=0, points=0).raw
    yield "spilled", two().place(7, has=1 << 63 | 7).raw
    yield "no-stack", Table().points(1, (Table.NO_STACK,)).place(7).raw
    yield "no-points", two().place(7, 9).place(9, 4096).place(11, 0xffffff).raw
    yield "stack-lies", Table().points(1, (5000, 2048, 65534)).place(7).raw
    yield "stack-unpublished", Table().stack(0, [1, 2, 3], published=0).points(1).place(7).raw
    behind = Table().stack(0, [1] * 40, unit=3519).points(1)
    yield "stack-behind-the-end", behind.place(7).raw
    deep = Table().points(1).place(7)
    yield "stack-too-deep", deep.change(
        Table.STACK, 0, struct.pack("<QQ", 1, 0xffff << 16 | 1 << 63)).raw
    yield "future", two().place(7, 3, polled=(1 << 52) - 1, since=(1 << 52) - 1).raw
    yield "many", b"".join([two().raw] + [Table().place(task, 1 + task % 3).raw[1:]
                                          for task in range(1, 60)])
    units = struct.pack("<6Q", 0, 0, 0, (1 << 64) - 1, 0, 0)
    yield "units-lie", two().place(7).change(Table.HEAD, 0, units).raw
    for name, words in (("area-on-header", (0x8000, 3 << 19, 1)), ("area-odd", (90113, 3 << 19, 1)),
                        ("area-small", (90112, 4096, 1)), ("area-none", (0, 0, 1)),
                        ("area-behind-the-end", ((1 << 64) - 64, 3 << 19, 1)),
                        ("area-not-ready", (90112, 3 << 19, 0)),
                        ("area-on-slots", (16384, 3 << 19, 1))):
        yield name, two().place(7).change(Table.AREA, 0, struct.pack("<3Q", *words)).raw
    for i in range(6):
        yield f"flipped-{i}", flipped(whole.raw, 1 + i, rng)


CPU, OFF_CPU, MEMORY, PLACE = range(4)  # classes of the sample area
PUT, SLOT, RAW, HEAD = (what << 2 for what in range(4))


def put(kind, stamp, frame_count=3, value=10101010, flags=1, more=0, other=1, weight=0, tid=501):
    which = {2: OFF_CPU, 6: OFF_CPU, 3: MEMORY, 4: MEMORY, 5: PLACE}.get(kind, CPU)
    return struct.pack("<BHBBI5QB", PUT | which, 0, kind, flags, tid, stamp, value, more, other,
                       weight, frame_count)


def slot(which, index, part=0, parts=1, kind=1, frames=0, number=0, raw=None):
    body = struct.pack("<4BI6QIHhB", part, parts, kind, 1, 501, 2 << 30, 5, 0, 1, 0, 0, number, 0,
                       -1, frames)
    body = (body if part == 0 else body[:8]) if raw is None else raw
    return struct.pack("<BHB", SLOT | which, index, len(body)) + body


def head(which, word, value):
    return struct.pack("<BHQ", HEAD | which, word, value)


def sample_areas(rng):
    """Areas as samplers write them, and such whose words lie."""
    now = 2_000_000_000
    every = b"".join(put(kind, now + kind * 1000, more=1 << 30) for kind in range(8))
    long = b"".join(put(1, now + i * 1000, frames) for i, frames in enumerate(
        (0, 1, 29, 30, 31, 69, 70, 200, 229, 255)))
    yield "empty", b"\0"
    yield "every-kind", b"\0" + every
    yield "dead", b"\5" + every
    yield "long", b"\4" + long
    yield "between-steps", b"\6" + every + long
    yield "overwritten", b"\0" + b"".join(put(1, now + i, 40) for i in range(80))
    yield "overwritten-between", b"\2" + b"".join(put(1, now + i, 40) for i in range(150))
    yield "no-order", b"\0" + b"".join(put(1, now - i * 7919, 2) for i in range(20))
    yield "stamps-lie", b"\0" + b"".join(put(1, stamp, 2, flags=flags) for flags in (0, 1)
                                         for stamp in (0, 1, now * 2, 1 << 63, (1 << 64) - 1))
    yield "values-lie", b"\0" + b"".join(put(kind, now, 1, (1 << 64) - 1, 7, (1 << 64) - 1,
                                             (1 << 64) - 1, (1 << 64) - 1) for kind in range(8))
    yield "parts-missing", b"\0" + slot(CPU, 0, parts=3, frames=100) + slot(CPU, 1, 1, 3)
    yield "parts-of-others", b"\0" + slot(CPU, 0, parts=2, frames=60) + slot(CPU, 1, 1, 5)
    yield "parts-lie", b"\0" + b"".join(slot(CPU, i, i % 3, 255 - i, 1, 255) for i in range(8))
    yield "frames-lie", b"\0" + slot(CPU, 0, frames=255) + slot(CPU, 1, parts=6, frames=3)
    yield "kinds-lie", b"\0" + b"".join(slot(which, i, kind=250 + i) for which in range(4)
                                        for i in range(4))
    yield "numbers-lie", b"\0" + b"".join(slot(CPU, i, number=number) for i, number in enumerate(
        (0, 5, 4, 1 << 23, 0xffffff, 0, 0xffffffff)))
    yield "hand-lies", b"\0" + every + head(CPU, 0, (1 << 64) - 1)
    yield "hand-back", b"\2" + every + every + head(CPU, 0, 0) + every
    yield "lost-lies", b"\2" + every + head(CPU, 8, (1 << 64) - 1) + head(CPU, 8, 3)
    yield "sources-lie", b"\0" + every + head(CPU, 9, (1 << 64) - 1) + head(CPU, 11, (1 << 64) - 1)
    yield "being-written", b"\2" + every + struct.pack("<BHB", RAW | CPU, 0, 8) + b"\3" + b"\0" * 7
    for i in range(6):
        yield f"flipped-{i}", flipped(b"\2" + every + long, 2 + i, rng)


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "corpus")
    for target, make in (("segment", segments), ("schema", schemas), ("unwind", unwinds),
                         ("unwind_build", unwind_builds), ("unwind_table", unwind_tables),
                         ("place_table", place_tables), ("sample_area", sample_areas)):
        folder = os.path.join(out, target)
        os.makedirs(folder, exist_ok=True)
        for name, raw in make(random.Random(7)):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(raw)


if __name__ == "__main__":
    main()
