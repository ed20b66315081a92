"""Access control of `graphrt serve`, made from its arguments, with warnings about wide access."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from servers.access import Access, ApiKeys, KeyFileError, TlsError, TlsFiles
from servers.cli.messages import CommandFailed, print_warning
from servers.cli.serve_options import ServeOptions
from servers.fronts.http.browser_guard import is_loopback
from servers.options.server_options import ServerOptions
from servers.page.settings import PageSettings

_log: Final = logging.getLogger(__name__)


class FrontAccess(NamedTuple):
    """The access of each front: one may listen on the network, the other on this machine only."""

    http: Access
    grpc: Access
    tls: TlsFiles | None


def access_of(options: ServeOptions) -> FrontAccess:
    """Read the files of keys and certificates that the options name.

    Raises:
        CommandFailed: a file cannot be used, or the options exclude each other.
    """
    if options.http.allow_credentials and "*" in options.http.allowed_origins:
        raise CommandFailed(
            "--allow_credentials with --allowed_origins *: any page could act for whoever opens it",
            hint="name the origins: --allowed_origins https://console.example",
            status=2,
        )
    keys = _keys(options.server)
    tls = _tls(options.server)
    knows_clients = _knows_clients(keys, tls)

    def of(hosts: Sequence[str]) -> Access:
        is_local = all(map(is_loopback, hosts))
        allows_control = knows_clients or is_local or options.server.allow_repository_control
        return Access(keys, options.server.open_routes, allows_control)

    return FrontAccess(of(options.http.hosts), of(options.grpc.hosts), tls)


def page_settings(options: ServeOptions, access: FrontAccess) -> PageSettings:
    """Return the permissions of the page.

    By default the page is served where everybody who can reach the server may see it: on this
    machine only, or to clients that the server knows. Trying graphs, which runs calculators with
    options of the client's choice, is by default for this machine's users without keys.
    """
    is_local = all(map(is_loopback, options.http.hosts))
    knows_clients = _knows_clients(access.http.keys, access.tls)
    page, edit = options.page.page, options.page.page_edit
    return PageSettings(
        page=is_local or knows_clients if page is None else page,
        contents=options.page.page_contents,
        edit=is_local and not knows_clients if edit is None else edit,
    )


def allowed_origins(options: ServeOptions) -> tuple[str, ...]:
    """Return the origins of pages that may call the server: ``*`` only if keys are needed."""
    if options.server.api_key_file or os.environ.get("API_KEY"):
        return tuple(options.http.allowed_origins)
    return tuple(origin for origin in options.http.allowed_origins if origin != "*")


def warn_of_access(options: ServeOptions, access: FrontAccess) -> None:
    """Log and warn about access that the operator may not have intended."""
    keys = access.http.keys
    if keys is not None:
        source = options.server.api_key_file or "$API_KEY"
        _log.info("%s: requests need one of its %d API keys", source, len(keys))
    if keys is not None and keys.is_open_to_others:
        print_warning(
            f"{options.server.api_key_file}: every user of this machine can read the API keys",
            f"chmod 600 {options.server.api_key_file}",
        )
    if access.tls is not None and access.tls.is_open_to_others:
        print_warning(
            f"{options.server.tls_key}: every user of this machine can read the private key",
            f"chmod 600 {options.server.tls_key}",
        )
    if keys is None and "*" in options.http.allowed_origins:
        print_warning(
            "--allowed_origins *: pages of any site could use this server, so this is not taken",
            "set API keys, or name the origins: --allowed_origins https://console.example",
        )
    _warn_of_reach(options, access)
    _warn_of_page(options, access)


def _warn_of_reach(options: ServeOptions, access: FrontAccess) -> None:
    keys, tls = access.http.keys, access.tls
    wide = [
        f"--{flag} {','.join(hosts)}"
        for flag, hosts, port in (
            ("rest_bind_address", options.http.hosts, options.server.rest_port),
            ("grpc_bind_address", options.grpc.hosts, options.server.port),
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


def _warn_of_page(options: ServeOptions, access: FrontAccess) -> None:
    is_local = all(map(is_loopback, options.http.hosts))
    if options.server.rest_port == 0:
        return
    page = page_settings(options, access)
    if options.page.page is False and (page.contents or options.page.page_edit):
        flag = "page_contents" if page.contents else "page_edit"
        print_warning(f"--{flag} has no effect: --page=false switches off the page and its data")
    if not page.page or is_local or _knows_clients(access.http.keys, access.tls):
        return
    shown = [f"--{name}" for name, is_on in (("page_contents", page.contents),) if is_on]
    print_warning(
        f"{' '.join(['--page=true', *shown])}: everybody who can reach this machine sees the "
        f"page: what is served, how it runs{' and what is asked' if shown else ''}",
        "--api_key_file FILE, or --page=auto",
    )
    if page.edit:
        print_warning(
            "--page_edit=true: everybody who can reach this machine can run graphs here, with all "
            "calculators that are installed",
            "--api_key_file FILE, or --page_edit=false",
        )


def _knows_clients(keys: ApiKeys | None, tls: TlsFiles | None) -> bool:
    return keys is not None or (tls is not None and tls.client_ca is not None)


def _keys(options: ServerOptions) -> ApiKeys | None:
    """Return the keys of the file, else of $API_KEY, as OpenVINO Model Server does."""
    try:
        if options.api_key_file:
            return ApiKeys.of_file(Path(options.api_key_file))
        if os.environ.get("API_KEY"):
            return ApiKeys.of_text(os.environ["API_KEY"], "$API_KEY")
    except KeyFileError as error:
        raise CommandFailed(str(error), hint="nothing is served without the keys") from error
    return None


def _tls(options: ServerOptions) -> TlsFiles | None:
    if bool(options.tls_certificate) != bool(options.tls_key):
        raise CommandFailed("--tls_certificate and --tls_key need each other", status=2)
    if not options.tls_certificate or not options.tls_key:
        if options.tls_client_ca:
            raise CommandFailed("--tls_client_ca needs --tls_certificate and --tls_key", status=2)
        return None
    client_ca = Path(options.tls_client_ca) if options.tls_client_ca else None
    try:
        return TlsFiles(Path(options.tls_certificate), Path(options.tls_key), client_ca)
    except TlsError as error:
        raise CommandFailed(str(error)) from error
