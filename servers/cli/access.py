"""From the arguments of `graphrt serve` to who may ask for what, with warnings where it is much."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from servers.access import Access, ApiKeys, KeyFileError, TlsError, TlsFiles
from servers.cli.messages import CommandFailed, print_warning
from servers.fronts.http.browser_guard import is_loopback

_log: Final = logging.getLogger(__name__)


class FrontAccess(NamedTuple):
    """Of both fronts; they may listen on addresses of different reach."""

    http: Access
    grpc: Access
    tls: TlsFiles | None


def access_of(args: argparse.Namespace) -> FrontAccess:
    """Read the files that are named.

    Raises:
        CommandFailed: one cannot be used, or the arguments do not go together.
    """
    if args.allow_credentials and "*" in args.allowed_origins:
        raise CommandFailed(
            "--allow_credentials with --allowed_origins *: any page could act for whoever opens it",
            hint="name the origins: --allowed_origins https://console.example",
            status=2,
        )
    keys = _keys(args)
    tls = _tls(args)
    knows_clients = keys is not None or (tls is not None and tls.client_ca is not None)

    def of(hosts: Sequence[str]) -> Access:
        is_local = all(map(is_loopback, hosts))
        allows_control = knows_clients or is_local or args.allow_repository_control
        return Access(keys, args.open_routes, allows_control)

    return FrontAccess(of(args.rest_bind_address), of(args.grpc_bind_address), tls)


def allowed_origins(args: argparse.Namespace) -> tuple[str, ...]:
    """The pages that may call: ``*`` only where they need a key, too."""
    if args.api_key_file or os.environ.get("API_KEY"):
        return tuple(args.allowed_origins)
    return tuple(origin for origin in args.allowed_origins if origin != "*")


def warn_of_access(args: argparse.Namespace, access: FrontAccess) -> None:
    """Say what others may do that perhaps nobody thought of."""
    keys = access.http.keys
    if keys is not None:
        source = args.api_key_file or "$API_KEY"
        _log.info("%s: requests need one of its %d API keys", source, len(keys))
    if keys is not None and keys.is_open_to_others:
        print_warning(
            f"{args.api_key_file}: every user of this machine can read the API keys",
            f"chmod 600 {args.api_key_file}",
        )
    if access.tls is not None and access.tls.is_open_to_others:
        print_warning(
            f"{args.tls_key}: every user of this machine can read the private key",
            f"chmod 600 {args.tls_key}",
        )
    if keys is None and "*" in args.allowed_origins:
        print_warning(
            "--allowed_origins *: pages of any site could use this server, so this is not taken",
            "set API keys, or name the origins: --allowed_origins https://console.example",
        )
    _warn_of_reach(args, access)


def _warn_of_reach(args: argparse.Namespace, access: FrontAccess) -> None:
    keys, tls = access.http.keys, access.tls
    wide = [
        f"--{flag} {','.join(hosts)}"
        for flag, hosts, port in (
            ("rest_bind_address", args.rest_bind_address, args.rest_port),
            ("grpc_bind_address", args.grpc_bind_address, args.port),
        )
        if port != 0 and not all(map(is_loopback, hosts))
    ]
    if not wide:
        return
    if keys is None and (tls is None or tls.client_ca is None):
        print_warning(
            f"{', '.join(wide)}: EVERYBODY WHO CAN REACH THIS MACHINE CAN USE THIS SERVER: it "
            f"asks for no API key",
            "--api_key_file FILE, with a key per line",
        )
    elif keys is not None and tls is None:
        print_warning(
            f"{', '.join(wide)}: API keys cross the network as plain text",
            "--tls_certificate and --tls_key, or a proxy that speaks TLS in front of the server",
        )


def _keys(args: argparse.Namespace) -> ApiKeys | None:
    """Those of the file, else of the environment, as OpenVINO Model Server has it."""
    try:
        if args.api_key_file:
            return ApiKeys.of_file(Path(args.api_key_file))
        if os.environ.get("API_KEY"):
            return ApiKeys.of_text(os.environ["API_KEY"], "$API_KEY")
    except KeyFileError as error:
        raise CommandFailed(str(error), hint="nothing is served without the keys") from error
    return None


def _tls(args: argparse.Namespace) -> TlsFiles | None:
    if bool(args.tls_certificate) != bool(args.tls_key):
        raise CommandFailed("--tls_certificate and --tls_key need each other", status=2)
    if not args.tls_certificate:
        if args.tls_client_ca:
            raise CommandFailed("--tls_client_ca needs --tls_certificate and --tls_key", status=2)
        return None
    client_ca = Path(args.tls_client_ca) if args.tls_client_ca else None
    try:
        return TlsFiles(Path(args.tls_certificate), Path(args.tls_key), client_ca)
    except TlsError as error:
        raise CommandFailed(str(error)) from error
