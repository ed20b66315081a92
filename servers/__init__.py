"""The server of graphs and models, and the command line."""

from typing import Final

from graphrt_base.version import version

__all__ = ["NAME", "version"]

#: The name in user agents, metadata and documents.
NAME: Final = "graphrt"
