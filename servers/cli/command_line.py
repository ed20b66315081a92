"""`main`: run the command line and return its exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from calculators.kit.garbage import collect_seldom
from servers.cli.arguments import make_parser
from servers.cli.interrupt import INTERRUPTED
from servers.cli.messages import CommandFailed, print_error
from servers.cli.start_signals import take_signals
from servers.cli.words import spread


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code. Wrong usage raises argparse's ``SystemExit(2)``."""
    collect_seldom()
    try:
        try:
            status = _execute(argv)
        except SystemExit:  # after a help or a version, too
            sys.stdout.flush()
            raise
        sys.stdout.flush()
        return status
    except CommandFailed as failure:
        print_error(str(failure), failure.hint)
        return failure.status
    except BrokenPipeError:
        # The reader of standard output has gone, as in `graphrt ... | head`.
        discard_output()
        return 1
    except OSError as error:
        if not _is_output_broken():
            raise
        discard_output()
        print_error(f"standard output cannot be written: {error.strerror or error}")
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def _execute(argv: Sequence[str] | None) -> int:
    words = spread(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["serve"]:
        take_signals()
    parser = make_parser()
    if not words:  # as OpenVINO Model Server does
        parser.print_help()
        return 0
    args = parser.parse_args(words)
    args.words = tuple(words)  # for a process that does the same
    status: int = import_module(args.module).execute(args)
    return status


def _is_output_broken() -> bool:
    """True if standard output takes no text."""
    try:
        sys.stdout.write("\n")  # what could not be written may be gone from the buffer
        sys.stdout.flush()
    except OSError:
        return True
    return False


def discard_output() -> None:
    """Send the rest of standard output to /dev/null, so that the interpreter's flush succeeds."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
