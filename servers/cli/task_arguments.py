"""The arguments of `graphrt serve` for a model without a graph.pbtxt: the task and its options.

The options are those of the installed tasks (`calculators.tasks`), which are looked up only when
the arguments of ``serve`` are read or shown.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from servers.cli.argument_types import count, count_or_zero, one_of, switch

if TYPE_CHECKING:
    from calculators.tasks import TaskOption


def add_task_arguments(command: argparse.ArgumentParser) -> Callable[[], None]:
    """A group for ``--task`` and the options of the tasks, filled by the function returned."""
    group = command.add_argument_group(
        "a model without a graph",
        "When DIR holds no graph.pbtxt, a graph for its model is made; nothing is written.\n"
        "These are the options of its node.",
    )
    return lambda: _fill(group)


def _fill(group: argparse._ArgumentGroup) -> None:
    from calculators.tasks import KNOWN_ELSEWHERE, default_task, installed_tasks

    names = tuple(task.name for task in installed_tasks())
    others = tuple(name for name in KNOWN_ELSEWHERE if name not in names)
    default = default_task()
    text = f"{', '.join(names)}; default {default.name}" if default is not None else "none is known"
    group.add_argument("--task", metavar="TASK", type=one_of(names, others), help=text)
    added: set[str] = set()
    for task in installed_tasks():
        for option in task.options:
            if option.name not in added:
                added.add(option.name)
                group.add_argument(
                    f"--{option.name}",
                    metavar=option.metavar,
                    type=_type_of(option),
                    help=_help_of(option.name),
                )


def given_options(args: argparse.Namespace) -> dict[str, Any]:
    """The options of tasks that stand on the command line."""
    from calculators.tasks import installed_tasks

    names = dict.fromkeys(option.name for task in installed_tasks() for option in task.options)
    values = {name: getattr(args, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def task_switches() -> frozenset[str]:
    """The options of tasks that may stand without a value."""
    from calculators.tasks import OptionKind, installed_tasks

    return frozenset(
        option.name
        for task in installed_tasks()
        for option in task.options
        if option.kind is OptionKind.SWITCH
    )


def _help_of(name: str) -> str:
    """What the tasks say of an option, once where they agree."""
    from calculators.tasks import installed_tasks

    texts = [
        option.help for task in installed_tasks() for option in task.options if option.name == name
    ]
    return "; ".join(dict.fromkeys(texts))


def _type_of(option: TaskOption) -> Callable[[str], object]:
    from calculators.tasks import OptionKind

    match option.kind:
        case OptionKind.TEXT:
            return str
        case OptionKind.COUNT:
            return count
        case OptionKind.COUNT_OR_ZERO:
            return count_or_zero
        case OptionKind.SWITCH:
            return switch
        case OptionKind.WORD:
            return one_of(option.words, option.unsupported_words)
