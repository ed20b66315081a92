"""`graphrt serve`: listen, load the graphs, answer requests until a signal to stop."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from errno import EADDRINUSE
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO
from urllib.parse import quote, urlsplit, urlunsplit

from calculators.kit.child_process.early_start import end_untaken
from calculators.kit.requests.server_secret import server_secret
from calculators.kit.settings.declaration import values_of
from calculators.kit.tasks import AuthorEndpoint, default_task, find_task, installed_tasks
from graph_runtime import REGISTRY
from servers.batches.objects import StoreError
from servers.cli.messages import CommandFailed, print_warning
from servers.cli.on_cluster import check_cluster, on_cluster
from servers.cli.serve_options import ServeOptions, serve_options
from servers.cli.served import check_choice, served
from servers.cli.server_settings import (
    FrontAccess,
    access_of,
    allowed_origins,
    batch_settings,
    page_settings,
    server_settings,
    warn_of_access,
)
from servers.cli.stored_models import store_directory
from servers.cli.telemetry import JSON, metrics_of, set_up_log, traces_of
from servers.config import GraphEntry
from servers.contract.data_plane import ServableState
from servers.fronts.http import HttpSettings
from servers.fronts.kserve_grpc.settings import GrpcSettings
from servers.operations.process import CLASH_HINT, clash_text, clashes
from servers.options.server_options import WITHOUT_EFFECT, WITHOUT_EFFECT_AS, ServerOptions
from servers.server.fronts import GRPC, HTTP, OLLAMA, ListenError
from servers.server.lifecycle import Server, serve
from servers.server.workers.worker import WorkerConnection
from servers.serving.python_path import ImportFailure, SharedModulesError
from servers.serving.servable import Loading, Servable

if TYPE_CHECKING:
    from servers.server.client_models import ClientModels

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
        families=options.families,
        model_changes=_model_changes(options),
    )
    if server.max_body_size is None:
        return settings
    size = server.max_body_size
    return replace(settings, max_body_bytes=size, max_tensor_body_bytes=size)


def _model_changes(options: ServeOptions) -> ClientModels | None:
    """Return the changes that clients may make to what is served; None: they may make none.

    Raises:
        CommandFailed: they may, but there is no config.json to change.
    """
    if not options.server.allow_model_pulls:
        return None
    words = [*options.sources, *filter(None, [options.server.config_path])]
    if len(words) != 1 or not words[0].endswith(".json"):
        raise CommandFailed(
            "--allow_model_pulls needs a config.json, which gets what clients download", status=2
        )
    # Here: few servers let clients do that.
    from servers.server.client_models import ClientModels

    store = store_directory(options.repository.model_repository_path)
    return ClientModels(Path(words[0]).absolute(), store.absolute())


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
    if error.scheme == OLLAMA:
        hint = "is Ollama running? Stop it, or leave --ollama out"
    return CommandFailed(str(error), hint=hint)


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

    ``words``: the command line's, which each worker reads too.

    Raises:
        CommandFailed: a port is taken.
    """
    # Late: one process needs none of them.
    from servers.server.workers.crew import CrewSettings, ReservedPorts, run_crew

    http, grpc = http_settings(options, access), grpc_settings(options, access)
    ports = ReservedPorts()
    directory: str | None = None
    try:
        if http is not None and http.response_store is None and http.max_stored_responses:
            # Workers share what they keep: the next request may reach another one.
            directory = tempfile.mkdtemp(prefix="graphrt-responses-")
            words = [*words, "--response_store", directory]
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
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)


def _print(report: str) -> None:
    print(report, file=sys.stderr, flush=True)


def _ignore(report: str) -> None:
    return


_WIDTH: Final = 24
_CLEAR: Final = "\r\x1b[K"


class LoadBar:
    """Draws a bar below the log, whose texts are written as `above` returns them.

    With several graphs and models it shows the one that is furthest behind.
    """

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._shown = ""

    def show(self, loading: Sequence[Loading]) -> None:
        """Draw what is being loaded; the bar is erased if nothing is."""
        text = self._text(loading) if loading else ""
        if text != self._shown:
            self._shown = text
            self._terminal.write(_CLEAR + text)
            self._terminal.flush()

    def above(self, text: str) -> str:
        """Return what writes lines of the log above the bar."""
        return f"{_CLEAR}{text}{self._shown}" if self._shown else text

    def _text(self, loading: Sequence[Loading]) -> str:
        slowest = min(loading, key=lambda each: each.percent)
        percent = slowest.percent
        filled = round(percent / 100 * _WIDTH)
        bar = f"[{'#' * filled}{'.' * (_WIDTH - filled)}]"
        more = f" and {len(loading) - 1} more" if len(loading) > 1 else ""
        text = (
            f"{bar} {percent:2d}% {_printable(slowest.name)}{more}: {slowest.progress.phase}, "
            f"{slowest.seconds:.0f} s"
        )
        # A line that wraps could not be erased.
        return text[: shutil.get_terminal_size().columns - 1]


def _printable(name: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in name)


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


