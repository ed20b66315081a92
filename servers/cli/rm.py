"""`graphrt rm`: remove models from a directory of models."""

from __future__ import annotations

import argparse
import shutil

from servers.cli.list import served_directories
from servers.cli.messages import CommandFailed
from servers.cli.stored_models import store_directory
from servers.model_store.progress import size_text


def execute(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    root = store_directory(args.model_repository_path)
    known = {path.as_posix() for path in served_directories(root)} if root.is_dir() else set()
    for name in args.names:
        if name not in known:
            raise CommandFailed(
                f"{root} has no model {name}",
                hint=f"it has {', '.join(sorted(known))}" if known else "it has no model at all",
            )
    for name in args.names:
        directory = root / name
        size = sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
        shutil.rmtree(directory)
        parent = directory.parent
        # A hub's model lies in ``org/name``; the organization's folder goes with its last model.
        if parent != root and not any(parent.iterdir()):
            parent.rmdir()
        print(f"removed {name}: {size_text(size)}")
    return 0
