# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The USDT notes of a file, as `readelf -n` prints them: what bpftrace, perf and gdb go by."""
import re
import subprocess
import typing


class Probe(typing.NamedTuple):
    provider: str
    name: str
    location: int  # as linked, like the two below
    base: int
    semaphore: int
    arguments: typing.List[str]


NOTE = re.compile(
    r"Provider: (\S+)\s+Name: (\S+)\s+Location: (\w+), Base: (\w+), Semaphore: (\w+)\s+"
    r"Arguments:([^\n]*)")


def probes(path):
    text = subprocess.run(["readelf", "--wide", "-n", path], capture_output=True, text=True,
                          check=True).stdout
    return [Probe(found[0], found[1], int(found[2], 16), int(found[3], 16), int(found[4], 16),
                  found[5].split()) for found in NOTE.findall(text)]


class Segment(typing.NamedTuple):
    offset: int
    address: int
    file_bytes: int
    flags: str

    def holds(self, address, size):
        return self.address <= address and address + size <= self.address + self.file_bytes


def segments(path):
    """What is loaded of the file."""
    text = subprocess.run(["readelf", "--wide", "-l", path], capture_output=True, text=True,
                          check=True).stdout
    rows = re.findall(r"^\s+LOAD\s+(\w+) (\w+) \w+ (\w+) \w+ ([RWE ]{3})", text, re.MULTILINE)
    return [Segment(int(row[0], 16), int(row[1], 16), int(row[2], 16), row[3]) for row in rows]
