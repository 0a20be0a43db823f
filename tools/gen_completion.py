#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Makes share/completions/ (bash, zsh, fish) from the tables of docs/cli.md.

usage: gen_completion.py [--check]      --check: say which file is not current; exit 1
"""
import dataclasses
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
NOTE = "Made by tools/gen_completion.py from docs/cli.md; do not edit."
OPTION_HEAD = ["Option", "Argument", "Commands", "Meaning"]
COMMAND_HEAD = ["Command", "Arguments", "What it does"]


@dataclasses.dataclass
class Option:
    letter: str    # "-o", "" where there is none
    name: str      # "--output"
    argument: str  # "FILE", "[SIZE|off]" where it may be missing, "" where there is none
    commands: list
    meaning: str

    @property
    def is_optional(self):
        return self.argument.startswith("[") and self.argument.endswith("]")

    @property
    def choices(self):
        """Words of which the argument is one."""
        return [word for word in alternatives(self.argument) if re.fullmatch(r"[a-z][a-z-]*", word)]

    @property
    def is_repeated(self):
        return "may be repeated" in self.meaning


@dataclasses.dataclass
class Command:
    name: str
    arguments: str
    summary: str


def alternatives(argument):
    return re.sub(r"\[:[A-Z]+\]|^\[|\]$", "", argument).split("|") if argument else []


def tables(text):
    """Every table as (head, rows)."""
    head = None
    for line in text.splitlines():
        if not line.startswith("|"):
            head = None
            continue
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if head is None:
            head, rows = cells, []
            yield head, rows
        elif not re.fullmatch(r"-+", cells[0]):
            rows.append(cells)


def plain(cell):
    return cell.strip("`")


def read(path=ROOT / "docs/cli.md"):
    """(commands, options) of the page."""
    found = list(tables(path.read_text()))
    commands = [Command(row[0], plain(row[1]), row[2])
                for head, rows in found if head == COMMAND_HEAD for row in rows]
    names = [command.name for command in commands]
    options = []
    for head, rows in found:
        for cells in rows if head == OPTION_HEAD else []:
            *letter, name = [plain(word) for word in cells[0].split(", ")]
            options.append(Option(letter[0] if letter else "", name, plain(cells[1]),
                                  names if cells[2] == "all" else cells[2].split(), cells[3]))
    return commands, options


def presets():
    return sorted(path.stem for path in (ROOT / "share/kymo/profiles").glob("*.toml"))


def values(option):
    """What a shell offers: (words, is a file, is a directory)."""
    words = option.choices + (presets() if option.name == "--profile" else [])
    kinds = alternatives(option.argument)
    return words, "FILE" in kinds, "DIR" in kinds


def positional(command):
    """Kinds of what is no option: files, rings, pids, programs."""
    kinds = re.findall(r"[A-Z]+", command.arguments)
    for kind, names in (("run", ("CMD",)), ("rings", ("SERVICE",)), ("files", ("FILE",))):
        if set(names) & set(kinds):
            return kind
    if "PROGRAM" in kinds:
        return "programs"
    if "PID" in kinds:
        return "rings" if command.name == "detach" else "pids"
    return ""


# ---- bash

BASH = r"""# %(note)s
# bash completion for kymo(1).

_kymo_rings()
{
	kymo ps --interval 0 2>/dev/null | awk 'NR > 1 { print $1; print $2 }'
}

# What the argument of option $2 of command $1 is: words, and FILE or DIR. Fails where it has none.
_kymo_argument()
{
	case "$1 $2" in
%(arguments)s
	*) return 1 ;;
	esac
}

_kymo_options()
{
	case "$1" in
%(options)s
	esac
}

_kymo_values()
{
	local word
	for word in $1; do
		case "$word" in
		FILE) compopt -o filenames 2>/dev/null; compgen -f -- "$2" ;;
		DIR) compopt -o filenames 2>/dev/null; compgen -d -- "$2" ;;
		*) compgen -W "$word" -- "$2" ;;
		esac
	done
}

