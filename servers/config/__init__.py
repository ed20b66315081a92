"""config.json, in OpenVINO Model Server's form, read into frozen data."""

from servers.config.entries import GraphEntry, LoadPolicy, ModelEntry, VersionPolicy
from servers.config.server_config import (
    ConfigError,
    MetricsConfig,
    ServerConfig,
    config_of,
    find_graph,
    model_of,
    models_of,
    read_config,
)

__all__ = [
    "ConfigError",
    "GraphEntry",
    "LoadPolicy",
    "MetricsConfig",
    "ModelEntry",
    "ServerConfig",
    "VersionPolicy",
    "config_of",
    "find_graph",
    "model_of",
    "models_of",
    "read_config",
]
