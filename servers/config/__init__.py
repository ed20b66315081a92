"""config.json, in OpenVINO Model Server's form, read into frozen data."""

from servers.config.entry import GraphEntry
from servers.config.load_policy import LoadPolicy
from servers.config.metrics_config import MetricsConfig
from servers.config.model_entry import ModelEntry, VersionPolicy
from servers.config.server_config import (
    ConfigError,
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
