"""The choice of `graphrt tune` beside an exhaustive search.

    python -m bench.tune NAME=MODEL ... [--load chat] [--budget 300] [--rounds 3]
                         [--without SETTING ...] [--seconds N --state DIR] [--write FILE]

Every combination of the values that `graphrt tune` tries without a change of answers is measured in
turns, each beside the defaults (`calculators.llm.tuning.arena`). The best of them, those near it
and the choice of `graphrt tune` are then measured again, so that luck in the first rounds favours
nothing; the last column is the choice's throughput as a part of the best one's. ``--seconds`` ends
a run in time, and a later one with the same ``--state`` goes on.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any, Final, TypeAlias

import calculators
from bench.machine import describe_machine, head, publish, report_parser, row, say
from calculators.kit.model_cache import ModelCache
from calculators.kit.tasks import ModelToServe
from calculators.llm.tuning.arena import Arena, CandidateStanding, Conditions, median_interval
from calculators.llm.tuning.candidates import Candidate, Change, single_changes
from calculators.llm.tuning.trial import LOADS
from calculators.llm.tuning.tuning import Tuner, open_arena
from graph_runtime import REGISTRY

_MEMORY: Final = 8 << 30
_NEAR_THE_BEST: Final = 3
#: Combinations that take turns with each other and the defaults.
_AT_ONCE: Final = 4

#: Seconds of the defaults and of a combination, round by round.
_Pairs: TypeAlias = list[tuple[float, float]]


class Progress:
    """The measurements of one model, kept in a file, so that a later run goes on.

    Attributes:
        chosen: the name of the choice of `graphrt tune`; None: not known yet.
        seconds: that it took.
        pairs: by name of a combination, rounds of the defaults and of it with the same requests.
        finals: the same of the last comparison.
        objections: by name, the reasons why `graphrt tune` may not choose it; "": it may.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        self.chosen: str | None = known.get("chosen")
        self.seconds: float = known.get("seconds", 0.0)
        self.pairs: dict[str, _Pairs] = known.get("pairs", {})
        self.finals: dict[str, _Pairs] = known.get("finals", {})
        self.objections: dict[str, str] = known.get("objections", {})

    def save(self) -> None:
        fields = {
            "chosen": self.chosen,
            "seconds": self.seconds,
            "pairs": self.pairs,
            "finals": self.finals,
            "objections": self.objections,
        }
        self._file.write_text(json.dumps(fields), encoding="utf-8")


async def compare(path: Path, file: Path, arguments: argparse.Namespace) -> list[str] | None:
    """Return the cells of one model; None if the time was over before everything was measured."""
    until = monotonic() + arguments.seconds
    progress = Progress(file)
    model = _served(path)
    known = {each.name: each for each in (Candidate(), *grid(_exact_values(())))}
    every = {each.name: each for each in grid(_exact_values(arguments.without))}
    with tempfile.TemporaryDirectory() as folder:
        cache = ModelCache(Path(folder))
        seconds_of_round = arguments.budget / 100
        async with open_arena(model, {}, LOADS[arguments.load], seconds_of_round, cache) as arena:
            if progress.chosen is None:
                choice, progress.seconds = await _tune(arena, arguments.budget)
                # Combinations have their changes in another order.
                progress.chosen = next(
                    name for name, each in known.items() if set(each.changes) == set(choice.changes)
                )
                progress.save()
                say(f"{path.name}: chosen in {progress.seconds:.0f} s: {progress.chosen}")
            left = [each for name, each in every.items() if name not in progress.pairs]
            for place in range(0, len(left), _AT_ONCE):
                if monotonic() > until:
                    break
                standings = [CandidateStanding(each) for each in left[place : place + _AT_ONCE]]
                await arena.measure(standings, arguments.rounds, float("inf"))
                progress.pairs |= {each.name: _pairs(each) for each in standings}
                progress.objections |= _objections(standings)
                progress.save()
            say(f"{path.name}: {len(progress.pairs)} of {len(every)} combinations")
            if len(progress.pairs) < len(every) or monotonic() > until:
                return None
            if not progress.finals:
                standings = [CandidateStanding(known[name]) for name in _finalists(progress)]
                await arena.measure(standings, arguments.finals, float("inf"))
                progress.finals = {each.name: _pairs(each) for each in standings}
                progress.objections |= _objections(standings)
                progress.save()
    return _cells(progress)


def _served(path: Path) -> ModelToServe:
    """Return a directory or a GGUF file as a model to be served."""
    models_path = "./" if path.is_dir() else path.name
    return ModelToServe(path=path, models_path=models_path, memory=_MEMORY)


