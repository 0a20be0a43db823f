# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Small traces with maps and stacks: what tests of names need, written without any code of src."""
import struct

TAGS = {"BOOL": 3, "F64": 2, "I64": 1,
        "BYTES": 5, "STRING": 4, "STACK": 8, "VARINT": 9, "STRING_MAP": 10, "U8": 11,
        "U16": 12, "U32": 13}


SMALL = [bytes([number]) for number in range(0x80)]
EVENT = struct.Struct("<BQBH3x") # time, type, no stack


def leb128(number):
    if number < 0x80:
        return SMALL[number]
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def sized(value):
    return struct.pack("<I", len(value)) + value


def stack(frames):
    return struct.pack(f"<I{len(frames)}Q", len(frames), *frames)


def string_map(pairs):
    return struct.pack("<I", len(pairs)) + b"".join(sized(part) for pair in pairs for part in pair)


def optional(encode):
    return lambda value: b"\0" if value is None else b"\1" + encode(value)


ENCODERS = {
    "VARINT": leb128, "BOOL": struct.Struct("<B").pack, "U8": struct.Struct("<B").pack,
    "F64": struct.Struct("<d").pack, "I64": struct.Struct("<q").pack,
    "U16": struct.Struct("<H").pack, "U32": struct.Struct("<I").pack,
    "STRING": sized, "BYTES": sized, "STACK": stack,
    "STRING_MAP": string_map,
}
ENCODERS.update({kind + "?": optional(encode) for kind, encode in ENCODERS.items()})


class Trace:
    def __init__(self):
        self.bytes = bytearray(b"TRC\0\1")
        self.ids = {}

    def schema(self, name, fields):
        if name in self.ids:
            return self.ids[name]
        number = self.ids[name] = len(self.ids) + 1
        raw = struct.pack("<BHH", 1, number, len(name)) + name.encode()
        raw += struct.pack("<BH", 1, len(fields))
        for field, kind in fields:
            raw += struct.pack("<H", len(field)) + field.encode()
            raw += bytes([TAGS[kind.rstrip("?")] | (0x80 if kind.endswith("?") else 0)])
        self.bytes += raw
        return number

    def event(self, name, time, *fields):
        """fields: (name, kind, value)"""
        if name not in self.ids:
            self.schema(name, [field[:2] for field in fields])
        self.bytes += EVENT.pack(5, time, 2, self.ids[name])
        for _, kind, value in fields:
            self.bytes += ENCODERS[kind](value)
        return self

    def metadata(self, **pairs):
        entries = [(key.replace("__", ".").encode(), str(value).encode())
                   for key, value in pairs.items()]
        return self.event("SegmentMetadataEvent", 1, ("entries", "STRING_MAP", entries))

    def map(self, path, build_id, start, end, bias, from_ns=1, to_ns=None):
        return self.event("ProcessMapEvent", from_ns,
                          ("path", "STRING", str(path).encode()),
                          ("build_id", "BYTES", bytes.fromhex(build_id)),
                          ("start", "VARINT", start), ("end", "VARINT", end),
                          ("load_bias", "VARINT", bias), ("file_offset", "VARINT", 0),
                          ("from_ns", "VARINT", from_ns), ("to_ns", "VARINT?", to_ns))

    def stack(self, time, *frames):
        """An unknown type: stacks are named whatever the event."""
        return self.event("CustomStackEvent", time, ("frames", "STACK", frames))

    def crash(self, time, address, stack_at=0, frame=0, registers=(), stack=b""):
        return self.event("CrashEvent", time, ("signal", "U32", 11), ("pc", "VARINT", address),
                          ("sp", "VARINT", stack_at), ("fp", "VARINT", frame),
                          ("registers", "STACK", registers), ("stack", "BYTES", stack))

    def save(self, path):
        path.write_bytes(self.bytes)
        return path


class SampleTrace(Trace):
    def symbol(self, address, name, line):
        return self.event("SymbolTableEntry", 0, ("addr", "VARINT", address),
                          ("size", "VARINT", 16), ("symbol_name", "STRING", name.encode()),
                          ("inline_depth", "VARINT", 0),
                          ("source_file", "STRING", b"/src/app/main.rs" if line > 1 else b""),
                          ("source_line", "VARINT", line))

    def poll(self, start, end, task, name):
        self.event("PollStartEvent", start, ("worker_id", "VARINT", 0),
                   ("local_queue", "VARINT", 0), ("task_id", "VARINT", task),
                   ("spawn_loc", "STRING", name.encode()))
        return self.event("PollEndEvent", end, ("worker_id", "VARINT", 0))

    def cpu(self, time, weight, task, poll, *frames, is_cut=False):
        return self.event("CpuSampleEvent", time, ("worker_id", "VARINT", 0), ("tid", "U32", 11),
                          ("source", "VARINT", 0), ("callchain", "STACK", frames),
                          ("weight_ns", "VARINT", weight), ("task_id", "VARINT", task),
                          ("poll_start_ns", "VARINT", poll), ("truncated", "BOOL", int(is_cut)))

    def off_cpu(self, end, duration, task, poll, *frames, reason=1, syscall=35, runnable=None):
        """runnable: at least and at most."""
        least, most = runnable or (None, None)
        return self.event("OffCpuEvent", end, ("tid", "U32", 11), ("worker_id", "VARINT", 0),
                          ("task_id", "VARINT", task), ("duration_ns", "VARINT", duration),
                          ("reason", "VARINT", reason), ("syscall", "VARINT?", syscall),
                          ("callchain", "STACK", frames), ("poll_start_ns", "VARINT", poll),
                          ("runnable_min_ns", "VARINT?", least),
                          ("runnable_max_ns", "VARINT?", most))

    def place(self, time, task, *frames):
        return self.event("AwaitPlaceEvent", time, ("task_id", "VARINT", task),
                          ("callchain", "STACK", frames))

    def alloc(self, time, size, address, *frames):
        return self.event("AllocEvent", time, ("tid", "U32", 11), ("size", "VARINT", size),
                          ("addr", "VARINT", address), ("callchain", "STACK", frames),
                          ("task_id", "VARINT", 0))
