"""`CommandParser`: argparse with hints for words that it does not know. Imports nothing slow."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

from servers import NAME, version

#: Usages of more lines are not shown with an error: that of `serve` would hide it.
_LONGEST_USAGE = 8
#: A misspelling's least similarity, by `difflib`, and the most letters that it has more or fewer.
_SIMILAR = 0.8
_LETTERS = 2


class CommandParser(argparse.ArgumentParser):
    """argparse with a did-you-mean for commands and options."""

    #: The parsers of the commands by name; empty for a command.
    commands: Mapping[str, CommandParser] = MappingProxyType({})

    #: Adds the arguments that need slow imports; called once, if the command is used.
    add_later: Callable[[CommandParser], None] | None = None

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse; a command reports words that it does not know itself, with its own usage."""
        self._complete()
        if self.commands and args and args[0].startswith("-") and args[0] != "--":
            name = args[0].partition("=")[0]
            if name not in self._option_string_actions:
                self.error(f"unrecognized arguments: {args[0]}")
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print as argparse does, but let the caller know of an error of the file."""
        if message:
            (file or sys.stderr).write(message)

    def format_usage(self) -> str:
        """Return the usage, without the options if it would be longer than the help is read."""
        usage = super().format_usage()
        if usage.count("\n") > _LONGEST_USAGE:
            return f"usage: {self.prog} [OPTION ...] [{self.subject}]\n"
        return usage

    def format_help(self) -> str:
        whole, short = super().format_usage(), self.format_usage()
        return super().format_help().replace(whole, short, 1)

    def error(self, message: str) -> NoReturn:
        self.refuse(message, self._hint(message))

    def refuse(self, message: str, hint: str) -> NoReturn:
        """Print usage, error and hint, and exit as wrong usage does; "" hints at the help."""
        sys.stderr.write(self.format_usage())
        hint = hint or f"see `{self.prog} --help`"
        self.exit(2, f"error: {message}\nhint: {hint}\n")

    #: The positional argument in a short usage.
    subject = ""

    #: Flags of other programs, by what says the same here.
    elsewhere: Mapping[str, str] = MappingProxyType({})

    def _hint(self, message: str) -> str:
        """Return a hint for an unknown word: another command, or a near word that is valid here."""
        unknown = re.search(
            r"argument COMMAND: invalid choice: '([^']+)'|unrecognized arguments: (\S+)", message
        )
        if unknown is None:
            return ""
        word = (unknown[1] or unknown[2]).partition("=")[0]
        if word in self.elsewhere:
            return f"here it is {self.elsewhere[word]}"
        owners = [name for name, each in self.commands.items() if word in each.flags()]
        if owners:
            taken = " and ".join(f"`graphrt {name}`" for name in owners)
            return f"`{word}` is an option of {taken}: write it after the command"
        likely = near(word, [*self.flags(), *self.commands])
        return f"did you mean `{likely}`?" if likely else ""

    def _complete(self) -> None:
        add, self.add_later = self.add_later, None
        if add is not None:
            add(self)

    def flags(self) -> list[str]:
        """Return all flags that the command takes."""
        self._complete()
        return [
            flag
            for flag, action in self._option_string_actions.items()
            if action.help is not argparse.SUPPRESS
        ]

    def option_words(self) -> list[str]:
        """Every spelling of every option, hidden ones too."""
        self._complete()
        return list(self._option_string_actions)


def near(word: str, known: Sequence[str]) -> str | None:
    """Return the known word of which a word is a misspelling, or None.

    A misspelling has about the same length, and its first letter is right. Other words that share
    letters, such as a flag and a longer one, mean something else.
    """
    import difflib

    likely = [
        each
        for each in known
        if abs(len(each) - len(word)) <= _LETTERS and each.strip("-")[:1] == word.strip("-")[:1]
    ]
    return next(iter(difflib.get_close_matches(word, likely, n=1, cutoff=_SIMILAR)), None)


class VersionAction(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        print(NAME, version())
        parser.exit()


def add_command(
    commands: argparse._SubParsersAction[CommandParser], name: str, summary: str, details: str
) -> CommandParser:
    """Add a command, whose module has its name. ``details`` follow the summary in its help."""
    command = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.\n\n{details}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    # Hidden: people type it here too.
    command.add_argument("--version", action=VersionAction, nargs=0, help=argparse.SUPPRESS)
    command.set_defaults(module=f"servers.cli.{name.replace('-', '_')}")
    return command
