"""Settings of batches, and of the server inside a process that answers their requests."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from servers.batches.desk import worker_command
from servers.batches.settings import BatchSettings
from servers.cli.messages import CommandFailed
from servers.cli.serve_options import ServeOptions
from servers.cli.served import check_choice, served
from servers.cli.server_settings import server_settings
from servers.config import GraphEntry, MetricsConfig, ModelEntry, ServerConfig
from servers.fronts.http import HttpSettings
from servers.options.batch_options import IDLE
from servers.page.settings import PageSettings
from servers.server.lifecycle import ServerSettings


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
