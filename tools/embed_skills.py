#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes the skills that come with kymo as a C source.

usage: embed_skills.py OUT_C SKILL.md...
"""
import pathlib
import sys

from embed_profiles import literal


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    entries = []
    for path in map(pathlib.Path, sys.argv[2:]):
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        if lines[0] != "---" or lines[1] != f"name: kymo-{path.stem}" or \
                not lines[2].startswith("description: ") or lines[3] != "---":
            sys.exit(f"{path}: begins with ---, name: kymo-{path.stem}, description: TEXT, ---")
        what = literal(lines[2].removeprefix("description: ")).strip().removesuffix('\\n"') + '"'
        entries.append(f'\t{{"{path.stem}", {what},\n{literal(text)}}},\n')
    pathlib.Path(sys.argv[1]).write_text(
        "/* Made by tools/embed_skills.py from share/kymo/skills. */\n"
        "#include <cli/skills.h>\n\nconst struct ky_skill ky_skills[] = {\n" + "".join(entries) +
        "};\nconst size_t ky_skill_count = sizeof(ky_skills) / sizeof(ky_skills[0]);\n",
        encoding="utf-8")


if __name__ == "__main__":
    main()
