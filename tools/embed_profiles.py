#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes the profiles that come with kymo as a C source.

usage: embed_profiles.py OUT_C PROFILE.toml...
"""
import os
import sys


def literal(text):
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return "\n".join(f'\t "{line}\\n"' for line in escaped)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    entries = []
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as file:
            name = os.path.splitext(os.path.basename(path))[0]
            entries.append(f'\t{{"{name}",\n{literal(file.read())}}},\n')
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write("/* Made by tools/embed_profiles.py from share/kymo/profiles. */\n"
                  "#include <cli/profile.h>\n\n"
                  "const struct ky_builtin_profile ky_builtin_profiles[] = {\n"
                  + "".join(entries) + "};\n"
                  "const size_t ky_builtin_profile_count =\n"
                  "\tsizeof(ky_builtin_profiles) / sizeof(ky_builtin_profiles[0]);\n")


if __name__ == "__main__":
    main()
