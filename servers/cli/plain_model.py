"""The plain model that the options of `graphrt serve` name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from calculators.tensors.openvino.model_folder import SUFFIXES, versions_in
from servers.cli.messages import CommandFailed
from servers.cli.serve_options import ServeOptions
from servers.config import ConfigError, ModelEntry, model_of

_ALWAYS_JSON: Final = frozenset({"model_version_policy", "plugin_config"})


def is_plain_model(path: Path) -> bool:
    """True if the path is a model's file, or a directory with folders of versions."""
    return (
        path.suffix in SUFFIXES and path.is_file() if not path.is_dir() else bool(versions_in(path))
    )


def plain_model(path: Path, options: ServeOptions) -> ModelEntry:
    """Return the entry of the model with the settings from the options.

    Raises:
        CommandFailed: an option has an invalid value.
    """
    path = path.absolute()
    own_name = path.name if path.is_dir() else path.stem
    config: dict[str, Any] = {"name": options.server.model_name or own_name, "base_path": str(path)}
    for name, value in options.of_plain_model.items():
        config[name] = value_of_key(name, value)
    try:
        return model_of(path.parent, config)
    except ConfigError as error:
        raise CommandFailed(f"--{error.findings[0].message}", status=2) from error


def value_of_key(name: str, value: Any) -> Any:
    """Return the value of a key in config.json for the value of the flag with this name.

    Raises:
        CommandFailed: it is not JSON.
    """
    is_json = isinstance(value, str) and (name in _ALWAYS_JSON or value.lstrip().startswith("{"))
    if not is_json:
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise CommandFailed(f"--{name} is not JSON: {error}", status=2) from None
