"""The supervisor of `graphrt serve`, of `--workers N` or of a front of a cluster."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from typing import Final

from calculators.kit.requests.server_secret import server_secret
from servers.cli.access import FrontAccess
from servers.cli.listening import grpc_settings, http_settings, listen_failure
from servers.cli.log_lines import JSON
from servers.cli.messages import CommandFailed
from servers.cli.serve_options import ServeOptions
from servers.server.fronts import GRPC, HTTP, ListenError
from servers.server.workers.crew import CrewSettings, run_crew
from servers.server.workers.ports import ReservedPorts

#: Whether several processes can listen on one port, and the system spreads its connections.
_CAN_SHARE_PORTS: Final = sys.platform == "linux" and hasattr(socket, "SO_REUSEPORT")


def is_supervised(options: ServeOptions) -> bool:
    """Return whether fronts run in processes of their own, below a supervisor.

    A front of a Ray cluster does, too: Ray ends its process when the cluster's head has died.
    """
    return options.server.workers > 1 or (options.server.on is not None and _CAN_SHARE_PORTS)


def check_workers(options: ServeOptions) -> None:
    """Check that several processes can do all that the options ask for.

    Raises:
        CommandFailed: an option has one owner, or this system cannot share a port.
    """
    if options.server.workers == 1:
        return
    if not _CAN_SHARE_PORTS:
        raise CommandFailed(
            "--workers: this system does not spread the connections of one port over processes",
            hint="run a server per port, and a proxy in front of them",
            status=2,
        )
    if options.server.on is not None:
        raise CommandFailed(
            f"--workers and --on {options.server.on} exclude each other: replicas are processes "
            "already",
            hint='say "scale": {"min_replicas": N} in config.json',
            status=2,
        )


def supervise(words: Sequence[str], options: ServeOptions, access: FrontAccess) -> int:
    """Serve by several processes until a signal to stop, and return the exit code.

    ``words`` are those of the command line, which each worker reads too.

    Raises:
        CommandFailed: a port is taken.
    """
    http, grpc = http_settings(options, access), grpc_settings(options, access)
    ports = ReservedPorts()
    try:
        settings = CrewSettings(
            words=words,
            workers=options.server.workers,
            http_port=0 if http is None else ports.reserve(HTTP, http.hosts, http.port),
            grpc_port=0 if grpc is None else ports.reserve(GRPC, grpc.hosts, grpc.port),
            poll_seconds=options.lifecycle.poll_seconds,
            drain_seconds=options.lifecycle.drain_seconds,
        )
        server_secret()  # before the workers start, so that each reads what another has written
        return run_crew(settings, _print if options.server.log_format != JSON else _ignore)
    except ListenError as error:
        raise listen_failure(error) from error
    except OSError as error:
        raise CommandFailed(
            f"--workers: there is no folder for temporary files: {error.strerror}"
        ) from error
    finally:
        ports.close()


def _print(report: str) -> None:
    print(report, file=sys.stderr, flush=True)


def _ignore(report: str) -> None:
    return
