"""`Solution`: a graph that takes one image and answers before it takes the next."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from calculators.image.image_format import ImageFormat
from calculators.image.image_frame import ImageFrame
from calculators.image.scaling import check_size
from calculators.vision.solutions.node_options import expanded_with
from graph_runtime import (
    REGISTRY,
    CalculatorGraph,
    Packet,
    Registry,
    SubgraphContext,
    validate_graph,
)

Image = npt.NDArray[np.uint8]

#: Microseconds between two images without timestamps: 30 per second, as MediaPipe counts.
STEP: Final = 33333


class Solution:
    """One of MediaPipe's graphs, run image by image. Not for several threads at once.

    A context manager; `close` ends the graph.
    """

    def __init__(
        self,
        subgraph: str,
        outputs: Mapping[str, str],
        side_packets: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> None:
        """
        Args:
            subgraph: the registered name; the graph's input is the stream "image".
            outputs: results by name: the name of the graph's output stream.
            side_packets: by name.
            options: of inner nodes, by ``node.field``.
        """
        registry = _registry()
        found = registry.find_subgraph(subgraph)
        assert found is not None, "the family registers it"
        made = found.make(SubgraphContext(None))
        config = expanded_with(made, registry, options)
        self._outputs = dict(outputs)
        self._side_packets = dict(side_packets)
        self._graph = CalculatorGraph(validated_graph=validate_graph(config, registry=registry))
        self._seen: dict[str, Any] = {}
        for name, stream in self._outputs.items():
            self._observe(name, stream)
        self._time = 0
        self._is_running = False

    def _observe(self, name: str, stream: str) -> None:
        def keep(_: str, packet: Packet) -> None:
            self._seen[name] = packet.value

        self._graph.observe_output_stream(stream, keep)

    def _process(self, image: Image, timestamp: int | None) -> dict[str, Any]:
        """Run the graph on an image; return its results by name, None where there is none.

        Raises:
            TypeError, ValueError: the image or the timestamp cannot be used; the graph goes on.
            RunError: the graph has failed; it begins anew with the next image.
        """
        frame = ImageFrame(ImageFormat.SRGB, _checked(image))
        time = self._time + STEP if timestamp is None else timestamp
        if time <= self._time and self._is_running:
            raise ValueError(
                f"timestamps must rise: the last was {self._time} microseconds, this is {time}"
            )
        if not self._is_running:
            self._graph.start_run(self._side_packets)
            self._is_running = True
        self._seen = dict.fromkeys(self._outputs)
        self._time = time
        try:
            self._graph.add_packet_to_input_stream("image", frame, time)
            self._graph.wait_until_idle()
        except BaseException:
            self._end()
            raise
        return self._seen

    def _end(self) -> None:
        """End the run after an error, so that the next image begins a new one."""
        self._is_running = False
        self._graph.cancel()
        try:
            self._graph.wait_until_done()
        except Exception:  # the error that the caller has already
            return

    def reset(self) -> None:
        """Forget what is tracked: the next image is the first one."""
        self.close()
        self._time = 0

    def close(self) -> None:
        """End the graph. The next image begins anew."""
        if self._is_running:
            self._is_running = False
            self._graph.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def mask_of(frame: ImageFrame | None) -> npt.NDArray[np.float32] | None:
    """Return a mask (height, width) of float32, read-only; None without one."""
    return None if frame is None else frame.numpy_view()


def _checked(image: Image) -> Image:
    """The image, if a graph can take it."""
    if not isinstance(image, np.ndarray):
        raise TypeError(f"an image is a NumPy array, not a {type(image).__name__}")
    if image.dtype != np.uint8:
        raise TypeError(f"an image has elements of uint8; this one has {image.dtype}")
    if image.ndim != 3 or image.shape[2] != 3:
        raise ValueError(
            f"an image has the shape (height, width, 3), RGB; this one has {image.shape}"
        )
    if image.size == 0:
        raise ValueError(f"an image has at least one pixel; this one has the shape {image.shape}")
    check_size((image.shape[1], image.shape[0]))
    return image


@cache
def _registry() -> Registry:
    """The registry of this family and of those that its graphs need."""
    from calculators import core, image
    from calculators.vision import registration

    found = Registry(REGISTRY)
    core.register(found)
    image.register(found)
    registration.register_all(found)
    return found
