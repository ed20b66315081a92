"""From the arguments of `graphrt serve` to its log, its traces and its metrics."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from typing import Final

from servers.cli.log_lines import JSON, set_up_logging
from servers.cli.messages import CommandFailed, print_warning, warn_by
from servers.config import MetricsConfig
from servers.config.metrics_config import refusal_of_list
from servers.operations.tracing import RunningTraces, TracingError, TracingSettings, start_traces
from servers.operations.tracing.settings import is_asked_for
from servers.options.server_options import ServerOptions

_log: Final = logging.getLogger("graphrt")


def set_up_log(options: ServerOptions, *, verbose: bool) -> None:
    """Log as the options say, and everything when ``verbose``.

    Raises:
        CommandFailed: the log's file cannot be written.
    """
    set_up_logging("DEBUG" if verbose else options.log_level, options.log_path, options.log_format)
    if options.log_format == JSON:
        warn_by(_log.warning)  # a program reads what is written
    if options.log_prompts:
        _log.warning(
            "--log_prompts: PROMPTS AND ANSWERS OF ALL CLIENTS ARE WRITTEN TO THIS LOG, in plain "
            "text; whoever reads it reads them"
        )


def traces_of(options: ServerOptions) -> RunningTraces | None:
    """What sends spans; None when nobody asks for it.

    Raises:
        CommandFailed: --otlp_endpoint is given, and spans cannot be sent. When only the environment
            asks for them, that is a warning: whoever runs many services sets it for all.
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
    """What is counted; ``config``: what config.json says of it, which is not asked for twice.

    Raises:
        CommandFailed: both say something, a name is none, or nobody could read them.
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
