"""`graphrt convert`: what OpenVINO Model Server has in another form, as a graph."""

from __future__ import annotations

import argparse

from calculators.kit.tasks.task import quoted
from servers.cli.messages import CommandFailed, print_warning
from servers.config import ConfigError, GraphEntry, read_config


def execute(args: argparse.Namespace) -> int:
    """Print the graph of a pipeline of a config and return the exit code."""
    if len(args.pipeline) > 2:
        raise CommandFailed("--pipeline takes a config and one name", status=2)
    path, *names = args.pipeline
    try:
        config = read_config(path)
    except ConfigError as error:
        raise CommandFailed(str(error)) from error
    pipelines = {entry.name: entry for entry in config.graphs if entry.name in config.pipelines}
    known = ", ".join(map(quoted, pipelines)) or "none"
    if not names and len(pipelines) != 1:
        raise CommandFailed(
            f"which pipeline of {path}? It has {known}",
            hint="write graphrt convert --pipeline CONFIG NAME",
            status=2,
        )
    entry = pipelines.get(names[0]) if names else next(iter(pipelines.values()))
    if entry is None:
        raise CommandFailed(f"{path} has no pipeline {quoted(names[0])}; it has {known}")
    if entry.refusal:
        raise CommandFailed(f"the pipeline {quoted(entry.name)} has no graph: {entry.refusal}")
    print(_text_of(entry), end="")
    for stream, name in entry.tensor_names.items():
        print_warning(
            f"the pipeline's tensor {quoted(name)} is the stream {quoted(stream)} of the graph, as "
            f"streams have names of small letters, digits and underscores"
        )
    return 0


def _text_of(entry: GraphEntry) -> str:
    return f"# The pipeline {quoted(entry.name)}, by graphrt convert.\n{entry.graph_text}"
