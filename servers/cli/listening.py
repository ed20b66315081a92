"""From the arguments of `graphrt serve` to what the fronts listen on, and its limits."""

from __future__ import annotations

import argparse
from dataclasses import replace
from errno import EADDRINUSE
from typing import Final

from servers.cli.access import FrontAccess, allowed_origins
from servers.cli.messages import CommandFailed
from servers.fronts.http import HttpSettings
from servers.fronts.kserve_grpc.settings import GrpcSettings
from servers.server.fronts import GRPC, ListenError

# gRPC's numbers have 32 bits.
_MAX_MESSAGE: Final = 2**31 - 1


def check_ports(args: argparse.Namespace) -> None:
    """One port at least, and not twice the same.

    Raises:
        CommandFailed: else.
    """
    if args.rest_port == 0 and args.port == 0:
        raise CommandFailed(
            "--rest_port 0 switches HTTP off, and without --port nothing else listens",
            hint="`--rest_port auto` takes a free port, `--port 9000` listens with gRPC",
            status=2,
        )
    if args.port == args.rest_port and args.port != "auto":
        raise CommandFailed("--port and --rest_port cannot have the same value", status=2)


def http_settings(args: argparse.Namespace, access: FrontAccess) -> HttpSettings | None:
    """None when HTTP is switched off."""
    if args.rest_port == 0:
        return None
    settings = HttpSettings(
        hosts=args.rest_bind_address,
        port=0 if args.rest_port == "auto" else args.rest_port,
        allowed_hosts=args.allowed_hosts,
        allowed_origins=allowed_origins(args),
        allowed_methods=args.allowed_methods,
        allowed_headers=args.allowed_headers,
        allow_credentials=args.allow_credentials,
        access=access.http,
        tls=access.tls,
        request_seconds=args.request_timeout,
        max_connections=args.max_connections,
    )
    if args.max_body_size is None:
        return settings
    size = args.max_body_size
    return replace(settings, max_body_bytes=size, max_tensor_body_bytes=size)


def grpc_settings(args: argparse.Namespace, access: FrontAccess) -> GrpcSettings | None:
    """None unless gRPC is asked for."""
    if args.port == 0:
        return None
    settings = GrpcSettings(
        hosts=args.grpc_bind_address,
        port=0 if args.port == "auto" else args.port,
        channel_arguments=args.grpc_channel_arguments,
        access=access.grpc,
        tls=access.tls,
        request_seconds=args.request_timeout,
        idle_seconds=args.stream_idle_timeout,
        max_connections=args.max_connections,
    )
    if args.max_body_size is None:
        return settings
    size = min(args.max_body_size, _MAX_MESSAGE)
    return replace(settings, max_message_bytes=size, max_parsed_bytes=size)


def listen_failure(error: ListenError) -> CommandFailed:
    """What is said of an address that cannot be listened on."""
    is_taken = isinstance(error.__cause__, OSError) and error.__cause__.errno == EADDRINUSE
    flag = "--port" if error.scheme == GRPC else "--rest_port"
    hint = f"choose another port with {flag}, or `{flag} auto`" if is_taken else None
    return CommandFailed(str(error), hint=hint)
