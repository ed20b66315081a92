"""The arguments of `graphrt serve`, made from the declarations of its options.

The names are OpenVINO Model Server's, so that its start scripts work. Other commands that stand for
modes of OpenVINO Model Server take their arguments from here too.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from calculators.kit.settings.declaration import Option, by_group
from calculators.kit.settings.value_types import is_meant_as_truth_value
from servers.cli.messages import print_warning
from servers.cli.parser import CommandParser
from servers.options.model_options import OF_CLIENTS, tune_options
from servers.options.server_options import ELSEWHERE, REFUSED, WITHOUT_EFFECT, declared_options

#: The flag whose value is made of flags.
_WITH_DASHES: Final = "--extra_quantization_params"


def add_arguments(command: CommandParser) -> None:
    """Add the arguments. `servers.cli.serve` checks their combinations."""
    command.add_argument(
        "sources",
        metavar="MODEL",
        nargs="*",
        help="a config.json; or models: directories with a graph.pbtxt or a model, graphs, GGUF "
        "files, other models' files, or names of a hub's models, org/name[@revision][:file.gguf], "
        "which are downloaded",
    )
    add_options(command, declared_options())
    ignored = command.add_argument_group(
        "accepted, without effect",
        f"Existing start scripts may carry them: {', '.join(f'--{n}' for n in WITHOUT_EFFECT)}.",
    )
    for name, (is_number, _) in WITHOUT_EFFECT.items():
        ignored.add_argument(f"--{name}", type=int if is_number else str, help=argparse.SUPPRESS)
    add_refused(command)


def add_arguments_of_batch(command: CommandParser) -> None:
    """Add the arguments of `graphrt serve` that say what is served and how it runs.

    The others, about ports and clients, have their defaults.
    """
    command.add_argument(
        "sources", metavar="MODEL", nargs="*", help="a config.json, or models, as for serve"
    )
    options = declared_options()
    add_options(command, [each for each in options if each.group not in OF_CLIENTS])
    command.set_defaults(**{each.flag: None for each in options if each.group in OF_CLIENTS})
    add_refused(command)


def add_options(command: argparse.ArgumentParser, options: Iterable[Option]) -> None:
    """Add the flags of declared options under their headings. A flag that is not given is None."""
    for group, members in by_group(options).items():
        heading = command.add_argument_group(group.title, group.text or None)
        for each in members:
            heading.add_argument(
                *each.flags,
                dest=each.flag,
                metavar=each.metavar,
                type=each.reads,
                help=each.text.replace("%", "%%"),
            )


def add_refused(command: CommandParser) -> None:
    """Add the flags that are refused with a reason, and the names that they have elsewhere."""
    command.elsewhere = {f"--{name}": here for name, here in ELSEWHERE.items()}
    for name in REFUSED:
        command.add_argument(f"--{name}", nargs="?", action=_Refuse, help=argparse.SUPPRESS)


def add_flags_of_serve(
    command: CommandParser, conflicts: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Accept the remaining flags of `graphrt serve` without effect, as OpenVINO Model Server does.

    Call this after the command's own arguments.

    Args:
        conflicts: what is said of flags that are refused, by name without dashes.
    """
    for name, reason in conflicts.items():
        command.add_argument(
            f"--{name}", nargs="?", action=_Conflict, reason=reason, help=argparse.SUPPRESS
        )
    taken = set(command.option_words())
    names = [flag for each in declared_options() for flag in each.flags]
    for flag in (*names, *(f"--{name}" for name in WITHOUT_EFFECT)):
        if flag not in taken:
            command.add_argument(flag, action=_Ignore, dest="ignored", help=argparse.SUPPRESS)


class _Refuse(argparse.Action):
    """A flag that is refused, unless it asks for nothing (``--stateful false``)."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        if str(values).lower() in ("false", "0"):
            return
        reason, remedy = REFUSED[self.dest]
        parser.refuse(f"--{self.dest} is refused: {reason}", remedy)


class _Conflict(argparse.Action):
    """A flag that OpenVINO Model Server refuses beside the mode that is this command."""

    def __init__(self, *args: Any, reason: str, **more: Any) -> None:
        super().__init__(*args, **more)
        self._reason = reason

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        parser.refuse(self._reason, f"write the command without {option_string}")


class _Ignore(argparse.Action):
    """A flag of `graphrt serve` in another command."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        print_warning(
            f"{option_string} has no effect on `{parser.prog}`: it is an option of `graphrt serve`"
        )


def normalize_flags(words: Sequence[str]) -> list[str]:
    """Turn ``--rest-port`` into ``--rest_port``, and ``--switch`` or ``--switch true`` into
    ``--switch=true``. Values that begin with dashes are joined to their flag."""
    options = (*declared_options(), *tune_options())
    switches = {flag for each in options if each.is_switch for flag in each.flags}
    spelled: list[str] = []
    rest = iter(enumerate(words))
    for place, word in rest:
        if word == "--":
            return [*spelled, *words[place:]]
        name, equals, value = word.partition("=")
        if name.startswith("--") and " " not in name:
            name = "--" + name[2:].replace("-", "_")
            if name in switches and not equals:
                equals, value = "=", "true"
                following = words[place + 1] if place + 1 < len(words) else ""
                if is_meant_as_truth_value(following):
                    value = following
                    next(rest)
            elif name == _WITH_DASHES and not equals and place + 1 < len(words):
                equals, (_, value) = "=", next(rest)
        spelled.append(name + equals + value)
    return spelled


def is_serve_flag(word: str) -> bool:
    """Return True for a flag of `graphrt serve`, in any spelling."""
    name = word.partition("=")[0].removeprefix("--").replace("-", "_")
    known = {flag for each in declared_options() for flag in each.flags}
    return f"--{name}" in known or name in WITHOUT_EFFECT or name in REFUSED
