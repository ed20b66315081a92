"""`graphrt completion`: scripts that complete graphrt's commands and flags in a shell."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Final

from servers.cli.arguments import make_parser
from servers.cli.parser import CommandParser

_BASH: Final = """\
# graphrt completion bash > ~/.local/share/bash-completion/completions/graphrt
_graphrt() {
    local word="${COMP_WORDS[COMP_CWORD]}" flags=""
    case "${COMP_WORDS[1]}" in
%(cases)s
    esac
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "%(commands)s" -- "$word"))
    elif [[ "$word" == -* ]]; then
        COMPREPLY=($(compgen -W "$flags" -- "$word"))
    else
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}
complete -o filenames -F _graphrt graphrt
"""

_ZSH: Final = """\
#compdef graphrt
# graphrt completion zsh > "${fpath[1]}/_graphrt"
_graphrt() {
    local -a commands flags
    commands=(
%(described)s
    )
    case "$words[2]" in
%(cases)s
    esac
    if (( CURRENT == 2 )); then
        _describe command commands
    elif [[ "$PREFIX" == -* ]]; then
        compadd -- $flags
    else
        _files
    fi
}
compdef _graphrt graphrt
"""

_FISH_HEAD: Final = "# graphrt completion fish > ~/.config/fish/completions/graphrt.fish\n"


def execute(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    parser = make_parser()
    assert isinstance(parser, CommandParser)
    flags = {name: _flags(command) for name, command in parser.commands.items()}
    summaries = {name: _summary(command) for name, command in parser.commands.items()}
    write = {"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell]
    print(write(flags, summaries), end="")
    return 0


def _flags(command: CommandParser) -> list[str]:
    return sorted(flag for flag in command.flags() if flag.startswith("--"))


def _summary(command: CommandParser) -> str:
    return (command.description or "").partition(".\n")[0]


def _bash(flags: Mapping[str, list[str]], summaries: Mapping[str, str]) -> str:
    cases = "\n".join(
        f'        {name}) flags="{" ".join(each)}" ;;' for name, each in flags.items()
    )
    return _BASH % {"cases": cases, "commands": " ".join(flags)}


def _zsh(flags: Mapping[str, list[str]], summaries: Mapping[str, str]) -> str:
    cases = "\n".join(
        f"        {name}) flags=({' '.join(each)}) ;;" for name, each in flags.items()
    )
    described = "\n".join(
        f"        {_quoted(f'{name}:{text}')}" for name, text in summaries.items()
    )
    return _ZSH % {"cases": cases, "described": described}


def _fish(flags: Mapping[str, list[str]], summaries: Mapping[str, str]) -> str:
    lines = [
        f"complete -c graphrt -n __fish_use_subcommand -f -a {name} -d {_quoted(text)}"
        for name, text in summaries.items()
    ]
    lines += [
        f"complete -c graphrt -n '__fish_seen_subcommand_from {name}' -l {flag.removeprefix('--')}"
        for name, each in flags.items()
        for flag in each
    ]
    return _FISH_HEAD + "".join(f"{line}\n" for line in lines)


def _quoted(text: str) -> str:
    """A word of a shell."""
    return "'" + text.replace("'", "'\\''") + "'"
