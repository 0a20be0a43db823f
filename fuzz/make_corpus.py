#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes the seed inputs of fuzz_segment and fuzz_schema from the golden and the peer's traces.

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


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "corpus")
    for target, make in (("segment", segments), ("schema", schemas)):
        folder = os.path.join(out, target)
        os.makedirs(folder, exist_ok=True)
        for name, raw in make(random.Random(7)):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(raw)


if __name__ == "__main__":
    main()
