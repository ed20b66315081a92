"""`graphrt serve`: listen, load the graphs, answer until told to stop."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit, urlunsplit

from calculators.settings.declaration import SettingError, given, options_of, values_of
from calculators.tasks import (
    Task,
    TaskError,
    default_task,
    find_task,
    installed_tasks,
    task_of_node,
)
from graph_runtime import REGISTRY
from servers.cli.access import access_of, warn_of_access
from servers.cli.graph_source import make_registry
from servers.cli.listening import check_ports, grpc_settings, http_settings, listen_failure
from servers.cli.log_lines import JSON
from servers.cli.messages import CommandFailed, print_warning
from servers.cli.open_files import allow_open_files
from servers.cli.plain_model import is_plain_model, plain_model
from servers.cli.serve_options import ServeOptions, serve_options
from servers.cli.telemetry import metrics_of, set_up_log, traces_of
from servers.config import (
    ConfigError,
    GraphEntry,
    MetricsConfig,
    ModelEntry,
    ServerConfig,
    config_of,
    find_graph,
    read_config,
)
from servers.config.entry import GRAPH_FILE
from servers.contract.servable_states import ServableState
from servers.operations.package_names import clashes
from servers.operations.request_log import RequestJournal
from servers.options.server_options import WITHOUT_EFFECT, WITHOUT_EFFECT_AS
from servers.server.fronts import GRPC, HTTP, ListenError
from servers.server.lifecycle import Server, ServerSettings, serve
from servers.serving.graph_definition import GraphDefinition
from servers.serving.loaded_graph import GraphSettings
from servers.serving.servable import Servable

_log = logging.getLogger(__name__)

_GRAPH_ENDINGS = (".pbtxt", ".binarypb")


def execute(args: argparse.Namespace) -> int:
    """Run the command; the exit code."""
    options = serve_options(args)
    server = options.server
    check_ports(options)
    _check_choice(options)
    _check_task(options)
    access = access_of(options)
    set_up_log(server, verbose=args.verbose)
    for package, distribution in clashes():
        print_warning(
            f"the package `{package}` of graphrt is also in the distribution {distribution}: one "
            f"has overwritten the other's files",
            "install graphrt in an environment of its own",
        )
    _warn_of_arguments(args)
    warn_of_access(options, access)
    connections = options.http.max_connections
    allow_open_files(connections * 2 if server.port else connections)
    served = _served(options)
    traces = traces_of(server)
    settings = ServerSettings(
        **values_of(options.lifecycle),
        graphs=served.graphs,
        models=served.models,
        http=http_settings(options, access),
        grpc=grpc_settings(options, access),
        registry=make_registry(args),
        python_path=served.python_path,
        reread=served.reread,
        graph_settings=GraphSettings(**values_of(options.graphs), families=options.families),
        metrics=metrics_of(server, served.metrics),
        journal=RequestJournal(traces, keeps_texts=server.log_prompts),
    )
    try:
        return serve(settings, on_loaded=None if server.log_format == JSON else _report)
    except ListenError as error:
        raise listen_failure(error) from error
    finally:
        if traces is not None:
            traces.close()


# Arguments ----------------------------------------------------------------------------------------


def _check_choice(options: ServeOptions) -> None:
    """Exactly one of CONFIG, --config_path and --model_name with --model_path."""
    server = options.server
    of_model = server.model_name is not None or server.model_path is not None
    if options.config is not None and server.config_path is not None:
        raise CommandFailed("use either CONFIG or --config_path, not both", status=2)
    if of_model and server.config_path is not None:
        raise CommandFailed(
            "--model_name and --model_path are exclusive with a config file",
            hint="use either --config_path, or --model_path with --model_name",
            status=2,
        )
    if server.model_path is not None and options.config is not None:
        raise CommandFailed("use either CONFIG or --model_path, not both", status=2)
    if options.config is None and server.config_path is None and server.model_path is None:
        raise CommandFailed(
            "what is to be served?",
            hint="use CONFIG, --config_path, or --model_path with --model_name",
            status=2,
        )
    if server.model_path is not None and not server.model_name:
        raise CommandFailed(
            "--model_path needs --model_name: under which name is the graph served?", status=2
        )


def _check_task(options: ServeOptions) -> None:
    """A task and its options are for the one model of a directory."""
    server = options.server
    path = server.model_path or options.config or server.config_path or ""
    flags = ["task"] if options.task is not None else list(options.of_task)
    flags += options.of_model
    if flags and not (
        server.model_path is not None or Path(path).is_dir() or is_plain_model(Path(path))
    ):
        raise CommandFailed(
            f"--{flags[0]} is for one model, and {path} is no directory of a model",
            hint="use it with --model_path and --model_name; options of a graph's nodes are in its "
            "graph.pbtxt",
            status=2,
        )


def _warn_of_arguments(args: argparse.Namespace) -> None:
    for name, (_, effect) in WITHOUT_EFFECT.items():
        value = getattr(args, name)
        # These ask for nothing, or for what is so anyway.
        if value not in (None, False, WITHOUT_EFFECT_AS.get(name, 0)):
            print_warning(f"--{name} has no effect: {effect}")


# What is served -----------------------------------------------------------------------------------


class _Served(NamedTuple):
    """What the arguments name, and how to read it again; ``python_path``: of all graphs."""

    graphs: tuple[GraphEntry, ...]
    reread: Callable[[], ServerConfig]
    models: tuple[ModelEntry, ...] = ()
    python_path: tuple[Path, ...] = ()
    metrics: MetricsConfig | None = None


def _served(options: ServeOptions) -> _Served:
    server = options.server
    path = Path(options.config or server.config_path or server.model_path or "")
    if is_plain_model(path) and not _is_graph(path, options):
        models = (plain_model(path, options),)
        return _Served((), lambda: ServerConfig(path, (), models), models)
    if path.is_dir():
        return _with_models(_graph_of_directory(path, options))
    if server.model_path is not None:
        raise CommandFailed(f"--model_path {path}: no such directory, and no model's file")
    if path.name.endswith(_GRAPH_ENDINGS):
        return _with_models(_graph_of_file(path, server.model_name))
    if server.model_name is not None:
        raise CommandFailed(
            "--model_name is exclusive with a config file, which has the names", status=2
        )
    config = _read(path)
    if not config.graphs and not config.models:
        print_warning(f"{path}: no graph and no model is listed: nothing is served")
    reread = partial(read_config, path.absolute())
    return _Served(config.graphs, reread, config.models, config.python_path, config.metrics)


def _is_graph(path: Path, options: ServeOptions) -> bool:
    """A directory with folders of versions may hold a graph in them, or a language model."""
    return path.is_dir() and (
        options.task is not None
        or _task_of(path) is not None
        or find_graph(path).graph_path.is_file()
    )


def _with_models(entry: GraphEntry) -> _Served:
    """A graph with the models that its subconfig lists."""
    config = config_of(entry)
    for finding in config.findings:
        print(finding.to_text(), file=sys.stderr)
    return _Served((entry,), partial(config_of, entry), config.models)


def _graph_of_directory(path: Path, options: ServeOptions) -> GraphEntry:
    """Its graph.pbtxt; without one a graph for the task, or for the model that it holds."""
    entry = find_graph(path, options.server.model_name)
    if entry.graph_path.is_file():
        for name in (*options.of_task, *options.of_model):
            print_warning(
                f"--{name} has no effect: {path} has a {GRAPH_FILE}, which is served as it is"
            )
        return entry
    task = _task_of(path) if options.task is None else find_task(options.task)
    if task is None:
        config = path / "config.json"
        raise CommandFailed(
            f"{path}: there is no {GRAPH_FILE} in this directory, and no model: neither one of a "
            f"task nor a folder of a version, such as 1",
            hint=f"for a config write `graphrt serve {config}`" if config.is_file() else None,
        )
    for name in options.of_model:
        print_warning(f"--{name} has no effect: it is for plain models")
    try:
        text = task.graph(_options_of(task, options.of_task))
    except TaskError as error:
        raise CommandFailed(str(error), status=2) from error
    _log.info("%s: no %s in its directory: served as %s", entry.name, GRAPH_FILE, task.name)
    return replace(entry, graph_text=text)


def _task_of(directory: Path) -> Task | None:
    """The task whose model a directory holds, where it shows."""
    return next((task for task in installed_tasks() if task.recognizes(directory)), None)


def _options_of(task: Task, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options that were given by flag, by the names of the task's fields.

    Raises:
        CommandFailed: one is another task's, or its value cannot be used.
    """
    flags = {each.flag for each in options_of(task.options)}
    for flag in options:
        if flag not in flags:
            known = ", ".join(f"--{each}" for each in sorted(flags)) or "none"
            raise CommandFailed(
                f"--{flag} is no option of the task {task.name}, which has: {known}", status=2
            )
    try:
        return given(task.options, options)
    except SettingError as error:
        raise CommandFailed(str(error), status=2) from None


