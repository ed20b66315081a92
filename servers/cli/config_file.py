"""The config.json that commands change."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from calculators.kit.examples import STORE_VARIABLE
from servers.cli.messages import CommandFailed
from servers.config.edit import EditError


def config_path(args: argparse.Namespace) -> Path:
    """Return ``--config_path``, or the config.json in it if it is a directory.

    The default is the config.json in ``$OVMS_MODEL_REPOSITORY_PATH``.

    Raises:
        CommandFailed: neither is given.
    """
    if args.config_path is not None:
        path = Path(args.config_path)
        return path / "config.json" if path.is_dir() else path
    repository = os.environ.get(STORE_VARIABLE)
    if not repository:
        raise CommandFailed("which config.json? Use --config_path", status=2)
    return Path(repository) / "config.json"


def config_of_repository() -> Path | None:
    """Return the config.json in ``$OVMS_MODEL_REPOSITORY_PATH``, if there is one."""
    repository = os.environ.get(STORE_VARIABLE)
    path = None if not repository else Path(repository) / "config.json"
    return path if path is not None and path.is_file() else None


def change_config(path: Path, change: Callable[[Path], None]) -> None:
    """Change a config.json and say so.

    Raises:
        CommandFailed: the change cannot be made.
    """
    try:
        change(path)
    except EditError as error:
        raise CommandFailed(f"{path}: {error}") from error
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror or error}") from error
    print(f"Config updated: {path}")
