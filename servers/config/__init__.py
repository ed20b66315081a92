"""config.json: what a server serves, in OpenVINO Model Server's form, read into frozen data."""

from servers.config.entry import GraphEntry
from servers.config.server_config import (
    ConfigError,
    MetricsConfig,
    ServerConfig,
    find_graph,
    read_config,
)

__all__ = [
    "ConfigError",
    "GraphEntry",
    "MetricsConfig",
    "ServerConfig",
    "find_graph",
    "read_config",
]
