"""`graphrt language-server`: diagnostics, completion and more for editors of graph files."""

from __future__ import annotations

import argparse

from servers.cli.graph_registry import make_registry
from servers.cli.messages import CommandFailed


def execute(args: argparse.Namespace) -> int:
    """Serve one editor on standard input and output until it leaves; return the exit code."""
    try:
        from servers.cli.editor.language_server import make_server
    except ModuleNotFoundError as error:
        if error.name not in ("pygls", "lsprotocol"):
            raise
        raise CommandFailed(
            "the language server needs pygls, which is not installed",
            hint="pip install 'graphrt[editor]'",
        ) from None
    make_server(make_registry(args)).start_io()
    return 0
