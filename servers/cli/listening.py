"""Settings of the fronts, made from the options of `graphrt serve`."""

from __future__ import annotations

from dataclasses import replace
from errno import EADDRINUSE
from typing import Final

from calculators.kit.settings.declaration import values_of
from servers.cli.access import FrontAccess, allowed_origins, page_settings
from servers.cli.messages import CommandFailed
from servers.cli.serve_options import ServeOptions
from servers.fronts.http import HttpSettings
from servers.fronts.kserve_grpc.settings import GrpcSettings
from servers.server.fronts import GRPC, ListenError

# gRPC's settings are 32-bit integers.
_MAX_MESSAGE: Final = 2**31 - 1


def check_ports(options: ServeOptions) -> None:
    """Check that there is a port, and that both ports differ.

    Raises:
        CommandFailed: there is none, or they do not differ.
    """
    if options.server.rest_port == 0 and options.server.port == 0:
        raise CommandFailed(
            "--rest_port 0 switches HTTP off, and without --port nothing else listens",
            hint="`--rest_port auto` takes a free port, `--port 9000` listens with gRPC",
            status=2,
        )
    if options.server.port == options.server.rest_port and options.server.port != "auto":
        raise CommandFailed("--port and --rest_port cannot have the same value", status=2)


def http_settings(options: ServeOptions, access: FrontAccess) -> HttpSettings | None:
    """Return the settings of HTTP; None if it is switched off."""
    server = options.server
    if server.rest_port == 0:
        return None
    settings = HttpSettings(
        **{**values_of(options.http), "allowed_origins": allowed_origins(options)},
        port=_number(server.rest_port),
        access=access.http,
        tls=access.tls,
        page=page_settings(options, access),
    )
    if server.max_body_size is None:
        return settings
    size = server.max_body_size
    return replace(settings, max_body_bytes=size, max_tensor_body_bytes=size)


def grpc_settings(options: ServeOptions, access: FrontAccess) -> GrpcSettings | None:
    """Return the settings of gRPC; None if it is switched off."""
    server = options.server
    if server.port == 0:
        return None
    settings = GrpcSettings(
        **values_of(options.grpc),
        port=_number(server.port),
        access=access.grpc,
        tls=access.tls,
    )
    if server.max_body_size is None:
        return settings
    size = min(server.max_body_size, _MAX_MESSAGE)
    return replace(settings, max_message_bytes=size, max_parsed_bytes=size)


def _number(port: int | str) -> int:
    """Return the number of a port, 0 for ``auto``, which takes a free one."""
    return port if isinstance(port, int) else 0


def listen_failure(error: ListenError) -> CommandFailed:
    """Return the error for an address that cannot be listened on, with a hint."""
    is_taken = isinstance(error.__cause__, OSError) and error.__cause__.errno == EADDRINUSE
    flag = "--port" if error.scheme == GRPC else "--rest_port"
    hint = f"choose another port with {flag}, or `{flag} auto`" if is_taken else None
    return CommandFailed(str(error), hint=hint)
