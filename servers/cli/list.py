"""`graphrt list`: the models of a directory."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

from calculators.kit.examples import STORE_VARIABLE, example_models
from calculators.tensors.openvino.directory_models import versions_in
from servers.cli.messages import CommandFailed
from servers.cli.stored_models import store_directory
from servers.config.entries import GRAPH_FILE
from servers.model_store.directory import read_origin
from servers.model_store.progress import size_text

_HEADINGS = ("NAME", "SIZE", "ORIGIN")


def execute(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    if args.list_models:
        return _list_as_model_server(args)
    is_default = args.model_repository_path is None
    directory = store_directory(args.model_repository_path)
    # Before the first `graphrt pull` the default directory does not exist, and that is no error.
    if not directory.is_dir() and not is_default:
        raise CommandFailed(f"{directory}: no such directory")
    names = sorted(name.as_posix() for name in served_directories(directory))
    if args.names:
        print("".join(f"{name}\n" for name in names), end="")
        return 0
    rows = [_row(directory / name, name) for name in names]
    if is_default:
        rows += [_row(path, name, "comes with graphrt") for name, path in example_models().items()]
    widths = [max(len(row[column]) for row in [_HEADINGS, *rows]) for column in range(3)]
    for row in [_HEADINGS, *rows] if rows else ():
        print(
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        )
    return 0


def _list_as_model_server(args: argparse.Namespace) -> int:
    """Answer OpenVINO Model Server's ``--list_models``, which names the directory."""
    named = args.model_repository_path or os.environ.get(STORE_VARIABLE)
    if not named:
        raise CommandFailed(
            "Use --list_models with --model_repository_path",
            hint="`graphrt list` shows the models that were pulled",
            status=2,
        )
    directory = Path(named)
    if not directory.is_dir():
        raise CommandFailed(f"{directory}: no such directory")
    # Word for word what OVMS prints, for scripts that read its list.
    print("Listing models in repository...")
    print(f"Model repository path: {named}")
    for name in sorted(each.as_posix() for each in served_directories(directory)):
        print(name)
    return 0


def served_directories(root: Path) -> Iterator[Path]:
    """Yield the directories below one that a server can serve, as relative paths.

    They are those with a graph.pbtxt, a model of a hub, or folders of versions with models.
    """
    for folder, below, files in os.walk(root):
        below[:] = sorted(name for name in below if not name.startswith("."))
        path = Path(folder)
        if path == root:
            continue
        if GRAPH_FILE in files or read_origin(path) is not None or versions_in(path):
            below.clear()
            yield path.relative_to(root)


def _row(directory: Path, name: str, origin: str = "") -> tuple[str, str, str]:
    size = sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
    found = read_origin(directory)
    shown = origin if found is None else f"{found.repository}@{found.commit[:12]}"
    return name, size_text(size), shown
