"""The limit of open files, and so of connections, of this process."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from servers.cli.messages import print_warning

#: Files of graphs, models and child processes, besides connections.
_OTHERS: Final = 1024


def allow_open_files(connections: int) -> None:
    """Raise the limit to what this many connections need. A shell's limit is often 1024."""
    try:
        import resource
    except ImportError:  # no such limit on Windows
        return
    wanted = connections + _OTHERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    if soft < wanted:
        print_warning(
            f"this process may open {soft} files only: too few for {connections} connections",
            f"raise the limit: ulimit -n {wanted}; or lower --max_connections",
        )
