"""One worker of `graphrt serve --workers N`: ``python -m servers.cli.worker DESCRIPTOR PARENT``.

The supervisor starts it, and sends the words of its own command line.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from typing import Final

from calculators.kit.child_process.parent_connection import ParentGone, die_with_parent
from servers.cli.arguments import make_parser
from servers.cli.messages import CommandFailed, print_error, warn_by
from servers.cli.serve import execute
from servers.server.workers.worker import WorkerConnection, received_begin

_log: Final = logging.getLogger(__name__)


def main(descriptor: int, parent: int) -> int:
    """Serve until the supervisor stops the process or is gone; return the exit code."""
    # The supervisor reports to the service manager.
    os.environ.pop("NOTIFY_SOCKET", None)
    connection = socket.socket(fileno=descriptor)
    connection.set_inheritable(False)
    # Open to the end of the process, which has more to close than its event loop: a cluster.
    os.dup(descriptor)
    try:
        die_with_parent(parent)
        begin = received_begin(connection)
    except (ParentGone, OSError):
        return 1
    # The supervisor has printed the warnings about the same words.
    warn_by(_log.debug)
    try:
        args = make_parser().parse_args(begin.words)
        args.words = tuple(begin.words)
        args.worker = WorkerConnection(connection, begin)
        return execute(args)
    except CommandFailed as failure:
        print_error(str(failure), failure.hint)
        return failure.status


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
