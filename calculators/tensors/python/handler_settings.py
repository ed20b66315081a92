"""`HandlerSettings`: all that a handler is loaded with."""

from __future__ import annotations

from typing import Any

import msgspec


class HandlerSettings(msgspec.Struct, frozen=True, tag="load", array_like=True):
    """The settings of one node, the same for each instance of its handler.

    Attributes:
        path: the handler's file.
        input_names, output_names: names of the node's streams, in the order of the graph.
        streams: names of the outputs that take the handler's results.
        response: the one of them that takes an HTTP answer, or None.
        may_generate: the node has ``LOOPBACK``, so that generators can be resumed.
        log_level: a level of ``logging``, for the handler's process.
    """

    node_name: str
    path: str
    input_names: list[str]
    output_names: list[str]
    base_path: str
    streams: list[str]
    response: str | None
    may_generate: bool
    log_level: int

    @property
    def kwargs(self) -> dict[str, Any]:
        """The argument of ``initialize``."""
        return {
            "node_name": self.node_name,
            "input_names": list(self.input_names),
            "output_names": list(self.output_names),
            "base_path": self.base_path,
        }
