"""`graphrt --add_to_config`: list a model in a config.json."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from servers.cli.config_file import change_config, config_path
from servers.cli.messages import CommandFailed, print_warning
from servers.cli.served import value_of_key
from servers.cli.stored_models import store_directory
from servers.config.edit import add_entry
from servers.config.entries import is_remote
from servers.model_store.model_reference import ModelError
from servers.model_store.object_store import read_address
from servers.options.model_options import entry_options


def execute(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    if args.model_path is not None and args.model_repository_path is not None:
        raise CommandFailed(
            "use either --model_path or --model_repository_path, not both", status=2
        )
    config = config_path(args)
    entry: dict[str, Any] = {"name": args.model_name, "base_path": _base_path(args, config)}
    if args.group_name is not None:
        entry["group_name"] = args.group_name
    for each in entry_options():
        value = getattr(args, each.flag)
        if value is not None:
            entry[each.config_key] = value_of_key(each.config_key, value)
    change_config(config, lambda path: add_entry(path, entry))
    return 0


def _base_path(args: argparse.Namespace, config: Path) -> str:
    """Return the path that the config gets.

    A relative one starts at the config's directory, as OpenVINO Model Server reads it, so that the
    directory of config and models may be mounted elsewhere. An absolute one that is not below that
    directory stays: it may be the path on another machine.
    """
    root = config.absolute().parent
    if args.model_path is not None and is_remote(args.model_path):
        return _address(args.model_path)
    if args.model_path is None:
        directory = store_directory(args.model_repository_path) / args.model_name
    elif (root / args.model_path).exists():
        path = Path(args.model_path)
        return os.path.relpath(path, root) if path.is_relative_to(root) else str(path)
    else:
        directory = Path(args.model_path)
    if not directory.exists():
        print_warning(f"{args.model_path or directory}: there is no such directory yet")
        if args.model_path is not None:
            return str(args.model_path)
    return os.path.relpath(os.path.realpath(directory), os.path.realpath(root))


def _address(text: str) -> str:
    """Return the address of a model in a store; it is not looked at.

    Raises:
        CommandFailed: it cannot be read.
    """
    try:
        read_address(text)
    except ModelError as error:
        raise CommandFailed(f"{text}: {error}", hint=error.hint) from error
    return text