_kymo()
{
	local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
	local command=${COMP_WORDS[1]} i kind
	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W '%(commands)s help --help --version' -- "$cur")
		return
	fi
	if [ "$command" = help ]; then
		mapfile -t COMPREPLY < <(compgen -W '%(commands)s' -- "$cur")
		return
	fi
	# What follows CMD, or --, is no option of kymo.
	for ((i = 2; i < COMP_CWORD; i++)); do
		case "${COMP_WORDS[i]}" in
		--) break ;;
		=) i=$((i + 1)) ;;
		-*)
			if [ "${COMP_WORDS[i + 1]}" != = ] &&
				_kymo_argument "$command" "${COMP_WORDS[i]}" >/dev/null; then
				i=$((i + 1))
			fi
			;;
		*) [ "$command" = run ] && break ;;
		esac
	done
	if [ "$i" -lt "$COMP_CWORD" ]; then
		[ "$command" != run ] || [ "${COMP_WORDS[i]}" != -- ] || i=$((i + 1))
		if [ "$command" = run ] && declare -F _command_offset >/dev/null; then
			_command_offset "$i"
		elif [ "$command" = run ] && [ "$i" -eq "$COMP_CWORD" ]; then
			mapfile -t COMPREPLY < <(compgen -c -- "$cur")
		else
			compopt -o filenames 2>/dev/null
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		fi
		return
	fi
	if [ "$cur" = = ]; then
		cur=
	elif [ "$before" = = ]; then
		before=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	if kind=$(_kymo_argument "$command" "$before"); then
		mapfile -t COMPREPLY < <(_kymo_values "$kind" "$cur")
		return
	fi
	case "$cur" in
	-*)
		mapfile -t COMPREPLY < <(compgen -W "$(_kymo_options "$command")" -- "$cur")
		return
		;;
	esac
	case "$command" in
%(positional)s
	esac
}

complete -F _kymo kymo
"""

BASH_POSITIONAL = {
    "files": ["compopt -o filenames 2>/dev/null",
              'mapfile -t COMPREPLY < <(compgen -f -- "$cur")'],
    "rings": ['mapfile -t COMPREPLY < <(compgen -W "$(_kymo_rings)" -- "$cur")'],
    "pids": ["mapfile -t COMPREPLY < <(cd /proc && compgen -W \"$(printf '%s ' [0-9]*)\" "
             '-- "$cur")'],
    "programs": ["compopt -o filenames 2>/dev/null",
                 'mapfile -t COMPREPLY < <(compgen -c -- "$cur"; compgen -f -- "$cur")'],
    "run": ['mapfile -t COMPREPLY < <(compgen -c -- "$cur"; compgen -f -- "$cur")'],
}


def bash(commands, options):
    arguments, groups = [], {}
    for option in options:
        if not option.argument or option.is_optional:
            continue
        words, is_file, is_dir = values(option)
        kind = " ".join(words + ["FILE"] * is_file + ["DIR"] * is_dir)
        for name in filter(None, (option.letter, option.name)):
            for command in option.commands:
                groups.setdefault(kind, []).append(f"'{command} {name}'")
    for kind, patterns in groups.items():
        lines = [" | ".join(patterns[i:i + 3]) for i in range(0, len(patterns), 3)]
        arguments.append("\t" + " | \\\n\t\t".join(lines) + ")")
        arguments.append(f"\t\techo '{kind}' ;;")
    listed = []
    for command in commands:
        names = sorted(option.name for option in options if command.name in option.commands)
        listed += [f"\t{command.name})", f"\t\techo '{' '.join(names)}' ;;"]
    places = {}
    for command in commands:
        if positional(command):
            places.setdefault(positional(command), []).append(command.name)
    cases = []
    for kind, names in places.items():
        cases.append("\t" + " | ".join(names) + ")")
        cases += ["\t\t" + line for line in BASH_POSITIONAL[kind]] + ["\t\t;;"]
    return BASH % {"note": NOTE, "arguments": "\n".join(arguments), "options": "\n".join(listed),
                   "commands": " ".join(command.name for command in commands),
                   "positional": "\n".join(cases)}


# ---- zsh

ZSH = r"""#compdef kymo
# %(note)s
# zsh completion for kymo(1).

_kymo_rings() {
	local -a rings
	rings=(${(f)"$(kymo ps --interval 0 2>/dev/null | awk 'NR > 1 { print $1; print $2 }')"})
	compadd -a rings
}

_kymo_commands() {
	local -a commands
	commands=(
%(commands)s
	)
	_describe command commands
}

_kymo() {
	local curcontext=$curcontext state line
	_arguments -C '(- *)'{-h,--help}'[list the commands]' \
		'(- *)'{-V,--version}'[print the version]' \
		'1:command:_kymo_commands' '*::argument:->argument'
	[[ $state == argument ]] || return
	case $words[1] in
	help) _kymo_commands ;;
%(cases)s
	esac
}

