"""The arguments of `graphrt serve` about its log, its traces and its metrics.

Imports nothing that takes time, as `servers.cli.arguments`.
"""

from __future__ import annotations

import argparse
from typing import Final

from servers.cli import argument_types

LOG_FORMATS: Final = ("text", "json")


def add_telemetry_arguments(command: argparse.ArgumentParser) -> None:
    """`servers.cli.telemetry` reads them."""
    group = command.add_argument_group("log, traces and metrics")
    group.add_argument(
        "--metrics_enable",
        metavar="BOOL",
        type=argument_types.switch,
        help="metrics for Prometheus at /metrics of the HTTP port; default true",
    )
    group.add_argument(
        "--metrics_list",
        metavar="NAMES",
        type=argument_types.words,
        help="of the families of OpenVINO Model Server publish these, with commas, not its default "
        "ones; those of graphrt are there anyway",
    )
    group.add_argument(
        "--log_level",
        metavar="LEVEL",
        type=argument_types.log_level,
        default="INFO",
        help=f"{', '.join(argument_types.LOG_LEVELS)}; default INFO",
    )
    group.add_argument(
        "--log_path",
        metavar="FILE",
        help="log to this file too; it may be moved or removed at any time, as logrotate does",
    )
    group.add_argument(
        "--log_format",
        metavar="FORMAT",
        type=argument_types.one_of(LOG_FORMATS),
        default="text",
        help="text, or json: an object per line; default text",
    )
    group.add_argument(
        "--log_prompts",
        metavar="BOOL",
        type=argument_types.switch,
        default=False,
        help="log what language models are asked and what they write; never logged otherwise",
    )
    group.add_argument(
        "--otlp_endpoint",
        metavar="URL",
        type=argument_types.url,
        help="send traces to this OpenTelemetry collector: http://localhost:4318; OpenTelemetry's "
        "variables (OTEL_TRACES_SAMPLER, ...) say the rest; default: what they name, else none",
    )