def execute(args: argparse.Namespace) -> int:
    """Run the command and return the exit code."""
    options = serve_options(args)
    server = options.server
    check_ports(options)
    check_choice(options)
    check_workers(options)
    check_cluster(options)
    access = access_of(options)
    worker: WorkerConnection | None = getattr(args, "worker", None)
    is_supervisor = worker is None and is_supervised(options)
    bar = _load_bar(server) if worker is None and not is_supervisor else None
    set_up_log(
        server,
        verbose=args.verbose,
        shown=str if bar is None else bar.above,
        worker=0 if worker is None or server.workers == 1 else worker.begin.number,
    )
    for package, distribution in clashes():
        print_warning(clash_text(package, distribution), CLASH_HINT)
    _warn_of_arguments(args)
    warn_of_access(options, access)
    connections = options.http.max_connections
    allow_open_files(connections * 2 if server.port else connections)
    # In the supervisor too, before its workers do the same: one process downloads and exports, and
    # wrong arguments are reported once.
    found = served(options)
    if is_supervisor:
        return supervise(args.words, options, access)
    traces = traces_of(server)
    http, grpc = http_settings(options, access), grpc_settings(options, access)
    if worker is not None:
        if http is not None:
            http = replace(http, port=worker.begin.http_port, shares_port=True)
        if grpc is not None:
            grpc = replace(grpc, port=worker.begin.grpc_port, shares_port=True)
    settings = replace(
        server_settings(args, options, found, traces),
        http=http,
        grpc=grpc,
        metrics=metrics_of(server, found.metrics),
        batches=batch_settings(options, args.words, is_shared=worker is not None),
    )
    try:
        with on_cluster(settings, options) as placed:
            return serve(
                placed,
                on_loaded=_loaded if server.log_format == JSON else _loaded_and_reported,
                show_loading=None if bar is None else bar.show,
                worker=worker,
                report=_report_text,
            )
    except ListenError as error:
        raise listen_failure(error) from error
    except StoreError as error:
        why = f": {error.__cause__}" if error.__cause__ else ""
        raise CommandFailed(f"--{error.option}: {error}{why}") from error
    except SharedModulesError as error:
        texts = (_import_failure(each, found.calculators) for each in error.failures)
        raise CommandFailed("\n".join(texts)) from error
    finally:
        end_untaken()
        if traces is not None:
            traces.close()


def _loaded(server: Server) -> None:
    end_untaken()


def _loaded_and_reported(server: Server) -> None:
    end_untaken()
    _report(server)


def _load_bar(options: ServerOptions) -> LoadBar | None:
    """Return a bar for standard error; None unless people read it on a terminal."""
    is_for_people = options.log_format != JSON and os.environ.get("TERM") != "dumb"
    return LoadBar(sys.stderr) if is_for_people and sys.stderr.isatty() else None


def _import_failure(failure: ImportFailure, served: Collection[Path]) -> str:
    """Return a line about a file of ``--calculators``, or one that is ``served`` itself."""
    file = os.path.relpath(failure.file)
    shown = replace(failure, file=failure.file if file.startswith(os.pardir) else Path(file))
    return str(shown) if failure.file in served else f"`--calculators {shown.file}`: {shown}"


def _warn_of_arguments(args: argparse.Namespace) -> None:
    for name, (_, effect) in WITHOUT_EFFECT.items():
        value = getattr(args, name)
        # These values ask for nothing, or for what is so anyway.
        if value not in (None, False, WITHOUT_EFFECT_AS.get(name, 0)):
            print_warning(f"--{name} has no effect: {effect}")


# The report at the start --------------------------------------------------------------------------


def _report(server: Server) -> None:
    """Print the report on standard error."""
    print(_report_text(server), file=sys.stderr, flush=True)
    if not installed_tasks():
        print_warning(
            "no task is installed, so that no model answers over HTTP: install graphrt again "
            "(pip install --no-deps -e .)"
        )
    for point, reason in REGISTRY.failed_entry_points.items():
        print_warning(f'entry point "{point}" could not be loaded: {reason}')


def _report_text(server: Server) -> str:
    """Return addresses, models and a request to try."""
    definitions = server.repository.servables()
    width = max((len(each.name) for each in definitions), default=0)
    lines = ["", *(f"graphrt serves {address}" for address in server.addresses)]
    lines += [f"  {each.name:{width}}  {_state(each)}" for each in definitions]
    answering = (ServableState.AVAILABLE, ServableState.ON_DEMAND)
    available = [each for each in definitions if each.state in answering]
    first = next((each for each in available if _answers_http(each)), None)
    http = next((each for each in server.addresses if each.startswith(HTTP)), None)
    lines += _apis(available, http, server)
    if http is None:
        address = _reachable(server.addresses[0]).partition("//")[2]
        plain = "" if server.addresses[0].startswith(f"{GRPC}s") else "-plaintext "
        lines += ["try:", f"  grpcurl {plain}{_key_header(server)}{address} list"]
    elif first is None and available:
        name = quote(available[0].name, safe="")
        lines += ["try:", f"  curl {_key_header(server)}{_reachable(http)}/v2/models/{name}"]
    elif first is not None:
        path, body = _example(first)
        # A query has characters that shells read.
        url = shlex.quote(f"{_reachable(http)}{path}")
        lines += ["try:", f"  curl {_key_header(server)}{url} {_data(body)}".rstrip()]
    return "\n".join(lines)


