"""Child processes of a forked server: forks too, as their imports take longer than its own.

A child begins in a copy of the server's process from before its first line, which the server asks
for children; it dies with that copy, and the copy with the server. Everything that
``python -m module DESCRIPTOR PARENT`` would give it is the same, but environment variables that the
C library reads at the start of a process: arenas of memory. Tests of memory start children as a
server does.
"""

from __future__ import annotations

import os
import re
import runpy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import entry_points
from typing import Final, NoReturn

from calculators.kit.child_process import child_process, early_start
from calculators.kit.child_process.parent_connection import die_with_parent
from calculators.kit.tasks import ENTRY_POINT_GROUP
from tests.servers.cli.forks import (
    ForkedProcess,
    Program,
    ask,
    become,
    end_after,
    serve_forks,
    wires,
)
from tests.support.checkout import ROOT


def _work_of_tasks() -> Iterator[str]:
    """Yield what the processes of tasks import when they have started."""
    for point in entry_points(group=ENTRY_POINT_GROUP):
        folder = ROOT.joinpath(*point.module.split(".")[:-1])
        for path in sorted(folder.rglob("*process.py")):
            yield from _INNER_IMPORT.findall(path.read_text(encoding="utf-8"))


_INNER_IMPORT: Final = re.compile(r"^ +from (calculators\.[\w.]+) import", re.MULTILINE)
#: What children import, but their own modules, which run as `__main__`.
IMPORTED_BY_CHILDREN: Final = (
    "calculators.speech.audio.reading",
    "calculators.tensors.python.handler",
    "calculators.language.server_tools.mcp_session",
    "calculators.text.text_models.process",
    "servers.cli.scratch",
    "servers.server.workers.worker",
    *_work_of_tasks(),
)
_START: Final = "start_module"
_start_module: Final = early_start.start_module
#: Modules with a name for it.
_USERS: Final = (early_start, child_process)


def fork_children() -> None:
    """Let the children of this process be forks of a copy that is made now."""
    ours, theirs = wires()
    parent = os.getpid()
    if not os.fork():
        ours.close()
        die_with_parent(parent)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        os.close(nothing)
        run_child(serve_forks(theirs, are_bound=True))
    theirs.close()
    start_children_by(lambda program, descriptors: ask(ours, program, descriptors))


def start_children_by(fork: Callable[[Program, Mapping[int, int]], ForkedProcess]) -> None:
    """Let a function start the children of this process."""

    def start(
        module: str, descriptors: Sequence[int], stderr: int | None, environment: Mapping[str, str]
    ) -> ForkedProcess:
        program = Program(module, [str(descriptors[0])], os.getcwd(), environment)
        nothing = os.open(os.devnull, os.O_RDWR)
        try:
            streams = {0: nothing, 1: nothing, 2: 2 if stderr is None else stderr}
            return fork(program, {**streams, **{each: each for each in descriptors}})
        finally:
            os.close(nothing)

    for user in _USERS:
        setattr(user, _START, start)


def start_children_by_python() -> None:
    """Let the children of this process start as in production again."""
    for user in _USERS:
        setattr(user, _START, _start_module)


def run_child(child: Program) -> NoReturn:
    """Be a child, to its end."""
    become(replace(child, words=[*child.words, str(os.getppid())]))
    sys.modules.pop(child.module, None)  # as it will run a second time

    def run() -> None:
        runpy.run_module(child.module, run_name="__main__", alter_sys=True)

    end_after(run)
