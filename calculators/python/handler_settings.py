"""`HandlerSettings`: all that a handler is loaded with."""

from __future__ import annotations

from typing import Any

import msgspec


class HandlerSettings(msgspec.Struct, frozen=True, tag="load", array_like=True):
    """Of one node; the same for each instance of its handler, in a thread or in a process.

    Attributes:
        path: of the file.
        input_names, output_names: of the node's streams, in the order of the graph.
        streams: names of the outputs that take what the handler gives.
        response: the one of them that takes an HTTP answer; None without one.
        may_generate: the node has ``LOOPBACK``, so that it is called again.
        log_level: a number of ``logging``, for a process that logs for itself.
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
        """What ``initialize`` gets."""
        return {
            "node_name": self.node_name,
            "input_names": list(self.input_names),
            "output_names": list(self.output_names),
            "base_path": self.base_path,
        }
