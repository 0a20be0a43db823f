#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Fails when a committed golden trace is not what make_golden.py writes from today's events.def."""
import filecmp
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    committed = os.path.join(HERE, "traces")
    with tempfile.TemporaryDirectory() as fresh:
        subprocess.run([sys.executable, os.path.join(HERE, "make_golden.py"), fresh], check=True)
        names = sorted(set(os.listdir(fresh)) | set(os.listdir(committed)))
        stale = filecmp.cmpfiles(fresh, committed, names, shallow=False)
        for name in stale[1] + stale[2]:
            print(f"test/golden/traces/{name}: not what make_golden.py writes; run it, read it")
        return 1 if stale[1] or stale[2] else 0


if __name__ == "__main__":
    sys.exit(main())
