"""`graphrt describe`: a graph as text, as a picture, or as JSON; and what a GGUF file holds."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from graph_runtime import GraphError, ValidatedGraph, ValidationError
from servers.cli.graph_registry import graph_file, located, make_registry
from servers.cli.messages import CommandFailed, print_error, print_warning
from servers.drawing.description import GraphDescription, describe_graph, to_text
from servers.drawing.diagram import make_diagram, to_dot, to_mermaid
from servers.drawing.layout import draw
from servers.drawing.svg import to_svg
from servers.model_store.wanted_files import gguf_path
from servers.serving.graph_source import GraphSource


def execute(args: argparse.Namespace) -> int:
    """Run the command and return the exit code, 1 also for a graph that is shown but invalid."""
    path = gguf_path(args.graph)
    if path is not None:
        return _describe_model(path, args)
    args.graph = graph_file(args.graph)
    registry = make_registry(args)
    plan: ValidatedGraph | None = None
    problems: tuple[str, ...] = ()
    try:
        source = GraphSource(args.graph, registry)
        try:
            plan = source.validate()
        except ValidationError as error:
            problems = tuple(str(finding) for finding in error.findings)
        description = describe_graph(
            source.config, source.registry, plan, expand=_opened(args), problems=problems
        )
    except GraphError as error:
        raise CommandFailed(located(args.graph, error)) from error
    # Past the text layer: the locale's encoding may lack a character of a drawing or a name.
    sys.stdout.buffer.write(_written(description, args).encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
    for problem in problems:
        print_error(problem if args.graph in problem else f"{args.graph}: {problem}")
    for warning in description.warnings:
        print_warning(f"{args.graph}: {warning}")
    return 1 if problems else 0


def _describe_model(path: Path, args: argparse.Namespace) -> int:
    # Imported here: descriptions of graphs need none of it.
    from servers.cli.gguf_models import describe_gguf

    if args.format not in ("text", "json"):
        raise CommandFailed(
            f"--format {args.format}: {path.name} is a model, which is described as text or JSON"
        )
    print(describe_gguf(path, as_json=args.format == "json"), end="")
    return 0


def _opened(args: argparse.Namespace) -> bool | list[tuple[str, ...]]:
    """Return the subgraphs to expand: all, none, or paths of names, each with those around it."""
    if args.open is None:
        return bool(args.expand)
    paths = [tuple(each.split("/")) for each in args.open.split(",")]
    return [path[:depth] for path in paths for depth in range(1, len(path) + 1)]


def _written(graph: GraphDescription, args: argparse.Namespace) -> str:
    name = Path(args.graph).name
    match args.format:
        case "json":
            return json.dumps(graph.to_json(), indent=2) + "\n"
        case "mermaid":
            return to_mermaid(make_diagram(graph, name))
        case "dot":
            return to_dot(make_diagram(graph, name))
        case "svg":
            drawing = draw(graph, name, direction=args.direction, has_feet=False)
            return to_svg(drawing, theme=args.theme)
        case _:
            return to_text(graph, name)
