"""One plain model to serve: its name, where its versions are, and what is to be changed in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calculators.openvino.model_settings import ANY_INPUT, ModelSettings
from servers.config.load_policy import LoadPolicy, residence_of
from servers.config.model_values import (
    batch_size_of,
    color_format_of,
    layout_of,
    numbers_of,
    precision_of,
    shape_of,
)
from servers.config.version_policy import VersionPolicy, policy_of

#: base_path may name a store elsewhere, as `s3://bucket/model`.
_REMOTE = ("s3://", "gs://", "az://", "azfs://")


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One served model.

    Attributes:
        name: what clients and graphs call it.
        base_path: a folder with a folder per version, or the file of the one version; absolute.
        policy: which versions are served.
        settings: of every version.
        is_cached: the compiled model may be kept where the server keeps such.
        refusal: why it cannot be served; "" when it can.
        residence: when it is in memory; another one makes no other model.
    """

    name: str
    base_path: Path
    policy: VersionPolicy = field(default_factory=VersionPolicy)
    settings: ModelSettings = field(default_factory=ModelSettings)
    is_cached: bool = True
    refusal: str = ""
    residence: LoadPolicy = field(default_factory=LoadPolicy, compare=False)


def model_entry_of(config: Mapping[str, Any], root: Path) -> ModelEntry:
    """The entry of a checked config object, ``root`` being the directory of config.json."""
    base_path = str(config.get("base_path") or config["name"])
    refusal = ""
    if base_path.startswith(_REMOTE):
        refusal = "its base_path is in a store elsewhere; copy it to this machine"
    elif config.get("custom_loader_options"):
        refusal = "custom loaders are not served"
    return ModelEntry(
        config["name"],
        root / base_path,
        policy_of(config.get("model_version_policy")),
        _settings_of(config),
        bool(config.get("allow_cache", True)),
        refusal,
        residence_of(config),
    )


def _settings_of(config: Mapping[str, Any]) -> ModelSettings:
    return ModelSettings(
        target_device=config.get("target_device") or "CPU",
        plugin_config=dict(config.get("plugin_config", {})),
        nireq=config.get("nireq", 0),
        shapes={name: shape_of(value) for name, value in _by_name(config.get("shape"))},
        batch_size=batch_size_of(config.get("batch_size", "")),
        layouts={name: layout_of(value) for name, value in _by_name(config.get("layout"))},
        precision=precision_of(config["precision"]) if config.get("precision") else None,
        color_format=color_format_of(config["color_format"])
        if config.get("color_format")
        else None,
        mean=numbers_of(config["mean"]) if config.get("mean", "") != "" else None,
        scale=numbers_of(config["scale"]) if config.get("scale", "") != "" else None,
    )


def _by_name(value: Any) -> list[tuple[str, Any]]:
    """What is said without a name is of the only input."""
    if isinstance(value, dict):
        return [(name, each) for name, each in value.items() if each]
    return [(ANY_INPUT, value)] if value else []