_kymo "$@"
"""

ZSH_POSITIONAL = {
    "files": "'*:trace:_files'", "rings": "'1:process:_kymo_rings'", "pids": "'1:process:_pids'",
    "programs": "'1:process or program:_command_names -e'",
    "run": "'(-)1:command: _command_names -e' '*::arguments:_normal'",
}


def zsh_text(text):
    return text.replace("'", "").replace("[", "(").replace("]", ")").replace(":", r"\:")


def zsh_spec(option):
    words, is_file, is_dir = values(option)
    names = [option.letter, option.name] if option.letter else [option.name]
    if option.is_repeated:
        head = "'*'"
    elif option.letter:
        head = f"'({' '.join(names)})'"
    else:
        head = ""
    action = ""
    if option.argument:
        label = option.argument.strip("[]").replace("|", " or ").replace(":LEVEL", "")
        label = re.sub(r"[\[\]]", "", label).lower()
        if words and (is_file or is_dir):
            files = "_files" if is_file else "_files -/"
            action = f":{label}:{{compadd {' '.join(words)}; {files}}}"
        elif words:
            action = f":{label}:({' '.join(words)})"
        elif is_file or is_dir:
            action = f":{label}:{'_files' if is_file else '_files -/'}"
        else:
            action = f":{label}: "
        if option.is_optional:
            action = ":" + action
    suffix = {True: "=-", False: "="}[option.is_optional] if option.argument else ""
    long_one = option.name + suffix
    spec = f"[{zsh_text(option.meaning)}]{action}"
    if option.letter:
        return f"{head}{{{option.letter},{long_one}}}'{spec}'"
    return f"{head}'{long_one}{spec}'"


def zsh(commands, options):
    listed = [f"\t\t'{command.name}:{zsh_text(command.summary)}'" for command in commands]
    cases = []
    for command in commands:
        specs = [zsh_spec(option) for option in options if command.name in option.commands]
        if positional(command):
            specs.append(ZSH_POSITIONAL[positional(command)])
        cases.append(f"\t{command.name})")
        cases.append("\t\t_arguments -s -S " + " \\\n\t\t\t".join(specs))
        cases.append("\t\t;;")
    return ZSH % {"note": NOTE, "commands": "\n".join(listed), "cases": "\n".join(cases)}


# ---- fish

FISH = r"""# %(note)s
# fish completion for kymo(1).

function __kymo_rings
    kymo ps --interval 0 2>/dev/null | awk 'NR > 1 { print $1; print $2 }'
end

complete -c kymo -f
complete -c kymo -n __fish_use_subcommand -s h -l help -d 'List the commands'
complete -c kymo -n __fish_use_subcommand -s V -l version -d 'Print the version'
%(lines)s
"""

FISH_POSITIONAL = {
    "files": "-F", "rings": "-a '(__kymo_rings)'", "pids": "-a '(__fish_complete_pids)'",
    "programs": "-F -a '(__fish_complete_pids)'",
    "run": "-a '(__fish_complete_subcommand --fcs-skip=2)'",
}


def fish_text(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish(commands, options):
    lines = []
    for command in commands:
        lines.append(f"complete -c kymo -n __fish_use_subcommand -a {command.name} "
                     f"-d {fish_text(command.summary)}")
    for command in commands:
        if positional(command):
            lines.append(f"complete -c kymo -n '__fish_seen_subcommand_from {command.name}' "
                         f"{FISH_POSITIONAL[positional(command)]}")
    for option in options:
        words, is_file, is_dir = values(option)
        parts = [f"complete -c kymo -n '__fish_seen_subcommand_from {' '.join(option.commands)}'"]
        if option.letter:
            parts.append(f"-s {option.letter[1:]}")
        parts.append(f"-l {option.name[2:]}")
        if option.argument and not option.is_optional:
            parts.append("-rF" if is_file else "-x")
        if is_dir and not is_file:
            parts.append("-a '(__fish_complete_directories)'")
        if words:
            parts.append(f"-a '{' '.join(words)}'")
        lines.append(" ".join(parts) + f" -d {fish_text(option.meaning)}")
    return FISH % {"note": NOTE, "lines": "\n".join(lines)}


def outputs():
    commands, options = read()
    place = ROOT / "share/completions"
    return {place / "kymo": bash(commands, options), place / "_kymo": zsh(commands, options),
            place / "kymo.fish": fish(commands, options)}


def main(argv):
    stale = [path for path, text in outputs().items()
             if not path.exists() or path.read_text() != text]
    if argv == ["--check"]:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not what tools/gen_completion.py makes")
        return 1 if stale else 0
    if argv:
        print(__doc__, file=sys.stderr)
        return 2
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(outputs()[path])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
