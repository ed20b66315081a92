"""The choice of `graphrt tune` beside an exhaustive search.

    python -m bench.tune NAME=MODEL ... [--load chat] [--budget 300] [--rounds 3] [--write FILE]

Every combination of the values that `graphrt tune` tries without a change of answers is measured in
turns, each beside the defaults (`calculators.llm.tuning.arena`). The best of them, those near it
and the choice of `graphrt tune` are then measured again, so that luck in the first rounds favours
nothing; the last column is the choice's throughput as a part of the best one's.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any, Final

import calculators
from bench.machine import describe_machine
from calculators.llm.tuning.arena import Arena
from calculators.llm.tuning.candidates import Candidate, Change, single_changes
from calculators.llm.tuning.interval import median_interval
from calculators.llm.tuning.loads import LOADS
from calculators.llm.tuning.standings import Conditions, Standing, best_first
from calculators.llm.tuning.tuner import Tuner
from calculators.llm.tuning.tuning import open_arena
from calculators.model_cache import ModelCache
from calculators.tasks import ModelToServe
from graph_runtime import REGISTRY

_MEMORY: Final = 8 << 30
_NEAR_THE_BEST: Final = 3


async def compare(path: Path, arguments: argparse.Namespace) -> list[str]:
    """Return the cells of one model."""
    model = ModelToServe(path=path, models_path="./", memory=_MEMORY)
    conditions = Conditions()
    load = LOADS[arguments.load]
    with tempfile.TemporaryDirectory() as folder:
        cache = ModelCache(Path(folder))
        async with open_arena(model, {}, load, arguments.budget / 100, cache) as arena:
            begin = monotonic()
            tuner = Tuner(arena, conditions, arguments.budget)
            outcome = await tuner.search(single_changes({}, is_on_cpu=True))
            seconds = monotonic() - begin
            chosen = (outcome.winner or arena.base).candidate
            _say(f"{path.name}: chosen in {seconds:.0f} s: {chosen.name}")
            every = [Standing(each) for each in grid(_exact_values())]
            await arena.measure(every, arguments.rounds, float("inf"))
            able = best_first(each for each in every if not conditions.objection(each))
            best = [each.candidate for each in able[:_NEAR_THE_BEST]]
            return await _final(arena, chosen, best, len(every), seconds, arguments.finals)


async def _final(
    arena: Arena,
    chosen: Candidate,
    best: Sequence[Candidate],
    count: int,
    seconds: float,
    rounds: int,
) -> list[str]:
    """Measure the choice and the best of all again, in the same rounds; return the cells."""
    again = [Standing(each) for each in {chosen, *best} - {Candidate()}]
    await arena.measure(again, rounds, float("inf"))
    taken = {each.candidate: [its.seconds for _, its in each.pairs] for each in again}
    taken[Candidate()] = [ours.seconds for ours, _ in again[0].pairs]
    first = min(taken, key=lambda each: median(taken[each]))
    ratio = median_interval(
        [best / own for best, own in zip(taken[first], taken[chosen], strict=True)]
    )
    gain = median(taken[Candidate()]) / median(taken[first])
    part = f"{ratio.median:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"
    return [str(count), first.name, f"{gain:.2f}", chosen.name, f"{seconds:.0f} s", part]


def _exact_values() -> Mapping[str, Sequence[Change | None]]:
    """Return the values of each setting that is not known to change answers; None: the default."""
    values: dict[str, list[Change | None]] = {}
    for candidate in single_changes({}, is_on_cpu=True):
        (change,) = candidate.changes
        if not change.changes_answers:
            values.setdefault(change.setting, [None]).append(change)
    return values


def grid(values: Mapping[str, Sequence[Change | None]]) -> Iterator[Candidate]:
    """Yield every combination but the defaults."""
    for chosen in itertools.product(*values.values()):
        changes = tuple(each for each in chosen if each is not None)
        if changes:
            yield Candidate(changes)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("models", nargs="+", metavar="NAME=MODEL")
    parser.add_argument("--load", choices=list(LOADS), default="chat")
    parser.add_argument("--budget", type=float, default=300.0, help="seconds of `graphrt tune`")
    parser.add_argument("--rounds", type=int, default=3, help="for each of all combinations")
    parser.add_argument("--finals", type=int, default=15, help="rounds of the last comparison")
    parser.add_argument("--shared", action="store_true", help="say that the machine was busy")
    parser.add_argument("--write", metavar="FILE", type=Path)
    arguments: Any = parser.parse_args(words)
    calculators.register_all(REGISTRY)
    busy = " The machine was shared with other work." if arguments.shared else ""
    lines = [
        "# The choice of `graphrt tune` beside an exhaustive search",
        "",
        f"`python -m bench.tune` on {describe_machine()}; load `{arguments.load}`, budget "
        f"{arguments.budget:.0f} s; {arguments.rounds} rounds of every combination, then "
        f"{arguments.finals} of the best {_NEAR_THE_BEST} beside the choice.{busy}",
        "",
        "| model | combinations | best of them | times the defaults | chosen | in | part of the "
        "best (95 %) |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in arguments.models:
        name, _, path = each.partition("=")
        row = asyncio.run(compare(Path(path).absolute(), arguments))
        lines.append(f"| {' | '.join([name, *row])} |")
        text = "\n".join(lines) + "\n"
        print(text)
        if arguments.write is not None:
            arguments.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
