"""Log, traces and metrics, made from the arguments of `graphrt serve`."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from typing import Final

from servers.cli.log_lines import JSON, LogStream, set_up_logging
from servers.cli.messages import CommandFailed, print_warning, warn_by
from servers.config import MetricsConfig
from servers.config.metrics_config import refusal_of_list
from servers.operations.tracing import RunningTraces, TracingError, TracingSettings, start_traces
from servers.operations.tracing.settings import is_asked_for
from servers.options.server_options import ServerOptions

_log: Final = logging.getLogger("graphrt")


def set_up_log(
    options: ServerOptions, *, verbose: bool, terminal: LogStream | None = None, worker: int = 0
) -> None:
    """Set up the log by the options, with level DEBUG if ``verbose``.

    ``terminal`` replaces standard error. ``worker``: the number of this process among several.

    Raises:
        CommandFailed: the log's file cannot be written.
    """
    level = "DEBUG" if verbose else options.log_level
    set_up_logging(level, options.log_path, options.log_format, terminal, worker)
    if options.log_format == JSON:
        warn_by(_log.warning)  # a program reads standard error
    if options.log_prompts:
        _log.warning(
            "--log_prompts: PROMPTS AND ANSWERS OF ALL CLIENTS ARE WRITTEN TO THIS LOG, in plain "
            "text; every reader of the log can read them"
        )


def traces_of(options: ServerOptions) -> RunningTraces | None:
    """Start sending spans; None if neither an option nor the environment asks for it.

    Raises:
        CommandFailed: --otlp_endpoint is given, and spans cannot be sent. If only the environment
            asks for them, this is a warning, because it is often set for many services at once.
    """
    if not options.otlp_endpoint and not is_asked_for(os.environ):
        return None
    try:
        return start_traces(TracingSettings(options.otlp_endpoint or ""))
    except TracingError as error:
        if options.otlp_endpoint:
            raise CommandFailed(f"--otlp_endpoint: {error}") from error
        print_warning(f"OTEL_EXPORTER_OTLP_ENDPOINT has no effect: {error}")
        return None


def metrics_of(options: ServerOptions, config: MetricsConfig | None) -> MetricsConfig:
    """Return the choice of metrics, from the options or from ``config``, which is config.json's.

    Raises:
        CommandFailed: both choose, a family is unknown, or HTTP is off, where metrics are read.
    """
    given = MetricsConfig(options.metrics_enable is not False, options.metrics_list)
    is_given = options.metrics_enable is not None or bool(options.metrics_list)
    if is_given and config is not None:
        raise CommandFailed(
            "--metrics_enable and --metrics_list are exclusive with monitoring in the config file",
            status=2,
        )
    if given.metrics_list and not given.enable:
        raise CommandFailed("--metrics_list has no sense with --metrics_enable=false", status=2)
    refusal = refusal_of_list(given.metrics_list)
    if refusal:
        raise CommandFailed(f"--metrics_list: {refusal}", status=2)
    metrics = given if config is None else config
    if options.rest_port == 0:
        if metrics.enable and (is_given or config is not None):
            raise CommandFailed(
                "metrics are at the HTTP port, and --rest_port 0 switches HTTP off", status=2
            )
        return replace(metrics, enable=False)
    return metrics