def _graph_of_file(path: Path, name: str | None) -> GraphEntry:
    """Served under the name of its directory; a file of another name than usual under its own."""
    if not path.is_file():
        raise CommandFailed(f"{path}: no such file")
    path = path.absolute()
    own_name = path.parent.name if path.name == GRAPH_FILE else path.stem
    entry = find_graph(path.parent, name or own_name)
    return GraphEntry(entry.name, path.parent, path, entry.subconfig_path)


def _read(path: Path) -> ServerConfig:
    try:
        config = read_config(path)
    except ConfigError as error:
        for finding in error.findings:
            print(finding.to_text(), file=sys.stderr)
        raise CommandFailed(f"{path} cannot be used; nothing is served") from error
    for finding in config.findings:
        print(finding.to_text(), file=sys.stderr)
    return config


# What is said at the start ------------------------------------------------------------------------


def _report(server: Server) -> None:
    """A table of addresses and models, and a request to try: to standard error, as all progress."""
    definitions = server.repository.servables()
    width = max((len(each.name) for each in definitions), default=0)
    lines = ["", *(f"graphrt serves {address}" for address in server.addresses)]
    lines += [f"  {each.name:{width}}  {_state(each)}" for each in definitions]
    answering = (ServableState.AVAILABLE, ServableState.ON_DEMAND)
    available = [each for each in definitions if each.state in answering]
    first = next((each for each in available if _answers_http(each)), None)
    http = next((each for each in server.addresses if each.startswith(HTTP)), None)
    if http is None:
        address = _reachable(server.addresses[0]).partition("//")[2]
        plain = "" if server.addresses[0].startswith(f"{GRPC}s") else "-plaintext "
        lines += ["try:", f"  grpcurl {plain}{_key_header(server)}{address} list"]
    elif first is None and available:
        name = quote(available[0].name, safe="")
        lines += ["try:", f"  curl {_key_header(server)}{_reachable(http)}/v2/models/{name}"]
    elif first is not None:
        path, body = _example(first)
        # Quotes of the shell around it, so none inside.
        data = json.dumps(body).replace("'", "\\u0027")
        lines += [
            "try:",
            f"  curl {_key_header(server)}{_reachable(http)}{path} "
            f"-H 'Content-Type: application/json' -d '{data}'",
        ]
    print("\n".join(lines), file=sys.stderr, flush=True)
    if not installed_tasks():
        print_warning(
            "no task is installed, so that no model answers over HTTP: install graphrt again "
            "(pip install --no-deps -e .)"
        )
    for point, reason in REGISTRY.failed_entry_points.items():
        print_warning(f'entry point "{point}" could not be loaded: {reason}')


