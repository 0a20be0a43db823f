#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes the golden traces: a second implementation of docs/format.md, no code shared with src.

NAME.trc holds the bytes, NAME.txt what a decoder must see, one line per frame. One pair per event
of events.def (values follow the rule in value(), which test_golden.c repeats for the encoder),
and all_frames, which has every kind of frame and every field type.
"""
import argparse
import os
import struct
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))
import gen_events  # noqa: E402

TAGS = {"I64": 1, "F64": 2, "BOOL": 3, "STRING": 4, "BYTES": 5, "POOLED_STACK": 6,
        "POOLED_STRING": 7, "STACK": 8, "VARINT": 9, "STRING_MAP": 10, "U8": 11, "U16": 12,
        "U32": 13, "LIST": 14, "MAP": 15}
U64_MAX = 2**64 - 1
WIDTH = {"U8": 8, "U16": 16, "U32": 32, "VARINT": 64}


def leb128(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def text(raw):
    out = ""
    for byte in raw:
        char = chr(byte)
        if char in '"\\':
            out += "\\" + char
        else:
            out += char if 0x20 <= byte <= 0x7E else f"\\x{byte:02x}"
    return f'"{out}"'


def frames_text(frames):
    return "[" + " ".join(f"0x{frame:x}" for frame in frames) + "]"


class Writer:
    """One trace: appends frames and the lines a decoder must print for them."""

    def __init__(self):
        self.bytes, self.lines = bytearray(), []

    def line(self, line, raw):
        self.bytes += raw
        self.lines.append(line)

    def header(self):
        self.schemas, self.strings, self.stacks, self.base = {}, {}, {}, 0
        self.string_ids, self.stack_ids, self.notes = {}, {}, {}
        self.line("header 1", b"TRC\0\1")

    def schema(self, type_id, name, fields, has_timestamp=True, known=None):
        """fields: (name, type, is_optional); known: names in events.def, None: unknown event."""
        raw = struct.pack("<BHH", 1, type_id, len(name)) + name.encode()
        raw += struct.pack("<BH", has_timestamp, len(fields))
        line = f"schema {type_id} {name} " + ("timestamp" if has_timestamp else "-")
        for field, kind, is_optional in fields:
            raw += struct.pack("<H", len(field)) + field.encode()
            raw += bytes([TAGS[kind] | (0x80 if is_optional else 0)])
            line += f" {field}:{kind.lower()}" + ("?" if is_optional else "")
            line += "" if known is None or field in known else "!"
        self.schemas[type_id] = (name, fields, has_timestamp)
        self.line(line + (" (unknown)" if known is None else ""), raw)

    def annotations(self, type_id, entries):
        raw = b"\6" + leb128(type_id) + struct.pack("<H", len(entries))
        for field, key, value in entries:
            raw += struct.pack("<HH", field, len(key)) + key.encode()
            raw += struct.pack("<I", len(value)) + value.encode()
            short = {"unit": "unit", "kind": "kind", "dial9.role": "role"}.get(key)
            if short:
                self.notes[type_id, field, short] = value
        if type_id not in self.schemas:
            self.line("annotations of an unknown type", raw)
            return
        line = f"annotations {type_id}"
        for field in range(len(self.schemas[type_id][1])):
            for key in ("unit", "kind", "role"):
                if (type_id, field, key) in self.notes:
                    line += f" {field}.{key}=" + text(self.notes[type_id, field, key].encode())
        self.line(line, raw)

    def string_frame(self, entries):
        raw, line = struct.pack("<BI", 3, len(entries)), "strings"
        for number, value in entries:
            raw += struct.pack("<II", number, len(value)) + value
            line += f" {number}={text(value)}"
            self.strings[number] = value
        self.line(line, raw)

    def stack_frame(self, entries):
        raw, line = struct.pack("<BI", 4, len(entries)), "stacks"
        for number, frames in entries:
            raw += struct.pack(f"<II{len(frames)}Q", number, len(frames), *frames)
            line += f" {number}={frames_text(frames)}"
            self.stacks[number] = frames
        self.line(line, raw)

    def string(self, value):
        if value not in self.string_ids:
            self.string_ids[value] = len(self.string_ids)
            self.string_frame([(self.string_ids[value], value)])
        return self.string_ids[value]

    def stack(self, frames):
        if frames not in self.stack_ids:
            self.stack_ids[frames] = len(self.stack_ids)
            self.stack_frame([(self.stack_ids[frames], frames)])
        return self.stack_ids[frames]

    def reset(self, timestamp):
        self.base = timestamp
        self.line(f"reset {timestamp}", struct.pack("<BQ", 5, timestamp))

    def value(self, kind, value):
        """Bytes and text of one present value; pooled ones are given by number."""
        if kind in ("U8", "U16", "U32", "BOOL"):
            form = {"U8": "B", "U16": "<H", "U32": "<I", "BOOL": "B"}[kind]
            return struct.pack(form, value), str(value)
        if kind == "VARINT":
            return leb128(value), str(value)
        if kind == "I64":
            return struct.pack("<q", value), str(value)
        if kind == "F64":
            raw = struct.pack("<d", value)
            return raw, "0x%016x" % struct.unpack("<Q", raw)
        if kind == "STRING":
            return struct.pack("<I", len(value)) + value, text(value)
        if kind == "BYTES":
            return struct.pack("<I", len(value)) + value, value.hex() + "h"
        if kind == "POOLED_STRING":
            known = text(self.strings[value]) if value in self.strings else "undefined"
            return struct.pack("<I", value), f"#{value}:{known}"
        if kind == "POOLED_STACK":
            known = frames_text(self.stacks[value]) if value in self.stacks else "undefined"
            return struct.pack("<I", value), f"#{value}:{known}"
        if kind == "STACK":
            return struct.pack(f"<I{len(value)}Q", len(value), *value), frames_text(value)
        return self.container(kind, value)

    def container(self, kind, value):
        raw, parts = struct.pack("<I", len(value)), []
        for element in value:
            pair = []
            for part in (element if kind == "MAP" else [element] if kind == "LIST" else ()):
                one, line = self.value(*part)
                raw += bytes([TAGS[part[0]]]) + one
                pair.append(f"{part[0].lower()}:{line}")
            for part in (element if kind == "STRING_MAP" else ()):
                raw += struct.pack("<I", len(part)) + part
                pair.append(text(part))
            parts.append("=".join(pair))
        return raw, ("[%s]" if kind == "LIST" else "{%s}") % " ".join(parts)

    def event(self, type_id, timestamp, values):
        """None stands for an absent optional value."""
        name, fields, has_timestamp = self.schemas[type_id]
        if has_timestamp and not 0 <= timestamp - self.base <= 0xFFFFFF:
            self.reset(timestamp)
        raw, line = struct.pack("<BH", 2, type_id), f"event {type_id} {name}"
        if has_timestamp:
            raw += struct.pack("<I", timestamp - self.base)[:3]
            self.base = timestamp
        line += f" {timestamp}" if has_timestamp else " -"
        for (field, kind, is_optional), value in zip(fields, values):
            if is_optional and value is None:
                raw += b"\0"
                line += f" {field}=none"
                continue
            one, shown = self.value(kind, value)
            raw += (b"\1" if is_optional else b"") + one
            line += f" {field}={shown}"
        self.line(line, raw)

    def save(self, path):
        with open(path + ".trc", "wb") as file:
            file.write(self.bytes)
        with open(path + ".txt", "w", encoding="ascii") as file:
            file.write("\n".join(self.lines + ["end"]) + "\n")


def value(field, event, index, step):
    """The rule: step 0 is as little as possible, 1 is typical, 2 is as much as possible."""
    number, kind = (event + 1) * 1000 + index, field.base
    if field.is_optional and step == 0:
        return None
    if kind in WIDTH:
        mask = 2 ** WIDTH[kind] - 1
        return (0, number * 65537 & mask, mask)[step]
    if kind == "BOOL":
        return (0, index & 1, 1)[step]
    if kind == "I64":
        return (0, -number, -(2**63))[step]
    if kind == "F64":
        return (0.0, number + 0.5, float("-inf"))[step]
    if kind in ("STRING", "POOLED_STRING"):
        return (b"", b"text-%d-%d" % (event, index), "\u00e9\u20ac\U0001f600\"\\".encode())[step]
    if kind == "BYTES":
        return (b"", bytes([event, index, 0, 255]), bytes(range(256)))[step]
    if kind in ("STACK", "POOLED_STACK"):
        return ((), (number, number << 32, U64_MAX), tuple(number + i for i in range(64)))[step]
    if kind == "STRING_MAP":
        return ([], [(b"key", b"text-%d-%d" % (event, index))],
                [(b"", b""), (b"a", b"1"), (b"a", "\u20ac".encode())])[step]
    sys.exit(f"no rule for a field of type {kind}")


def stream(writer, event, number, fields, type_id):
    """One stream with three events: pools right before their event, schema before the first one."""
    writer.header()
    start = (number + 1) * 10**9
    for step, time in enumerate((start, start + 0xFFFFFF, start + 5)):
        values = []
        for field in fields:
            one = value(field, number, event.fields.index(field), step)
            if field.base == "POOLED_STRING" and one is not None:
                one = writer.string(one)
            elif field.base == "POOLED_STACK" and one is not None:
                one = writer.stack(one)
            values.append(one)
        if step == 0:
            known = {field.name for field in event.fields}
            writer.schema(type_id, event.name, [(f.name, f.base, f.is_optional) for f in fields],
                          True, known)
            notes = [(i, key, note) for i, f in enumerate(fields)
                     for key, note in (("unit", f.unit), ("kind", f.kind)) if note]
            if notes:
                writer.annotations(type_id, notes)
        writer.event(type_id, time, values)


def event_trace(event, number):
    """What our encoder writes; then, if some fields are only read, a stream with them all."""
    writer = Writer()
    written = [field for field in event.fields if field.use == "W"]
    if written:
        stream(writer, event, number, written, number + 1)
    if len(written) < len(event.fields):
        stream(writer, event, number, event.fields, 300 + number)
    return writer


def nested(depth):
    inner = ("LIST", [])
    for _ in range(depth):
        inner = ("LIST", [inner])
    return inner[1]


def all_types(writer):
    kinds = [("i64", "I64", -5), ("f64", "F64", 0.1), ("bool", "BOOL", 1),
             ("string", "STRING", b"s"), ("bytes", "BYTES", b"\0\1"),
             ("pstack", "POOLED_STACK", 0), ("pstring", "POOLED_STRING", 7),
             ("stack", "STACK", (1, U64_MAX)), ("varint", "VARINT", 2**63), ("smap", "STRING_MAP",
             [(b"k", b"v"), (b"k", b"w")]), ("u8", "U8", 255), ("u16", "U16", 65535),
             ("u32", "U32", 2**32 - 1),
             ("list", "LIST", [("U8", 1), ("STRING", b"x"), ("LIST", [("MAP", [])]),
                               ("POOLED_STRING", 7), ("STRING_MAP", [(b"a", b"b")])]),
             ("map", "MAP", [(("VARINT", 300), ("F64", 1.5)),
                             (("STRING", b"deep"), ("LIST", nested(3))),
                             (("LIST", []), ("STACK", (16,)))])]
    writer.string_frame([(7, b"seven"), (2**32 - 1, b""), (7, b"the later one counts")])
    writer.stack_frame([(0, (0x1000, 0x2000)), (1, ())])
    writer.schema(256, "AllTypes", [(n, k, False) for n, k, _ in kinds])
    writer.schema(257, "AllOptional", [(n, k, True) for n, k, _ in kinds])
    writer.event(256, 5, [v for _, _, v in kinds])
    writer.event(257, 5, [v for _, _, v in kinds])
    writer.event(257, 5 + 0xFFFFFF, [None for _ in kinds])


def all_frames():
    writer = Writer()
    writer.header()
    all_types(writer)
    writer.schema(65535, "NoFields", [])
    writer.event(65535, U64_MAX, [])
    writer.event(65535, U64_MAX, [])
    writer.schema(0, "NoTimestamp", [("n", "VARINT", False)], False)
    writer.event(0, None, [1])
    writer.schema(0, "NoTimestamp", [("n", "VARINT", False)], False)
    writer.reset(77)
    writer.event(65535, 78, [])
    writer.string_frame([])
    writer.stack_frame([])
    writer.annotations(9, [(0, "unit", "ns")])
    writer.annotations(0, [(0, "unit", "us"), (0, "mine", "kept out"), (5, "unit", "nowhere")])
    writer.annotations(0, [(0, "unit", "ns"), (0, "dial9.role", "tokio.task_id")])
    # A second stream: nothing of the first one is left.
    writer.header()
    writer.schema(0, "Other", [("ref", "POOLED_STRING", False), ("st", "POOLED_STACK", False)])
    writer.event(0, 3, [7, 1])
    writer.string_frame([(7, b"now")])
    writer.event(0, 4, [7, 1])
    # Known events in another shape: other integer types, a field of a wrong type, one too many.
    writer.schema(5, "PollStartEvent", [("task_id", "U32", False), ("worker_id", "U8", True),
                                        ("local_queue", "STRING", False), ("extra", "LIST", False)],
                  True, {"task_id", "worker_id"})
    writer.event(5, 5, [9, 1, b"?", nested(32)])
    writer.header()
    writer.header()
    return writer


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out_dir", help="where the pairs are written; made if it is not there")
    out_dir = parser.parse_args().out_dir
    events = gen_events.parse(os.path.join(ROOT, "src/wire/events.def"))
    os.makedirs(out_dir, exist_ok=True)
    for number, event in enumerate(events):
        event_trace(event, number).save(os.path.join(out_dir, event.name))
    all_frames().save(os.path.join(out_dir, "all_frames"))


if __name__ == "__main__":
    main()
