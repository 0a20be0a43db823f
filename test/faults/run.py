#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Programs with known causes, recorded, and what kymo says of them: test_*.py of this folder.

    run.py [--build DIR] [-k TEXT] [NAME...]

Output is TAP.
"""
import faults

if __name__ == "__main__":
    faults.main()
