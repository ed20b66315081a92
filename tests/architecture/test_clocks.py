"""Use of the wall clock: it is displayed, and compared only where a limit outlives the process.

Waits and limits use a clock that does not step back.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Final

from bench.house import Module
from tests.support.checkout import ROOT

#: Functions of the modules time and datetime that read the wall clock.
WALL: Final = frozenset({"time", "time_ns", "now", "utcnow", "today", "localtime", "gmtime"})

#: Names of members and attributes that hold when something was made or done, in any file.
NAMED: Final = ("created", "completed")
#: Files that may read it for anything else, and what for.
SHOWN: Final = {
    "calculators/llm/prompt/chat_template/environment.py": "the date, for templates that write it",
    "calculators/llm/prompt/chat_template/detector.py": "the date, for templates that write it",
    "calculators/llm/http_llm_calculator.py": "timestamps of turns, each above the one before",
    "calculators/llm/api/ollama.py": "the time of an answer",
    "servers/fronts/http/ollama_requests.py": "when a model will be unloaded",
    "servers/batches/objects.py": "expiry, which outlives processes and restarts of the machine",
    "servers/serving/page_sources.py": "when it was",
    "servers/cli/bench.py": "the date of a report",
    "servers/cli/tune.py": "the date of a report",
    "servers/fronts/http/answer_streams.py": "the header Date",
    "servers/operations/tracing/open_telemetry.py": "the times of spans",
}


def wall_clock_uses(read: Module) -> Iterator[int]:
    """Yield the lines in which a module reads the wall clock, or passes it on to be read."""
    if not any(word in read.text for word in ("import time", "from time", "date")):
        return
    tree = read.tree
    named = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "time"
        for alias in node.names
        if alias.name in WALL
    }
    displayed = {id(node) for part in _displayed(tree) for node in ast.walk(part)}
    for node in ast.walk(tree):
        if id(node) in displayed:
            continue
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if name in named:
                yield node.lineno
            case ast.Attribute(value=ast.Name(id=module), attr=name) if (
                module in ("time", "datetime", "date") and name in WALL
            ):
                yield node.lineno
            case ast.Attribute(attr="CLOCK_REALTIME"):
                yield node.lineno
            case _:
                pass


def _displayed(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the values of what is called as `NAMED` says."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[target], value=value):
                pairs: list[tuple[ast.expr | None, ast.expr]] = [(target, value)]
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                pairs = [(target, value)]
            case ast.keyword(arg=str(word), value=value):
                pairs = [(ast.Constant(word), value)]
            case ast.Dict(keys=keys, values=values):
                pairs = list(zip(keys, values, strict=True))
            case _:
                continue
        for name, value in pairs:
            if name is not None and any(word in ast.unparse(name) for word in NAMED):
                yield value


def test_only_displayed_times_come_from_the_wall_clock(modules: Mapping[str, Module]) -> None:
    asking = {
        str(module.path.relative_to(ROOT))
        for module in modules.values()
        if any(wall_clock_uses(module))
    }
    assert asking == set(SHOWN)
