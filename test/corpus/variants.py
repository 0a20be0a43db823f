# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The same trace, told otherwise: what kymo says of it must not change but for names and numbers.
Works on an unpacked trace, byte for byte as long as it was; written from docs/format.md."""
import functools
import random
import re
import string
import struct

import corpus

WIDTHS = {1: 8, 2: 8, 3: 1, 6: 4, 7: 4, 11: 1, 12: 2, 13: 4}  # of the field types of fixed width
STRING, BYTES, STACK, VARINT, STRING_MAP, U32, LIST, MAP = 4, 5, 8, 9, 10, 13, 14, 15
# Words that are part of a fault's evidence, or names of Rust's and Tokio's that stand for others.
EVIDENCE = {"main", "drop", "block_on", "spawn", "wake", "read", "begin", "end", "plain", "corpus"}


def number(raw, at, form):
    return struct.unpack_from(form, raw, at)[0]


class Walk:
    """Calls seen(name of the event, name of the field, type, offset, end) for each value."""

    def __init__(self, raw, seen):
        self.raw, self.seen, self.schemas = raw, seen, {}
        at = 0
        while at < len(raw):
            tag = raw[at]
            at = self.frames[tag](self, at + 1)

    def header(self, at):
        self.schemas = {}
        return at + 4

    def schema(self, at):
        kind, length = struct.unpack_from("<HH", self.raw, at)
        name = self.raw[at + 4:at + 4 + length].decode()
        at += 4 + length
        has_time, count = struct.unpack_from("<BH", self.raw, at)
        at, fields = at + 3, []
        for _ in range(count):
            length = number(self.raw, at, "<H")
            field = self.raw[at + 2:at + 2 + length].decode()
            fields.append((field, self.raw[at + 2 + length]))
            at += 3 + length
        self.schemas[kind] = (name, has_time, fields)
        return at

    def event(self, at):
        name, has_time, fields = self.schemas[number(self.raw, at, "<H")]
        at += 2 + (3 if has_time else 0)
        for field, tag in fields:
            if tag & 0x80:
                at += 1
                if self.raw[at - 1] == 0:
                    continue
            end = self.value(tag & 0x7F, at)
            self.seen(name, field, tag & 0x7F, at, end)
            at = end
        return at

    def value(self, tag, at):
        """Where it ends."""
        if tag in WIDTHS:
            return at + WIDTHS[tag]
        if tag == VARINT:
            while self.raw[at] & 0x80:
                at += 1
            return at + 1
        count, at = number(self.raw, at, "<I"), at + 4
        if tag in (STRING, BYTES):
            return at + count
        if tag == STACK:
            return at + 8 * count
        parts = {STRING_MAP: 2, LIST: 1, MAP: 2}[tag]
        for _ in range(count * parts):
            at = self.value(STRING, at) if tag == STRING_MAP else self.value(self.raw[at], at + 1)
        return at

    def strings(self, at):
        count, at = number(self.raw, at, "<I"), at + 4
        for _ in range(count):
            at = self.value(STRING, at + 4)
        return at

    def stacks(self, at):
        count, at = number(self.raw, at, "<I"), at + 4
        for _ in range(count):
            at = self.value(STACK, at + 4)
        return at

    def reset(self, at):
        return at + 8

    def annotations(self, at):
        at = self.value(VARINT, at)
        count, at = number(self.raw, at, "<H"), at + 2
        for _ in range(count):
            at += 2
            at += 2 + number(self.raw, at, "<H")
            at = self.value(STRING, at)
        return at

    frames = {ord("T"): header, 1: schema, 2: event, 3: strings, 4: stacks, 5: reset,
              6: annotations}


def own_names():
    """Names of programs, functions and threads of the corpus."""
    names = set(sum(corpus.programs(), []))
    for path in corpus.SOURCES.rglob("*.rs"):
        text = path.read_text()
        names.update(re.findall(r"\bfn (\w+)", text))
        names.update(" ".join(re.findall(r"async fn \[([\w ]+)\]", text)).split())
    return sorted((name for name in names if len(name) > 3 and name not in EVIDENCE),
                  key=lambda name: -len(name))


def renamed(raw, seed):
    """(trace, {name: its new name}): each name of the corpus becomes a random one as long."""
    draw, words = random.Random(seed), set()
    Walk(raw, lambda event, field, *_: words.update((event, field)))  # those of the format stay
    new = {name: "".join(draw.choice(string.ascii_lowercase) for _ in name)
           for name in own_names() if name not in words}
    pattern = re.compile(rb"\b(" + b"|".join(name.encode() for name in new) + rb")\b")
    return pattern.sub(lambda m: new[m[0].decode()].encode(), raw), new


def renumbered(raw, seed):
    """Each thread has the number of another one; the main thread keeps its own."""
    places, pids = [], set()

    def seen(_, field, tag, at, __):
        if field == "pid":
            pids.add(number(raw, at, "<I") if tag == U32 else 0)
        if tag == U32 and field.endswith("tid"):
            places.append(at)
        elif tag == VARINT and field.endswith("tid"):
            places.append(-at)

    Walk(raw, seen)
    tids = sorted({number(raw, at, "<I") for at in places if at > 0} - {0} - pids)
    mixed = list(tids)
    random.Random(seed).shuffle(mixed)
    new, out = dict(zip(tids, mixed)), bytearray(raw)
    for at in places:
        if at > 0:
            tid = number(raw, at, "<I")
            struct.pack_into("<I", out, at, new.get(tid, tid))
            continue
        at, tid, shift = -at, 0, 0
        while shift == 0 or raw[at + shift // 7 - 1] & 0x80:
            tid |= (raw[at + shift // 7] & 0x7F) << shift
            shift += 7
        for i in range(shift // 7):
            byte = new.get(tid, tid) >> (7 * i) & 0x7F
            out[at + i] = byte | (0x80 if i < shift // 7 - 1 else 0)
    return bytes(out), new


class Frames(Walk):
    """frames: (begin, end, name of the event or None, time, {field: number}); a reset is none."""

    def __init__(self, raw):
        self.frames_found, self.base, self.begin = [], 0, 0
        super().__init__(raw, self.note)

    def note(self, _, field, tag, at, end):
        if tag == VARINT:
            value = self.raw[at] & 0x7F
            for i in range(1, end - at):
                value |= (self.raw[at + i] & 0x7F) << (7 * i)
            self.fields[field] = value
        elif tag in (11, U32):
            self.fields[field] = int.from_bytes(self.raw[at:end], "little")

    def add(self, at, kind, handler):
        self.fields = {}
        end = handler(self, at)
        name, time = None, None
        if kind == 2:
            name, has_time, _ = self.schemas[number(self.raw, at, "<H")]
            if has_time:
                delta = int.from_bytes(self.raw[at + 2:at + 5], "little")
                self.base = time = self.base + delta
        elif kind == 5:
            self.base = number(self.raw, at, "<Q")
            return end
        elif kind == ord("T"):
            self.base = 0
        self.frames_found.append((at - 1, end, name, time, self.fields))
        return end

    frames = {kind: (lambda self, at, kind=kind, handler=handler: self.add(at, kind, handler))
              for kind, handler in Walk.frames.items()}


@functools.lru_cache(maxsize=1)
def frames_of(raw):
    """Of one trace at a time: it is asked for with several seeds."""
    return Frames(raw).frames_found


LOSS_TYPE = 0xFFF0
LOSS_SCHEMA = b"".join([
    struct.pack("<BHH", 1, LOSS_TYPE, 9), b"LossEvent", struct.pack("<BH", 1, 6),
    *(struct.pack("<H", len(name)) + name + bytes([tag]) for name, tag in (
        (b"tid", U32), (b"record_count", VARINT), (b"exact", 3), (b"from_ns", VARINT),
        (b"to_ns", VARINT), (b"cause", STRING)))])
OF_WORKERS = {"PollStartEvent", "PollEndEvent", "WorkerParkEvent", "WorkerUnparkEvent",
              "WakeEventEvent", "DriverTurnEvent"}


def leb128(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def dropped(raw, seed, share=0.1, length=400):
    """(trace, events that were left out): of each worker that share of its stretches of `length`
    events is missing, and a LossEvent stands there, as where a ring was overwritten."""
    draw, found = random.Random(seed), frames_of(raw)
    tids, rows = {}, {}
    for index, (_, _, name, _, fields) in enumerate(found):
        worker = fields.get("worker_id", fields.get("target_worker"))
        if name == "WorkerEvent":
            tids[worker] = fields["tid"]
        elif name in OF_WORKERS and worker not in (None, 254, 255):
            rows.setdefault(worker, []).append(index)
    gone, losses = set(), {}
    for worker, indexes in sorted(rows.items()):
        for at in range(length, len(indexes), length):
            part = indexes[at:at + length]
            if worker not in tids or draw.random() >= share:
                continue
            gone.update(part)
            times = [found[index][3] for index in part]
            losses[part[-1]] = (tids[worker], len(part), min(times), max(times))
    out, base = bytearray(), 0

    def put(time, frame):
        nonlocal base
        if not 0 <= time - base < 1 << 24:
            out.extend(struct.pack("<BQ", 5, time))
            base = time
        out.extend(frame[:3] + (time - base).to_bytes(3, "little") + frame[6:])
        base = time

    for index, (begin, end, name, time, _) in enumerate(found):
        if index in losses:
            tid, count, from_ns, to_ns = losses[index]
            put(time, struct.pack("<BH", 2, LOSS_TYPE) + b"\0\0\0" + struct.pack("<I", tid)
                + leb128(count) + b"\1" + leb128(from_ns) + leb128(to_ns)
                + struct.pack("<I", 11) + b"overwritten")
        if index in gone:
            continue
        if time is None:
            out.extend(raw[begin:end])
            if raw[begin] == ord("T"):
                out.extend(LOSS_SCHEMA)
                base = 0
        else:
            put(time, raw[begin:end])
    return bytes(out), len(gone)
