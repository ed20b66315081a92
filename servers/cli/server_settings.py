"""Settings of a server that all commands with one make of their words."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from calculators.kit.settings.declaration import values_of
from servers.access import Access, ApiKeys, KeyFileError, TlsError, TlsFiles
from servers.batches.objects import BatchSettings
from servers.cli.graph_registry import author_file, is_author_file, make_registry
from servers.cli.messages import CommandFailed, print_warning
from servers.cli.serve_options import ServeOptions
from servers.cli.served import ServedSources, check_choice, served
from servers.config import GraphEntry, MetricsConfig, ModelEntry, ServerConfig
from servers.fronts.http import HttpSettings
from servers.fronts.http.browser_guard import is_loopback
from servers.operations.request_log import RequestJournal
from servers.operations.tracing import RunningTraces
from servers.options.server_options import IDLE, ServerOptions
from servers.page.settings import PageSettings
from servers.server.lifecycle import ServerSettings
from servers.serving.loaded_graph import GraphSettings

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
            "--allow_credentials with --allowed_origins *: any page could act for its visitor",
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
        operations=options.page.page_operations,
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
    asked = {
        "page_contents": page.contents,
        "page_operations": page.operations,
        "page_edit": options.page.page_edit,
    }
    flag = next((name for name, is_on in asked.items() if is_on), None)
    if options.page.page is False and flag is not None:
        print_warning(f"--{flag} has no effect: --page=false switches off the page and its data")
    if not page.page or is_local or _knows_clients(access.http.keys, access.tls):
        return
    shown = [f"--{name}" for name in ("page_contents", "page_operations") if asked[name]]
    seen = ["what is served", "how it runs"]
    seen += ["what is asked"] if page.contents else []
    seen += ["what the log says"] if page.operations else []
    print_warning(
        f"{' '.join(['--page=true', *shown])}: everybody who can reach this machine sees the "
        f"page: {', '.join(seen[:-1])} and {seen[-1]}",
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


def server_settings(
    args: argparse.Namespace,
    options: ServeOptions,
    found: ServedSources,
    traces: RunningTraces | None = None,
) -> ServerSettings:
    """Return the settings of a server, so far without fronts and metrics.

    Args:
        found: what it serves.
        traces: where spans go; None: there are none.
    """
    return ServerSettings(
        **values_of(options.lifecycle),
        graphs=found.graphs,
        models=found.models,
        http=None,
        registry=make_registry(args, has_files=False),
        monitoring=found.metrics,
        python_path=found.python_path,
        calculators=(
            *map(author_file, filter(is_author_file, args.calculators)),
            *found.calculators,
        ),
        endpoint_files=found.calculators,
        calculator_modules=tuple(each for each in args.calculators if not is_author_file(each)),
        reread=found.reread,
        graph_settings=GraphSettings(**values_of(options.graphs), families=options.families),
        journal=RequestJournal(
            traces,
            keeps_texts=options.server.log_prompts,
            unknown_members=options.http.unknown_members,
        ),
    )


def batch_settings(
    options: ServeOptions, words: Sequence[str], *, is_shared: bool
) -> BatchSettings | None:
    """Return the settings of batches; None if they are not served.

    Args:
        words: the command line, for the worker.
        is_shared: several servers share the port and the directory.

    Raises:
        CommandFailed: HTTP is switched off.
    """
    if options.batches.batch_dir is None:
        return None
    if options.server.rest_port == 0:
        raise CommandFailed(
            "--batch_dir: files and batches are at the HTTP port, and --rest_port 0 switches HTTP "
            "off",
            status=2,
        )
    from servers.batches.desk import worker_command  # late: most servers have no batches

    return replace(
        settings_in(Path(options.batches.batch_dir).absolute(), options),
        worker_command=worker_command(tuple(words)),
        is_shared=is_shared,
    )


def settings_in(directory: Path, options: ServeOptions) -> BatchSettings:
    """Return the settings of batches in a directory."""
    return BatchSettings(
        directory,
        width=options.batches.batch_width,
        max_requests=options.batches.batch_max_requests,
        max_file_bytes=options.batches.batch_file_size,
        is_idle=options.batches.batch_priority == IDLE,
        max_line_bytes=options.server.max_body_size or HttpSettings().max_body_bytes,
    )


def inner_server(options: ServeOptions, args: argparse.Namespace) -> ServerSettings:
    """Return the settings of a server that listens nowhere and loads what requests name.

    Raises:
        CommandFailed: what to serve cannot be found.
    """
    check_choice(options)
    found = served(options)
    reread = found.reread
    http = HttpSettings(
        hosts=(),
        max_connections=options.batches.batch_width + 1,
        unknown_members=options.http.unknown_members,
        page=PageSettings(page=False),
        families=options.families,
        # Its requests have no keys, and the clients would read each other's responses.
        max_stored_responses=0,
    )
    size = options.server.max_body_size
    if size is not None:
        http = replace(http, max_body_bytes=size, max_tensor_body_bytes=size)
    return replace(
        server_settings(args, options, found),
        graphs=tuple(map(_graph_on_demand, found.graphs)),
        models=tuple(map(_model_on_demand, found.models)),
        http=http,
        reread=lambda: _config_on_demand(reread()),
        metrics=MetricsConfig(enable=False),
    )


def _config_on_demand(config: ServerConfig) -> ServerConfig:
    return replace(
        config,
        graphs=tuple(map(_graph_on_demand, config.graphs)),
        models=tuple(map(_model_on_demand, config.models)),
    )


def _graph_on_demand(entry: GraphEntry) -> GraphEntry:
    return replace(entry, residence=replace(entry.residence, is_on_demand=True))


def _model_on_demand(entry: ModelEntry) -> ModelEntry:
    return replace(entry, residence=replace(entry.residence, is_on_demand=True))
