"""The arguments of `graphrt serve`, made from the declarations of its options.

The names are OpenVINO Model Server's, so that its start scripts work.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

from calculators.settings.declaration import Option, by_group
from calculators.settings.value_types import is_meant_as_truth_value
from servers.options.server_options import WITHOUT_EFFECT, declared_options


def add_arguments(command: argparse.ArgumentParser) -> None:
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


def normalize_flags(words: Sequence[str]) -> list[str]:
    """Turn ``--rest-port`` into ``--rest_port``, and ``--switch`` or ``--switch true`` into
    ``--switch=true``."""
    switches = {flag for each in declared_options() if each.is_switch for flag in each.flags}
    spelled: list[str] = []
    rest = iter(enumerate(words))
    for place, word in rest:
        if word == "--":
            return [*spelled, *words[place:]]
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            name = "--" + name[2:].replace("-", "_")
            if name in switches and not equals:
                equals, value = "=", "true"
                following = words[place + 1] if place + 1 < len(words) else ""
                if is_meant_as_truth_value(following):
                    value = following
                    next(rest)
        spelled.append(name + equals + value)
    return spelled


def is_serve_flag(word: str) -> bool:
    """Is this a flag of `graphrt serve`, in any spelling?"""
    name = "--" + word.partition("=")[0].removeprefix("--").replace("-", "_")
    known = {flag for each in declared_options() for flag in each.flags}
    return name in known or name.removeprefix("--") in WITHOUT_EFFECT
