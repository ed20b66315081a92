"""The arguments of `graphrt serve` for one plain model: what a config says of it, as flags.

OpenVINO Model Server's names (``cli_parser.cpp``). Imports nothing that takes time, as
`servers.cli.arguments`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, Final

from servers.cli.argument_types import count_or_zero

#: The options with their types and what ``--help`` says. The names are keys of a config.
_OPTIONS: Final[dict[str, tuple[Callable[[str], object], str, str]]] = {
    "shape": (str, "SHAPE", '"(1,3,224,224)", with -1 or 2:8 for lengths that vary; or auto'),
    "batch_size": (str, "N", "a number, a range 2:8, or auto"),
    "layout": (str, "LAYOUT", "NHWC:NCHW: what clients send, and what the model takes"),
    "precision": (str, "TYPES", "uint8:fp32: what clients send, and what the model takes"),
    "color_format": (str, "FORMATS", "RGB:BGR: what the model takes, and what clients send"),
    "mean": (str, "NUMBERS", "taken from what clients send: 127.5, or one per channel, [1,2,3]"),
    "scale": (str, "NUMBERS", "what that is divided by"),
    "model_version_policy": (str, "JSON", '{"latest": {"num_versions": 1}}, the default'),
    "nireq": (count_or_zero, "N", "inferences at a time; default 0, as OpenVINO advises"),
}

#: Of the options of a task these are of plain models too.
_SHARED: Final = ("target_device", "plugin_config")


def add_model_arguments(command: argparse.ArgumentParser) -> None:
    """The options of a plain model."""
    group = command.add_argument_group(
        "a plain model",
        "When DIR holds folders of versions, as DIR/1/model.xml, or a model's file is named.\n"
        "--shape and --layout may be JSON objects, by the names of tensors. --target_device and\n"
        "--plugin_config are for this too.",
    )
    for name, (value_type, metavar, text) in _OPTIONS.items():
        group.add_argument(f"--{name}", metavar=metavar, type=value_type, help=text)


def given_model_options(args: argparse.Namespace) -> dict[str, Any]:
    """The options that only plain models have, as they stand on the command line."""
    values = {name: getattr(args, name) for name in _OPTIONS}
    return {name: value for name, value in values.items() if value is not None}


def model_config(args: argparse.Namespace) -> dict[str, Any]:
    """All options of a plain model that stand on the command line."""
    shared = {name: getattr(args, name) for name in _SHARED}
    given = {name: value for name, value in shared.items() if value is not None}
    return {**given_model_options(args), **given}
