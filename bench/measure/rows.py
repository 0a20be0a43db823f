# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Rows: medians with their intervals, verdicts, the table and the JSON file."""
import json
import math
import statistics


def median_interval(values):
    """Median and a distribution-free 95 % interval of it (binomial order statistics)."""
    ordered = sorted(values)
    count = len(ordered)
    if not count:
        raise ValueError("no value was measured")
    reach = max(0, math.floor(count / 2 - 0.98 * math.sqrt(count)))
    return statistics.median(ordered), ordered[reach], ordered[count - 1 - reach]


def differences(own, base):
    """What the own run costs more than the untouched one of the same round."""
    return [left - right for left, right in zip(own, base, strict=True)]


def ratios(own, base):
    return [left / right for left, right in zip(own, base, strict=True)]


def significant(value, digits=5):
    return float(f"{value:.{digits}g}")


def make_row(name, value, unit, *, target=None, peer=None, better="lower", spread=None, rounds=1,
             **more):
    """A row of the results. value None: no result, and more["no_result"] says why."""
    return {"name": name, "value": None if value is None else significant(value), "unit": unit,
            "target": target, "better": better,
            "peer": None if peer is None else significant(peer),
            "spread": None if spread is None else [significant(end) for end in spread],
            "rounds": rounds, **more}


def row(name, values, unit, target=None, peer=None, better="lower", **more):
    """A row that is the median of one figure a round, or a single number.

    peer is the same figure of dial9 in the same run; where it is something else, the name says so.
    """
    if isinstance(values, (int, float)):
        values = [values]
    middle, low, high = median_interval(values)
    return make_row(name, middle, unit, target=target, peer=peer, better=better,
                    spread=(low, high) if len(values) > 1 else None, rounds=len(values), **more)


def verdict(entry):
    if entry["value"] is None:
        return "no result"
    if entry["target"] is None:
        return ""
    reached = (entry["value"] <= entry["target"] if entry["better"] == "lower"
               else entry["value"] >= entry["target"])
    return "reached" if reached else "MISSED"


def number(value):
    if value is None:
        return "-"
    digits = max(0, 3 - len(str(int(abs(value)))) + (1 if abs(value) < 10 else 0))
    return f"{value:,.{digits}f}"


def table(rows):
    """The rows as lines of text: first and third column to the left, numbers to the right."""
    def cells(entry):
        if entry["value"] is None:
            return (entry["name"], "no result", entry["unit"], "-", "-", "-", entry["no_result"])
        spread = entry["spread"]
        sign = "" if entry["target"] is None else "<= " if entry["better"] == "lower" else ">= "
        return (entry["name"], number(entry["value"]), entry["unit"],
                f"{number(spread[0])} .. {number(spread[1])}" if spread else "-",
                sign + number(entry["target"]), number(entry["peer"]), verdict(entry))

    lines = [("what", "value", "unit", "spread", "target", "dial9", "verdict")]
    lines += [cells(entry) for entry in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    text = []
    for line in lines:
        padded = [cell.ljust(width) if column in (0, 2, 6) else cell.rjust(width)
                  for column, (cell, width) in enumerate(zip(line, widths))]
        text.append("  ".join(padded).rstrip())
    text.insert(1, "-" * max(map(len, text)))
    return text


def write_json(path, machine, settings, rows):
    """Written whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    result = {"machine": machine, "settings": settings,
              "benchmarks": [{**entry, "verdict": verdict(entry) or None} for entry in rows]}
    part = path.with_suffix(".part")
    part.write_text(json.dumps(result, indent=1) + "\n")
    part.replace(path)