async def _tune(arena: Arena, budget: float) -> tuple[Candidate, float]:
    """Return the choice, and the seconds that it took."""
    begin = monotonic()
    outcome = await Tuner(arena, Conditions(), budget).search(single_changes({}, is_on_cpu=True))
    return (outcome.winner or arena.base).candidate, monotonic() - begin


def _pairs(standing: CandidateStanding) -> _Pairs:
    return [(ours.seconds, its.seconds) for ours, its in standing.pairs]


def _objections(standings: Sequence[CandidateStanding]) -> dict[str, str]:
    return {each.name: Conditions().objection(each) for each in standings}


def _speed(pairs: _Pairs) -> float:
    """Return the throughput as a multiple of the defaults'; 0 for what cannot be loaded."""
    return median(ours / its for ours, its in pairs) if pairs else 0.0


def _finalists(progress: Progress) -> list[str]:
    """Return the best combinations and the choice; the defaults are beside them anyway."""
    assert progress.chosen is not None
    able = [name for name in progress.pairs if not progress.objections.get(name)]
    best = sorted(able, key=lambda name: _speed(progress.pairs[name]), reverse=True)
    names = dict.fromkeys([progress.chosen, *best[:_NEAR_THE_BEST]])
    return [name for name in names if name != Candidate().name]


def _cells(progress: Progress) -> list[str]:
    """Return the cells: the choice as a part of the best, from the same rounds."""
    defaults = Candidate().name
    taken = {name: [its for _, its in pairs] for name, pairs in progress.finals.items()}
    taken[defaults] = [ours for ours, _ in next(iter(progress.finals.values()))]
    able = [name for name in taken if not progress.objections.get(name)]
    best = min(able, key=lambda name: median(taken[name]))
    chosen = progress.chosen or defaults
    ratio = median_interval(
        [first / own for first, own in zip(taken[best], taken[chosen], strict=True)]
    )
    gain = median(taken[defaults]) / median(taken[best])
    part = f"{ratio.median:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"
    seconds = f"{progress.seconds:.0f} s"
    return [str(len(progress.pairs)), best, f"{gain:.2f}", chosen, seconds, part]


def _exact_values(without: Collection[str]) -> Mapping[str, Sequence[Change | None]]:
    """Return the values of each setting that is not known to change answers; None: the default.

    ``without``: settings that keep their default.
    """
    values: dict[str, list[Change | None]] = {}
    for candidate in single_changes({}, is_on_cpu=True):
        (change,) = candidate.changes
        if not change.changes_answers and change.setting not in without:
            values.setdefault(change.setting, [None]).append(change)
    return values


def grid(values: Mapping[str, Sequence[Change | None]]) -> Iterator[Candidate]:
    """Yield every combination but the defaults."""
    for chosen in itertools.product(*values.values()):
        changes = tuple(each for each in chosen if each is not None)
        if changes:
            yield Candidate(changes)


def main(words: Sequence[str] | None = None) -> None:
    parser = report_parser(__doc__)
    parser.add_argument("models", nargs="+", metavar="NAME=MODEL")
    parser.add_argument("--load", choices=list(LOADS), default="chat")
    parser.add_argument("--budget", type=float, default=300.0, help="seconds of `graphrt tune`")
    parser.add_argument("--rounds", type=int, default=3, help="for each of all combinations")
    parser.add_argument("--finals", type=int, default=15, help="rounds of the last comparison")
    parser.add_argument("--without", metavar="SETTING", nargs="+", default=[], help="not combined")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--state", metavar="DIR", type=Path, help="what earlier runs measured")
    parser.add_argument("--shared", action="store_true", help="say that the machine was busy")
    arguments: Any = parser.parse_args(words)
    calculators.register_all(REGISTRY)
    busy = " The machine was shared with other work." if arguments.shared else ""
    names = ", ".join(f"`{each}`" for each in arguments.without)
    left_out = f" Not combined: {names}." if names else ""
    columns = ("model", "combinations", "best of them", "times the defaults")
    lines = [
        "# The choice of `graphrt tune` beside an exhaustive search",
        "",
        f"`python -m bench.tune` on {describe_machine()}; load `{arguments.load}`, budget "
        f"{arguments.budget:.0f} s; {arguments.rounds} rounds of every combination, then "
        f"{arguments.finals} of the best {_NEAR_THE_BEST} beside the choice.{left_out}{busy}",
        "",
        *head(*columns, "chosen", "in", "part of the best (95 %)"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        state = arguments.state or Path(folder)
        for each in arguments.models:
            name, _, path = each.partition("=")
            file = state / f"{name.replace(' ', '_')}.json"
            cells = asyncio.run(compare(Path(path).absolute(), file, arguments))
            if cells is None:
                sys.exit("the time is over: run it again with the same --state")
            lines.append(row(name, *cells))
    publish(lines, arguments.write)


if __name__ == "__main__":
    main()
