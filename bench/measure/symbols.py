# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Naming 10,000 addresses of a large Rust program, beside the crate blazesym alone."""
import json
import random
import subprocess

from .programs import Broken, run
from .rows import ratios, row

ADDRESSES = 10_000
ROUNDS_MAX = 9


def pick(program, count):
    """Addresses inside functions, every function as likely, the same in every run."""
    listed = subprocess.run(["nm", "--defined-only", "-S", program], text=True, check=True,
                            capture_output=True).stdout
    functions = []
    for line in listed.splitlines():
        parts = line.split(maxsplit=3)
        if len(parts) == 4 and parts[2] in "tTwW":
            functions.append((int(parts[0], 16), max(1, int(parts[1], 16))))
    chosen, generator = {}, random.Random(1)
    while len(chosen) < count:
        start, size = generator.choice(functions)
        chosen[start + generator.randrange(size)] = True
    return list(chosen)


def rows(context):
    big = context.crate("symbols/big") / "big"
    peer = context.crate("symbols/peer") / "symbols-peer"
    program, script = context.program("symbols"), 'exec "$0" "$1" < "$2"'
    listed = context.scratch / "addresses"
    listed.write_text("".join(f"{address:x}\n" for address in pick(big, ADDRESSES)))
    cpu, peak, answers = {"kymo": [], "blazesym": []}, {"kymo": [], "blazesym": []}, {}
    for index in range(min(context.rounds, ROUNDS_MAX)):
        context.progress(f"naming, round {index + 1}")
        for name in ("kymo", "blazesym") if index % 2 else ("blazesym", "kymo"):
            one = program if name == "kymo" else peer
            output, seconds, peak_bytes = run(["sh", "-c", script, one, big, listed])
            answers[name] = json.loads(output)
            if answers[name]["named"] < ADDRESSES * 0.99:
                raise Broken(f"{name} named {answers[name]['named']} of {ADDRESSES}")
            cpu[name].append(seconds)
            peak[name].append(peak_bytes / 1e6)
    if answers["kymo"]["rows"] != answers["blazesym"]["rows"]:
        raise Broken(f"they do not say the same: {answers}")
    size = big.stat().st_size / 1e6
    middle = {name: row("", cpu[name], "")["value"] for name in cpu}
    return [
        row(f"name 10,000 addresses of a {size:.0f} MB program with inlines (peer: blazesym)",
            cpu["kymo"], "s CPU", 1.0, middle["blazesym"],
            rows_told=answers["kymo"]["rows"], program_mb=round(size, 1)),
        row("the same: peak memory", peak["kymo"], "MB", 300,
            row("", peak["blazesym"], "")["value"]),
        row("the same: times the crate blazesym", ratios(cpu["kymo"], cpu["blazesym"]), "x", 1.1),
    ]
