"""Settings of a server that all commands with one make of their words."""

from __future__ import annotations

import argparse

from calculators.kit.settings.declaration import values_of
from servers.cli.author_modules import author_file, is_author_file
from servers.cli.graph_registry import make_registry
from servers.cli.serve_options import ServeOptions
from servers.cli.served import Served
from servers.operations.request_log import RequestJournal
from servers.operations.tracing import RunningTraces
from servers.server.lifecycle import ServerSettings
from servers.serving.loaded_graph import GraphSettings


def server_settings(
    args: argparse.Namespace,
    options: ServeOptions,
    found: Served,
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
        calculators=tuple(map(author_file, filter(is_author_file, args.calculators))),
        calculator_modules=tuple(each for each in args.calculators if not is_author_file(each)),
        reread=found.reread,
        graph_settings=GraphSettings(**values_of(options.graphs), families=options.families),
        journal=RequestJournal(
            traces,
            keeps_texts=options.server.log_prompts,
            unknown_members=options.http.unknown_members,
        ),
    )
