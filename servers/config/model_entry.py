"""One plain model to serve: its name, the path of its versions, and its settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calculators.tensors.openvino.model_settings import ANY_INPUT, ModelSettings
from servers.config.load_policy import LoadPolicy, residence_of
from servers.config.model_values import (
    batch_size_of,
    color_format_of,
    layout_of,
    numbers_of,
    precision_of,
    shape_of,
)
from servers.config.scale import Scale, scale_of

#: Schemes of a base_path in a remote store, as in `s3://bucket/model`.
_REMOTE = ("s3://", "gs://", "az://", "azfs://")


@dataclass(frozen=True, slots=True)
class VersionPolicy:
    """The ``specific`` versions, or else the highest ``latest`` ones; None: all versions."""

    latest: int | None = 1
    specific: tuple[int, ...] = ()

    def chosen(self, versions: Iterable[int]) -> list[int]:
        """Return the versions to serve, in ascending order, of the ``versions`` that exist.

        Specific versions are returned whether they exist or not.
        """
        if self.specific:
            return sorted(set(self.specific))
        found = sorted(versions)
        return found if self.latest is None else found[-self.latest :]


def _policy_of(config: Mapping[str, Any] | None) -> VersionPolicy:
    """Return the policy of a checked ``model_version_policy``."""
    if not config:
        return VersionPolicy()
    if "all" in config:
        return VersionPolicy(latest=None)
    if "specific" in config:
        return VersionPolicy(specific=tuple(config["specific"]["versions"]))
    return VersionPolicy(latest=config["latest"]["num_versions"])


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One served model.

    Attributes:
        name: the name that clients and graphs use.
        base_path: a folder with a folder per version, or the file of the one version; absolute.
        policy: the choice of versions.
        settings: the settings of every version.
        is_cached: the compiled model may be kept in the server's cache.
        refusal: why the model cannot be served; "" if it can.
        residence: when the model is in memory. Not compared: a change of it needs no reload.
        scale: its replicas on a cluster. Not compared: on one machine it has no effect.
    """

    name: str
    base_path: Path
    policy: VersionPolicy = field(default_factory=VersionPolicy)
    settings: ModelSettings = field(default_factory=ModelSettings)
    is_cached: bool = True
    refusal: str = ""
    residence: LoadPolicy = field(default_factory=LoadPolicy, compare=False)
    scale: Scale = field(default_factory=Scale, compare=False)


def is_remote(path: str) -> bool:
    """True if a path is that of a store elsewhere."""
    return path.startswith(_REMOTE)


def model_entry_of(config: Mapping[str, Any], root: Path) -> ModelEntry:
    """Return the entry for a checked config object; ``root`` is the directory of config.json."""
    base_path = str(config.get("base_path") or config["name"])
    refusal = ""
    if is_remote(base_path):
        refusal = "its base_path is in a store elsewhere; copy it to this machine"
    elif config.get("custom_loader_options"):
        refusal = "custom loaders are not served"
    return ModelEntry(
        config["name"],
        root / base_path,
        _policy_of(config.get("model_version_policy")),
        _settings_of(config),
        bool(config.get("allow_cache", True)),
        refusal,
        residence_of(config),
        scale_of(config),
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
        scale=None if _is_of_replicas(config) else numbers_of(config["scale"]),
    )


def _is_of_replicas(config: Mapping[str, Any]) -> bool:
    """True if the key ``scale`` has no numbers: it is an object about replicas, or not there."""
    return config.get("scale", "") == "" or isinstance(config["scale"], dict)


def _by_name(value: Any) -> list[tuple[str, Any]]:
    """Return values by the names of inputs. A value without a name is for the only input."""
    if isinstance(value, dict):
        return [(name, each) for name, each in value.items() if each]
    return [(ANY_INPUT, value)] if value else []
