#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes the event table of docs/format.md from src/wire/events.def.

usage: gen_events.py [--check] [DEF [FORMAT_MD]]

--check changes nothing and exits 1 when the committed table is out of date.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BEGIN = "<!-- events:begin (made by tools/gen_events.py from src/wire/events.def) -->"
END = "<!-- events:end -->"

STRING = r'"((?:[^"\\]|\\.)*)"'
EVENT = re.compile(r"^KY_EVENT\((\w+), " + STRING + r", (\w+), " + STRING + r"\)$")
FIELD = re.compile(
    r"^KY_FIELD\((\w+), (\w+), " + STRING + r", (\w+), ([RW]), " + ", ".join([STRING] * 3) + r"\)$"
)
EVENT_END = re.compile(r"^KY_EVENT_END\((\w+)\)$")

TYPE_NAMES = {
    "I64": "I64", "F64": "F64", "BOOL": "Bool", "STRING": "String", "BYTES": "Bytes",
    "POOLED_STACK": "PooledStack", "POOLED_STRING": "PooledString", "STACK": "Stack",
    "VARINT": "Varint", "STRING_MAP": "StringMap", "U8": "U8", "U16": "U16", "U32": "U32",
    "LIST": "List", "MAP": "Map",
}


class Field:
    def __init__(self, member, name, kind, use, unit, chart, doc):
        self.member, self.name, self.type, self.use = member, name, kind, use
        self.unit, self.kind, self.doc = unit, chart, doc
        self.is_optional = kind.startswith("OPT_")
        self.base = kind[4:] if self.is_optional else kind


class Event:
    def __init__(self, ident, name, origin, doc):
        self.id, self.name, self.origin, self.doc, self.fields = ident, name, origin, doc, []


def parse(path):
    """Events in the order of the file. A line that is none of ours is an error, not a skip."""
    events, current = [], None
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), file.read(), flags=re.S)
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        event, field, end = EVENT.match(line), FIELD.match(line), EVENT_END.match(line)
        if event and current is None:
            current = Event(*event.groups())
        elif field and current is not None and field.group(1) == current.id:
            current.fields.append(Field(*field.groups()[1:]))
        elif end and current is not None and end.group(1) == current.id:
            events.append(current)
            current = None
        else:
            sys.exit(f"{path}:{number}: not a line of the event list: {line.strip()[:60]}")
    return events


def field_row(field):
    notes = [n for n in (field.unit and "unit " + field.unit, field.kind) if n]
    if field.use == "R":
        notes.append("read only")
    name = TYPE_NAMES[field.base] + ("?" if field.is_optional else "")
    text = field.doc.replace("|", "\\|")
    return f"| `{field.name}` | {name} | {', '.join(notes)} | {text} |"


def table(events):
    lines = [BEGIN, ""]
    for title, origin in (("Events of dial9", "DIAL9"), ("Events of kymo", "KYMO")):
        lines += [f"### {title}", ""]
        for event in (e for e in events if e.origin == origin):
            lines += [f"#### {event.name}", "", event.doc, "",
                      "| field | type | annotations | meaning |", "|---|---|---|---|"]
            lines += [field_row(field) for field in event.fields] + [""]
    return "\n".join(lines + [END])


def main():
    args = [a for a in sys.argv[1:] if a != "--check"]
    source = args[0] if args else os.path.join(ROOT, "src/wire/events.def")
    target = args[1] if len(args) > 1 else os.path.join(ROOT, "docs/format.md")
    with open(target, encoding="utf-8") as file:
        old = file.read()
    if BEGIN not in old or END not in old:
        sys.exit(f"{target}: the markers around the event table are missing")
    head, tail = old.split(BEGIN)[0], old.split(END)[1]
    new = head + table(parse(source)) + tail
    if new == old:
        return 0
    if "--check" in sys.argv:
        print(f"{target}: the event table is out of date; run tools/gen_events.py")
        return 1
    with open(target, "w", encoding="utf-8") as file:
        file.write(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
