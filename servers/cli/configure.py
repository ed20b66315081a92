"""`graphrt configure`: write the graph that serves a model of this machine."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from calculators.kit.tasks import find_task
from servers.cli.messages import CommandFailed
from servers.cli.model_graph import write_graph
from servers.cli.pull import given_task_options


def execute(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    source = args.source or args.model_path
    if source is None:
        raise CommandFailed(
            "which model is to be configured?", hint="graphrt configure DIR", status=2
        )
    if args.source is not None and args.model_path is not None:
        raise CommandFailed("use either DIR or --model_path, not both", status=2)
    path = Path(os.path.abspath(source))
    if not path.exists():
        raise CommandFailed(f"{source}: no such file or directory")
    task = None if args.task is None else find_task(args.task)
    directory = path if path.is_dir() else path.parent
    try:
        write_graph(path, directory, task, given_task_options(args), command="configure")
    except OSError as error:
        raise CommandFailed(f"{directory}: {error.strerror or error}") from error
    return 0
