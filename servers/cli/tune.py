"""`graphrt tune`: find a language model's fastest settings on this machine, and write them."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from calculators.kit.machine import usable_memory
from calculators.kit.settings.declaration import read
from calculators.kit.tasks import ModelToServe, Task, TaskError, default_task
from calculators.llm.tuning.arena import CandidateStanding, Conditions, best_first
from calculators.llm.tuning.trial import LOADS
from calculators.llm.tuning.tuning import CannotTune, Tuned, TuningOutcome, tune
from servers.cli.messages import CommandFailed
from servers.cli.model_graph import (
    graph_of_model,
    put_graph,
    refuse_written_by_hand,
    task_options_of,
)
from servers.cli.pull import given_task_options
from servers.config.entries import GRAPH_FILE
from servers.operations.doctor import processor
from servers.options.model_options import TuneOptions

_HEADINGS: Final = ("setting", "throughput", "95 %", "tokens/s", "first token", "answers", "")


def execute(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    options = read(TuneOptions, vars(args))
    path = Path(os.path.abspath(args.source))
    task = default_task()
    if not path.exists():
        raise CommandFailed(f"{args.source}: no such file or directory")
    if task is None or not task.recognizes(path):
        raise CommandFailed(
            f"{args.source}: no language model that can be served",
            hint="it is a directory with config.json and openvino_model.xml, or a GGUF file",
        )
    directory = path if path.is_dir() else path.parent
    graph = directory / GRAPH_FILE
    if not options.show_only:
        # Before anything is measured.
        refuse_written_by_hand(graph)
    given = given_task_options(args)
    fields = task_options_of(task, given)
    models_path = "./" if path == directory else path.name
    model = ModelToServe(path=path, models_path=models_path, memory=usable_memory())
    conditions = Conditions(options.may_change_answers, options.first_token)
    progress = _TuningProgress(conditions)
    try:
        tuned = asyncio.run(
            tune(
                model,
                fields,
                LOADS[options.load],
                conditions=conditions,
                budget=options.budget,
                report=progress.show,
            )
        )
    except TaskError as error:
        raise CommandFailed(str(error), status=2) from None
    except CannotTune as error:
        raise CommandFailed(f"{args.source}: {error}") from None
    figures = _figures(tuned, conditions, progress.seconds)
    print("\n".join(figures), file=sys.stderr)
    text = _graph(task, path, directory, given, tuned.outcome, figures)
    if options.show_only:
        print(f"# Written by graphrt {text}", end="")
    else:
        try:
            put_graph(graph, text)
        except OSError as error:
            raise CommandFailed(f"{directory}: {error.strerror or error}") from error
    return 0


def _graph(
    task: Task,
    path: Path,
    directory: Path,
    given: Mapping[str, Any],
    outcome: TuningOutcome,
    figures: Sequence[str],
) -> str:
    """Return the text of the winner's graph with the figures as comments."""
    chosen = outcome.winner or outcome.base
    text = graph_of_model(task, path, directory, chosen.candidate.options(given))
    comments = "".join(f"# {line}".rstrip() + "\n" for line in figures)
    return f"tune, for {task.name}\n{comments}{text}"


class _TuningProgress:
    """Prints a table after each stage of the search, to standard error."""

    def __init__(self, conditions: Conditions) -> None:
        self._conditions = conditions
        self._begin = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begin

    def show(self, stage: str, standings: Sequence[CandidateStanding]) -> None:
        rounds = max((len(each.pairs) for each in standings), default=0)
        print(f"{self.seconds:.0f} s: {stage}, {rounds} rounds", file=sys.stderr)
        rows = _rows(_ordered(standings), self._conditions)
        print("\n".join(_table(rows)) + "\n", file=sys.stderr, flush=True)


def _figures(tuned: Tuned, conditions: Conditions, seconds: float) -> list[str]:
    """Return the result as lines: machine, load, choice, and all candidates."""
    outcome = tuned.outcome
    winner = outcome.winner
    machine = f"{processor()[0]}, {os.cpu_count()} cores"
    busy = f", {tuned.discarded} rounds left out as the machine was busy" if tuned.discarded else ""
    lines = [
        f"{machine}, openvino-genai {version('openvino-genai')}, {datetime.now(UTC):%Y-%m-%d}",
        f'Load "{tuned.load.name}": {tuned.load.words};',
        f"{tuned.requests} answers a round, measured for {seconds:.0f} s{busy}.",
        "The engine's process alone, without HTTP.",
    ]
    if winner is None:
        lines.append("The default settings stay: nothing that may be chosen is 3 % faster.")
    else:
        speed = winner.speed
        lines.append(
            f"Chosen: {winner.name}: {speed.median:.2f} times the default settings' throughput "
            f"({speed.low:.2f} to {speed.high:.2f})."
        )
    rows = [_row(outcome.base, ""), *_rows(_ordered(outcome.standings), conditions)]
    return [*lines, "", *_table(rows)]


def _ordered(standings: Sequence[CandidateStanding]) -> list[CandidateStanding]:
    return [*best_first(standings), *(each for each in standings if not each.is_measured)]


def _rows(standings: Iterable[CandidateStanding], conditions: Conditions) -> list[tuple[str, ...]]:
    return [_row(each, conditions.objection(each)) for each in standings]


def _row(standing: CandidateStanding, objection: str) -> tuple[str, ...]:
    if not standing.is_measured:
        return (standing.name, "", "", "", "", _answers(standing), objection)
    speed = standing.speed
    return (
        standing.name,
        f"{speed.median:.2f}",
        f"{speed.low:.2f} to {speed.high:.2f}",
        f"{standing.tokens_per_second:.0f}",
        f"{standing.first_token * 1000:.0f} ms",
        _answers(standing),
        objection,
    )


def _answers(standing: CandidateStanding) -> str:
    if standing.different_answers is None:
        return ""
    if not standing.different_answers:
        return "equal"
    return f"{standing.different_answers} of {standing.compared_answers} differ"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows under headings, in columns."""
    cells = [_HEADINGS, *rows]
    widths = [max(len(row[place]) for row in cells) for place in range(len(_HEADINGS))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
