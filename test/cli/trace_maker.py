# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Small traces with maps and stacks: what tests of names need, written without any code of src."""
import struct

TAGS = {"BOOL": 3, "F64": 2, "I64": 1,
        "BYTES": 5, "STRING": 4, "STACK": 8, "VARINT": 9, "STRING_MAP": 10, "U8": 11,
        "U32": 13}


def leb128(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class Trace:
    def __init__(self):
        self.bytes = bytearray(b"TRC\0\1")
        self.ids = {}

    def text(self, value):
        return struct.pack("<I", len(value)) + value

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
        number = self.schema(name, [field[:2] for field in fields])
        raw = struct.pack("<BQ", 5, time) + struct.pack("<BH", 2, number) + b"\0\0\0"
        for _, kind, value in fields:
            if kind.endswith("?"):
                raw += b"\0" if value is None else b"\1"
                if value is None:
                    continue
            kind = kind.rstrip("?")
            if kind == "VARINT":
                raw += leb128(value)
            elif kind in ("BOOL", "U8"):
                raw += bytes([value])
            elif kind == "F64":
                raw += struct.pack("<d", value)
            elif kind == "I64":
                raw += struct.pack("<q", value)
            elif kind == "U32":
                raw += struct.pack("<I", value)
            elif kind in ("STRING", "BYTES"):
                raw += self.text(value)
            elif kind == "STACK":
                raw += struct.pack(f"<I{len(value)}Q", len(value), *value)
            else:
                raw += struct.pack("<I", len(value))
                raw += b"".join(self.text(part) for pair in value for part in pair)
        self.bytes += raw
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
