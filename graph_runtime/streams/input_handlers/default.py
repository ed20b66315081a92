"""DefaultInputStreamHandler: all streams together, at timestamps settled on all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graph_runtime.errors import GraphConfigError
from graph_runtime.language.tag_map import TagMap
from graph_runtime.streams.input_handlers.handler import InputStreamHandler, SyncSet, read_options
from graph_runtime.streams.input_stream import InputStream
from protos import messages


@dataclass(frozen=True)
class Settings:
    """The handler's options, checked."""

    batch_size: int = 1


class DefaultInputStreamHandler(SyncSet, InputStreamHandler):
    """Treats its streams as one sync set.

    Options: ``batch_size`` n collects n input sets and processes them in one go.
    """

    is_packet_driven = True

    def __init__(
        self, streams: Sequence[InputStream], settings: Settings, process_bounds: bool
    ) -> None:
        super().__init__(streams, process_bounds)
        self.batch_size = settings.batch_size

    @classmethod
    def prepare(cls, tag_map: TagMap, options: Any, max_in_flight: int) -> Settings:
        size = read_options(options, messages.DefaultInputStreamHandlerOptions).batch_size
        if size < 1:
            raise GraphConfigError(
                f"{cls.__name__}: Batch size has to be greater than or equal to 1: batch_size is "
                f"{size}"
            )
        if size > 1 and max_in_flight > 1:
            raise GraphConfigError(
                f"{cls.__name__}: Batching cannot be combined with parallel execution: batch_size "
                f"is {size} and max_in_flight is {max_in_flight}; one of them must be 1"
            )
        return Settings(size)

    @classmethod
    def sync_groups(cls, count: int, settings: Any) -> list[list[int]]:
        return [list(range(count))]
