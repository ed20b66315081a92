"""Options of `graphrt tune`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Final

from calculators.kit.settings.declaration import Group, Option, option, options_of
from calculators.kit.settings.value_types import one_of, switch

TUNING: Final = Group("measuring and choosing")


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """The load, the time, and the conditions of the choice."""

    load: str = option(
        "chat",
        "chat: 8 streams of short conversations; long_prompts: 2 streams of 1,500 tokens; "
        "many_streams: 64 streams of 100 tokens; default {default}",
        group=TUNING,
        metavar="LOAD",
        reads=one_of(("chat", "long_prompts", "many_streams")),
    )
    budget: float = option(
        300.0,
        "seconds for the measurements; default {default}",
        group=TUNING,
        metavar="SECONDS",
        reads=_positive,
    )
    first_token: float = option(
        1.5,
        "the longest wait for a first token that a choice may have, as a multiple of the wait with "
        "the default settings; default {default}",
        group=TUNING,
        metavar="FACTOR",
        reads=_positive,
    )
    may_change_answers: bool = option(
        False,
        "choose also among settings that change what the model answers",
        group=TUNING,
        metavar="BOOL",
        reads=switch,
    )
    show_only: bool = option(
        False,
        "write the graph to standard output, and no file",
        group=TUNING,
        metavar="BOOL",
        reads=switch,
    )


def tune_options() -> tuple[Option, ...]:
    """Return the options of the command."""
    return options_of(TuneOptions)
