"""`graphrt serve`: listen, load the graphs, answer until told to stop."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from dataclasses import replace
from errno import EADDRINUSE
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from servers.cli.graph_source import make_registry
from servers.cli.log_lines import set_up_logging
from servers.cli.messages import CommandFailed, print_warning
from servers.cli.package_names import clashes
from servers.cli.serve_arguments import WITHOUT_EFFECT
from servers.cli.task_arguments import TASK, given_options
from servers.config import ConfigError, GraphEntry, ServerConfig, find_graph, read_config
from servers.config.entry import GRAPH_FILE
from servers.graph_definition import GraphDefinition
from servers.lifecycle import ListenError, Server, ServerSettings, serve
from servers.loaded_graph import GraphSettings
from servers.openai_http import HttpSettings
from servers.task_graph import TaskError, TextGeneration, holds_model

_log = logging.getLogger(__name__)

_GRAPH_ENDINGS = (".pbtxt", ".binarypb")


def execute(args: argparse.Namespace) -> int:
    """Run the command; the exit code."""
    _check_ports(args)
    _check_choice(args)
    _check_task(args)
    _check_keys(args)
    set_up_logging("DEBUG" if args.verbose else args.log_level, args.log_path)
    for package, distribution in clashes():
        print_warning(
            f"the package `{package}` of graphrt is also in the distribution {distribution}: one "
            f"has overwritten the other's files",
            "install graphrt in an environment of its own",
        )
    _warn_of_arguments(args)
    settings = ServerSettings(
        graphs=_graphs(args),
        http=_http(args),
        registry=make_registry(args),
        graph_settings=GraphSettings(
            cache_dir=args.cache_dir,
            request_limit=args.request_queue_limit,
            verbose_response=args.verbose_response,
        ),
        drain_seconds=args.drain_seconds,
    )
    try:
        return serve(settings, on_loaded=_report)
    except ListenError as error:
        is_taken = isinstance(error.__cause__, OSError) and error.__cause__.errno == EADDRINUSE
        hint = "choose another port with --rest_port, or `--rest_port auto`" if is_taken else None
        raise CommandFailed(str(error), hint=hint) from error


# Arguments ----------------------------------------------------------------------------------------


def _check_ports(args: argparse.Namespace) -> None:
    if args.rest_port == 0:
        raise CommandFailed(
            "--rest_port 0 switches HTTP off, and there is nothing else to listen with yet",
            hint="`--rest_port auto` takes a free port",
            status=2,
        )
    if args.port is not None and args.port == args.rest_port:
        raise CommandFailed("--port and --rest_port cannot have the same value", status=2)


def _check_choice(args: argparse.Namespace) -> None:
    """Exactly one of CONFIG, --config_path and --model_name with --model_path."""
    of_model = args.model_name is not None or args.model_path is not None
    if args.config is not None and args.config_path is not None:
        raise CommandFailed("use either CONFIG or --config_path, not both", status=2)
    if of_model and args.config_path is not None:
        raise CommandFailed(
            "--model_name and --model_path are exclusive with a config file",
            hint="use either --config_path, or --model_path with --model_name",
            status=2,
        )
    if args.model_path is not None and args.config is not None:
        raise CommandFailed("use either CONFIG or --model_path, not both", status=2)
    if args.config is None and args.config_path is None and args.model_path is None:
        raise CommandFailed(
            "what is to be served?",
            hint="use CONFIG, --config_path, or --model_path with --model_name",
            status=2,
        )
    if args.model_path is not None and not args.model_name:
        raise CommandFailed(
            "--model_path needs --model_name: under which name is the graph served?", status=2
        )


def _check_task(args: argparse.Namespace) -> None:
    """A task and its options are for the one model of a directory."""
    path = args.model_path or args.config or args.config_path
    given = ["task"] if args.task is not None else list(given_options(args))
    if given and not (args.model_path is not None or Path(path).is_dir()):
        raise CommandFailed(
            f"--{given[0]} is for one model, and {path} is no directory of a model",
            hint="use it with --model_path and --model_name; options of a graph's nodes are in its "
            "graph.pbtxt",
            status=2,
        )


def _check_keys(args: argparse.Namespace) -> None:
    """A server that should be locked does not start unlocked."""
    if args.api_key_file is not None:
        raise CommandFailed(
            "--api_key_file: keys are not checked yet, and whoever sets one relies on it",
            hint="let a proxy in front of the server check them",
            status=2,
        )
    if os.environ.get("API_KEY"):
        print_warning("API_KEY is set, and has no effect: keys are not checked yet")


def _warn_of_arguments(args: argparse.Namespace) -> None:
    for name, effect in WITHOUT_EFFECT.items():
        value = getattr(args, name)
        # 0 and false ask for nothing, or for what is so anyway.
        if value is not None and value is not False and value != 0:
            print_warning(f"--{name} has no effect: {effect}")
    if "*" in args.allowed_origins:
        print_warning(
            "--allowed_origins *: pages of any site could use this server, so this is not taken",
            "name the origins: --allowed_origins https://console.example",
        )


def _http(args: argparse.Namespace) -> HttpSettings:
    settings = HttpSettings(
        hosts=args.rest_bind_address,
        port=0 if args.rest_port == "auto" else args.rest_port,
        allowed_hosts=args.allowed_hosts,
        allowed_origins=tuple(origin for origin in args.allowed_origins if origin != "*"),
    )
    if args.max_body_size is None:
        return settings
    return replace(settings, max_body_bytes=args.max_body_size)


# What is served -----------------------------------------------------------------------------------


def _graphs(args: argparse.Namespace) -> tuple[GraphEntry, ...]:
    path = Path(args.config or args.config_path or args.model_path)
    if path.is_dir():
        return (_graph_of_directory(path, args),)
    if args.model_path is not None:
        raise CommandFailed(f"--model_path {path}: no such directory")
    if path.name.endswith(_GRAPH_ENDINGS):
        return (_graph_of_file(path, args.model_name),)
    if args.model_name is not None:
        raise CommandFailed(
            "--model_name is exclusive with a config file, which has the names", status=2
        )
    config = _read(path)
    if not config.graphs:
        print_warning(f"{path}: no graph is listed: nothing is served")
    return config.graphs


def _graph_of_directory(path: Path, args: argparse.Namespace) -> GraphEntry:
    """Its graph.pbtxt; without one a graph for the task, or for the model that it holds."""
    entry = find_graph(path, args.model_name)
    options = given_options(args)
    if entry.graph_path.is_file():
        for name in options:
            print_warning(
                f"--{name} has no effect: {path} has a {GRAPH_FILE}, which is served as it is"
            )
        return entry
    if args.task is None and not holds_model(path):
        config = path / "config.json"
        raise CommandFailed(
            f"{path}: there is no {GRAPH_FILE} in this directory, and no model",
            hint=f"for a config write `graphrt serve {config}`" if config.is_file() else None,
        )
    try:
        text = TextGeneration(**options).graph()
    except TaskError as error:
        raise CommandFailed(str(error), status=2) from error
    _log.info("%s: no %s in its directory: served as %s", entry.name, GRAPH_FILE, TASK)
    return replace(entry, graph_text=text)


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
    if config.metrics is not None and config.metrics.enable:
        print_warning(f"{path}: monitoring has no effect: {WITHOUT_EFFECT['metrics_enable']}")
    return config


# What is said at the start ------------------------------------------------------------------------


def _report(server: Server) -> None:
    """A table of addresses and models, and a request to try: to standard error, as all progress."""
    definitions = server.repository.definitions()
    width = max((len(each.name) for each in definitions), default=0)
    lines = ["", *(f"graphrt serves {address}" for address in server.addresses)]
    lines += [f"  {each.name:{width}}  {_state(each)}" for each in definitions]
    first = next((each for each in definitions if each.graph and each.graph.answers_http), None)
    if first is not None and server.addresses:
        body = {"model": first.name, "messages": [{"role": "user", "content": "Hello"}]}
        # Quotes of the shell around it, so none inside.
        data = json.dumps(body).replace("'", "\\u0027")
        lines += [
            "try:",
            f"  curl {_reachable(server.addresses[0])}/v3/chat/completions "
            f"-H 'Content-Type: application/json' -d '{data}'",
        ]
    print("\n".join(lines), file=sys.stderr, flush=True)


def _state(definition: GraphDefinition) -> str:
    if definition.graph is None:
        return f"failed: {definition.reason}"
    if not definition.graph.answers_http:
        return "loaded, but it does not answer HTTP requests"
    return "ready"


def _reachable(address: str) -> str:
    """An address that a client on this machine can use."""
    parts = urlsplit(address)
    if parts.hostname not in ("0.0.0.0", "::"):
        return address
    return urlunsplit(parts._replace(netloc=f"localhost:{parts.port}"))
