"""`graphrt pull`: download a model of a hub, and write the graph that serves it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from calculators.tasks import Task, find_task, installed_tasks
from servers.cli.messages import CommandFailed, print_warning
from servers.cli.model_graph import graph_of_model, task_of_model, task_options_of
from servers.cli.model_repository import default_repository, pull_model, reference_of
from servers.config.entry import GRAPH_FILE
from servers.hub import ModelReference
from servers.hub.pull import PulledModel
from servers.options.model_options import task_options


def execute(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    reference = _reference(args)
    options = {
        each.flag: value
        for each in task_options()
        if (value := getattr(args, each.flag)) is not None
    }
    task = None if args.task is None else find_task(args.task)
    if task is not None:
        # Wrong options are refused before anything is downloaded.
        task_options_of(task, options)
    directory = Path(args.model_repository_path or default_repository())
    model = pull_model(reference, directory, overwrites=args.overwrite_models)
    word = "downloaded to" if model.is_new else "is here already, in"
    print(f"Model: {reference} {word}: {model.directory}")
    _write_graph(model, task, options)
    return 0


def _reference(args: argparse.Namespace) -> ModelReference:
    source = args.source or args.source_model
    if source is None:
        raise CommandFailed(
            "which model is to be pulled?",
            hint="graphrt pull org/name[@revision][:file.gguf]",
            status=2,
        )
    if args.source is not None and args.source_model is not None:
        raise CommandFailed("use either SOURCE or --source_model, not both", status=2)
    if args.gguf_filename is not None:
        source = f"{source}:{args.gguf_filename}"
    reference = reference_of(source)
    if reference is None:
        raise CommandFailed(
            f"{source} is no name of a hub's model",
            hint="the form is org/name[@revision][:file.gguf]; "
            f"a model of this machine needs no pull: `graphrt serve {source}`",
            status=2,
        )
    return reference


def _write_graph(model: PulledModel, task: Task | None, options: dict[str, Any]) -> None:
    """Write the graph.pbtxt of the model's task beside the model."""
    task = task or task_of_model(model.path)
    if task is None:
        names = ", ".join(each.name for each in installed_tasks())
        raise CommandFailed(
            f"{model.directory}: it does not show what task the model is for; it has no "
            f"{GRAPH_FILE} yet",
            hint=f"pull it again with --task, one of {names}",
        )
    graph = model.directory / GRAPH_FILE
    if graph.exists() and not model.is_new and not options:
        print(f"Graph: {GRAPH_FILE} is there already: {graph}")
        return
    text = graph_of_model(task, model.path, model.directory, options)
    if graph.exists() and not model.is_new:
        print_warning(f"{graph} is written again, with the options that were given")
    temporary = graph.with_suffix(".part")
    temporary.write_text(f"# Written by graphrt pull, for {task.name}\n{text}", encoding="utf-8")
    os.replace(temporary, graph)
    print(f"Graph: {GRAPH_FILE} created in: {graph}")
