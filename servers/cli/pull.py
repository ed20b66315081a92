"""`graphrt pull`: download a model of a hub, and write the graph that serves it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calculators.kit.settings.declaration import read
from calculators.kit.tasks import Task, find_task, task_of_model
from servers.cli.further_models import with_further_models
from servers.cli.graph_file import write_graph
from servers.cli.mediapipe_models import is_mediapipe, pull_mediapipe
from servers.cli.messages import CommandFailed
from servers.cli.model_export import ExportOfPull, form_of
from servers.cli.model_graph import task_options_of
from servers.cli.model_repository import pull_model, read_source, repository_of
from servers.hub.wanted_files import gguf_path
from servers.options.model_options import task_options
from servers.options.repository_options import ExportOptions


def execute(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    source = args.source or args.source_model
    if source is None:
        raise CommandFailed(
            "which model is to be pulled?",
            hint="graphrt pull org/name[@revision][:file.gguf]",
            status=2,
        )
    if args.source is not None and args.source_model is not None:
        raise CommandFailed("use either SOURCE or --source_model, not both", status=2)
    if is_mediapipe(source):
        path = args.model_repository_path
        pull_mediapipe(source, None if path is None else Path(path))
        return 0
    options = given_task_options(args)
    task = None if args.task is None else find_task(args.task)
    file = None if args.to is None else gguf_path(source)
    if file is not None:
        _convert(file, Path(args.to), task, options)
        return 0
    reference = read_source(source, args.gguf_filename)
    if task is not None:
        # Wrong options are refused before anything is downloaded.
        task_options_of(task, options)
    export = read(ExportOptions, vars(args))
    repository = repository_of(args.model_repository_path)
    model = pull_model(
        reference,
        repository,
        ExportOfPull(reference, task, form_of(export, options), options),
        overwrites=bool(args.overwrite_models),
    )
    word = "downloaded to" if model.is_new else "is here already, in"
    print(f"Model: {reference} {word}: {model.directory}")
    if args.to is not None:
        if not model.path.is_file():
            raise CommandFailed(f"--to {args.to}: {reference} is no model of GGUF")
        _convert(model.path, Path(args.to), task, options)
        return 0
    task = task or task_of_model(model.path)
    if task is None and model.path.is_file():
        print(f"Graph: none; `graphrt serve {reference}` converts the model first, for its task")
        return 0
    if task is not None:
        options = with_further_models(options, task, export, repository, model.directory)
    write_graph(model.path, model.directory, task, options, command="pull")
    return 0


def _convert(file: Path, directory: Path, task: Task | None, options: Mapping[str, Any]) -> None:
    """Write a GGUF file's model and its graph into a new directory."""
    # Imported here: downloads need none of it.
    from servers.cli.gguf_models import convert_to, options_of_directory

    found = dict(options)
    exact = bool(found.pop("exact", False))
    directory = directory.absolute()
    convert_to(file, directory, exact=exact)
    print(f"Model: {file.name} converted to: {directory}")
    found = options_of_directory(found, exact=exact)
    task = task or task_of_model(directory)
    write_graph(directory, directory, task, found, command="pull")


def given_task_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of tasks that are given, by flag."""
    return {
        each.flag: value
        for each in task_options()
        if (value := getattr(args, each.flag)) is not None
    }
