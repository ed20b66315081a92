"""`graphrt --remove_from_config`: take a model out of a config.json."""

from __future__ import annotations

import argparse

from servers.cli.config_file import change_config, config_path
from servers.cli.messages import CommandFailed
from servers.config.edit import remove_entry


def execute(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    path = config_path(args)
    if not path.exists():
        raise CommandFailed(f"{path}: no such file")
    change_config(path, lambda file: remove_entry(file, args.model_name))
    return 0
