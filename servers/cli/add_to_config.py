"""`graphrt --add_to_config`: list a model in a config.json."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from servers.cli.config_file import change_config, config_path
from servers.cli.messages import CommandFailed
from servers.cli.served import value_of_key
from servers.cli.stored_models import store_directory
from servers.config.edit import add_entry
from servers.config.entries import is_remote
from servers.options.model_options import entry_options


def execute(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    if args.model_path is not None and args.model_repository_path is not None:
        raise CommandFailed(
            "use either --model_path or --model_repository_path, not both", status=2
        )
    if args.model_path is not None:
        directory = Path(args.model_path)
    else:
        directory = store_directory(args.model_repository_path) / args.model_name
    if args.model_path is not None and is_remote(args.model_path):
        raise CommandFailed(
            f"{args.model_path}: a model in a store elsewhere is not served",
            hint="copy it to this machine",
        )
    if not directory.exists():
        raise CommandFailed(f"{directory}: no such directory")
    entry: dict[str, Any] = {"name": args.model_name, "base_path": os.path.abspath(directory)}
    for each in entry_options():
        value = getattr(args, each.flag)
        if value is not None:
            entry[each.config_key] = value_of_key(each.config_key, value)
    change_config(config_path(args), lambda path: add_entry(path, entry))
    return 0
