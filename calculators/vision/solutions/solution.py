"""`Solution`: a graph that takes one image and answers before it takes the next."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from copy import copy
from functools import cache
from itertools import cycle
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt

from calculators.image.image_format import ImageFormat
from calculators.image.image_frame import ImageFrame
from calculators.image.image_to_tensor_calculator import LONGEST_SIDE
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

Result = TypeVar("Result")
Image = npt.NDArray[np.uint8]

#: Microseconds between two images without timestamps: 30 per second, as MediaPipe counts.
STEP: Final = 33333
#: Images that are computed at the same time by `Solution.process_all`.
_THREADS: Final = min(4, os.cpu_count() or 1)


class Solution(ABC, Generic[Result]):
    """One of MediaPipe's graphs, run image by image. Not for several threads at once.

    A context manager; `close` ends the graph.
    """

    def __init__(
        self,
        subgraph: str,
        outputs: Mapping[str, str],
        side_packets: Mapping[str, Any],
        options: Mapping[str, Any],
        *,
        is_stateless: bool,
    ) -> None:
        """
        Args:
            subgraph: the registered name; the graph's input is the stream "image".
            outputs: results by name: the name of the graph's output stream.
            side_packets: by name.
            options: of inner nodes, by ``node.field``.
            is_stateless: no image has an influence on the results of another.
        """
        registry = _registry()
        found = registry.find_subgraph(subgraph)
        assert found is not None, "the family registers it"
        made = found.make(SubgraphContext(None))
        config = expanded_with(made, registry, options)
        self._outputs = dict(outputs)
        self._side_packets = dict(side_packets)
        self._plan = validate_graph(config, registry=registry)
        self._graph = CalculatorGraph(validated_graph=self._plan)
        self._is_stateless = is_stateless
        self._twins: list[tuple[Solution[Result], ThreadPoolExecutor]] = []
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
        # Not a copy: the graph is idle, and holds no image, before the caller goes on.
        frame = ImageFrame.owning(ImageFormat.SRGB, _checked(image))
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

    @abstractmethod
    def process(self, image: Image, timestamp: int | None = None) -> Result:
        """Return what is in an image."""

    def process_all(self, images: Iterable[Image]) -> Iterator[Result]:
        """Yield what is in each image, in their order, as `process` would.

        Where no image has an influence on another (in ``static_image_mode``, and in face detection
        and selfie segmentation at all times), some are computed at the same time, and
        ``images`` is read some images ahead. The images must not be written to meanwhile.

        Raises:
            As `process`; the iterator ends then.
        """
        if not self._is_stateless:
            yield from map(self.process, images)
            return
        # Every thread has a graph of its own; images go round, so that results come in order.
        while len(self._twins) < _THREADS:
            self._twins.append((self._twin(), ThreadPoolExecutor(1, "graphrt-vision")))
        turns = cycle(self._twins)
        waiting: deque[Future[Result]] = deque()
        try:
            for image in images:
                twin, thread = next(turns)
                waiting.append(thread.submit(twin.process, image))
                if len(waiting) > 2 * _THREADS:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for left in waiting:
                left.cancel()
            wait(waiting)

    def _twin(self) -> Solution[Result]:
        """The same graph once more."""
        twin = copy(self)
        twin._is_running, twin._seen, twin._twins = False, {}, []
        twin._graph = CalculatorGraph(validated_graph=self._plan)
        for name, stream in twin._outputs.items():
            twin._observe(name, stream)
        return twin

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
        twins, self._twins = self._twins, []
        for twin, thread in twins:
            thread.shutdown()
            twin.close()

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
    if max(image.shape) > LONGEST_SIDE:
        raise ValueError(
            f"an image has at most {LONGEST_SIDE} pixels in a row or column; this one has the "
            f"shape {image.shape}"
        )
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