def _state(servable: Servable) -> str:
    if servable.state is ServableState.ON_DEMAND:
        return "on demand: the first request loads it"
    if servable.state is not ServableState.AVAILABLE:
        return f"failed: {servable.reason}"
    if isinstance(servable, GraphDefinition):
        return "ready"
    versions = [entry for entry in servable.index() if entry.state == "READY"]
    failed = [entry for entry in servable.index() if entry.state != "READY"]
    text = f"ready: a plain model, version {', '.join(entry.version for entry in versions)}"
    return text + "".join(f"; version {entry.version} failed: {entry.reason}" for entry in failed)


def _answers_http(servable: Servable) -> bool:
    """Does it take requests such as those of chats?"""
    if not isinstance(servable, GraphDefinition) or servable.graph is None:
        return False
    return servable.graph.answers_http


def _example(servable: Servable) -> tuple[str, dict[str, Any]]:
    """Path and body of a request to it: those of the task that its nodes belong to."""
    assert isinstance(servable, GraphDefinition)
    assert servable.graph is not None
    of_nodes = (task_of_node(node.calculator_type) for node in servable.graph.plan.nodes)
    task = next(filter(None, of_nodes), default_task())
    return task.example(servable.name) if task is not None else ("/v3/", {"model": servable.name})


def _key_header(server: Server) -> str:
    """What a command to try needs besides where there are keys: nobody's is shown."""
    fronts = (server.settings.http, server.settings.grpc)
    needs_key = any(front is not None and front.access.keys is not None for front in fronts)
    return '-H "Authorization: Bearer $API_KEY" ' if needs_key else ""


def _reachable(address: str) -> str:
    """An address that a client on this machine can use."""
    parts = urlsplit(address)
    if parts.hostname not in ("0.0.0.0", "::"):
        return address
    return urlunsplit(parts._replace(netloc=f"localhost:{parts.port}"))