#: What clients of an API of language models take as its base URL, behind the server's address.
_BASES: Final = (
    ("OpenAI", "/v1"),
    ("Anthropic, Google, Ollama, Cohere", ""),
    ("Hugging Face, llama.cpp, SGLang", ""),
)


def _apis(available: Sequence[Servable], http: str | None, server: Server) -> list[str]:
    """Return a table of the APIs that answer, with the address that their clients take."""
    rows: list[tuple[str, str]] = []
    if http is not None and any(map(_answers_http, available)):
        rows += [(name, f"{_reachable(http)}{path}") for name, path in _BASES]
    if available:
        kserve = [] if http is None else [f"{_reachable(http)}/v2"]
        kserve += [_reachable(each) for each in server.addresses if not each.startswith(HTTP)]
        rows.append(("KServe", ", ".join(kserve)))
    width = max((len(name) for name, _ in rows), default=0)
    lines = [f"  {name:{width}}  {url}" for name, url in rows]
    return ["base URLs for clients:", *lines] if lines else []


def _state(servable: Servable) -> str:
    if servable.state is ServableState.ON_DEMAND:
        return "on demand: the first request loads it"
    if servable.state is not ServableState.AVAILABLE:
        return f"failed: {servable.reason}"
    if isinstance(servable.entry, GraphEntry):
        return "ready"
    versions = [entry for entry in servable.index() if entry.state == "READY"]
    failed = [entry for entry in servable.index() if entry.state != "READY"]
    text = f"ready: a plain model, version {', '.join(entry.version for entry in versions)}"
    return text + "".join(f"; version {entry.version} failed: {entry.reason}" for entry in failed)


def _answers_http(servable: Servable) -> bool:
    """Return True if the servable answers HTTP requests of a task, such as chats."""
    return servable.state is ServableState.AVAILABLE and servable.http_role is not None


def _example(servable: Servable) -> tuple[str, Mapping[str, object] | None]:
    """Return path and body of an example request, from the task of the servable's nodes, or from
    the signature of an author's function."""
    role = servable.http_role
    if role is not None and role.endpoints:
        return _example_of(role.endpoints[0])
    task = find_task(role.task) if role is not None and role.task else default_task()
    return task.example(servable.name) if task is not None else ("/v3/", {"model": servable.name})


#: A value for each type of JSON's schemas.
_VALUES: Final = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}


def _example_of(endpoint: AuthorEndpoint) -> tuple[str, Mapping[str, object] | None]:
    """Return path and body of a request to an author's endpoint, with what it must have."""
    operation = endpoint.description.operations[0]
    path, query = endpoint.path, []
    for each in operation.own_parameters:
        value = _value_of(each["schema"])
        if each["in"] == "path":
            path = path.replace(f"{{{each['name']}}}", str(value))
        elif each["required"]:
            query.append(f"{each['name']}={value}")
    if query:
        path += f"?{'&'.join(query)}"
    if operation.body is None:
        return path, None
    schema = next(iter(operation.body.values()))["schema"]
    known = endpoint.description.schemas
    schema = known.get(schema.get("$ref", "").rpartition("/")[2], schema)
    members = schema.get("properties", {})
    return path, {name: _value_of(members[name]) for name in schema.get("required", ())}


def _value_of(schema: Mapping[str, Any]) -> object:
    if schema.get("format") == "binary":
        return "@FILE"
    return schema["enum"][0] if "enum" in schema else _VALUES.get(schema.get("type", ""), "text")


def _data(body: Mapping[str, Any] | None) -> str:
    """Return curl's options for a body: JSON, or a form if a value is a file (``@speech.wav``)."""
    if body is None:
        return ""
    if any(isinstance(value, str) and value.startswith("@") for value in body.values()):
        return " ".join(f"-F {shlex.quote(f'{name}={value}')}" for name, value in body.items())
    # The shell's quotes are around it, so there must be none inside.
    data = json.dumps(body).replace("'", "\\u0027")
    return f"-H 'Content-Type: application/json' -d '{data}'"


def _key_header(server: Server) -> str:
    """Return the header for keys, as curl's option; "" without keys. It contains no key."""
    fronts = (server.settings.http, server.settings.grpc)
    needs_key = any(front is not None and front.access.keys is not None for front in fronts)
    return '-H "Authorization: Bearer $API_KEY" ' if needs_key else ""


def _reachable(address: str) -> str:
    """Return an address that a client on this machine can use."""
    parts = urlsplit(address)
    if parts.hostname not in ("0.0.0.0", "::"):
        return address
    return urlunsplit(parts._replace(netloc=f"localhost:{parts.port}"))
