"""`Solution`: a graph that takes one image and answers before it takes the next.

MediaPipe's graphs hold all variants of a part (with and without smoothing, with and without
attention) behind switches that a side packet sets. Each costs two calls per image, and the nodes of
the other variants hear of every image. `resolve_known_switches` replaces a switch whose channel is
known before the graph runs by the nodes of that channel.
"""

from __future__ import annotations

import re
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

from calculators.images.image.image_frame import ImageFormat, ImageFrame
from calculators.images.image.image_tensors import LONGEST_SIDE
from calculators.images.image.scaling import check_size
from calculators.kit.machine import usable_processors
from graph_runtime import (
    REGISTRY,
    Calculator,
    CalculatorContext,
    CalculatorContract,
    CalculatorGraph,
    GraphConfigError,
    GraphError,
    Packet,
    Registry,
    RunError,
    SubgraphContext,
    validate_graph,
)
from graph_runtime.errors import did_you_mean
from graph_runtime.language.names import canonical_names
from graph_runtime.language.tag_map import parse_tag_index_name
from graph_runtime.plan.subgraph import expand_subgraphs
from protos.pool import class_of, find_extension, find_message

_SWITCHES: Final = ("SwitchDemuxCalculator", "SwitchMuxCalculator")
_CHANNEL: Final = re.compile(r"C(\d+)__(.*)", re.DOTALL)
#: The fields of a node, and of a graph, that name streams or side packets.
_FIELDS: Final = {
    "input_stream": "stream",
    "output_stream": "stream",
    "input_side_packet": "side packet",
    "output_side_packet": "side packet",
}

#: What a name stands for, and the name.
_Name = tuple[str, str]


def resolve_known_switches(config: Any, side_packets: Mapping[str, Any]) -> None:
    """Replace the switches of an expanded graph that the side packets set; changes ``config``.

    The results stay the same. A switch that a stream or an unknown side packet sets stays.
    """
    renamed: dict[_Name, _Name] = {}
    dead: set[_Name] = set()
    resolved = []
    for node in config.node:
        channel = _known_channel(node, side_packets)
        if channel is None:
            continue
        resolved.append(node)
        for common, other, by_channel in _channels(node):
            if by_channel != channel:
                dead.add(other)
            else:
                # The common name stays: it may be an output of the graph.
                renamed[other] = common
    for node in resolved:
        config.node.remove(node)
    _remove_readers(config, dead)
    for holder in (config, *config.node):
        for field, kind in _FIELDS.items():
            entries = getattr(holder, field)
            entries[:] = [_with_new_name(kind, entry, renamed) for entry in entries]


def _known_channel(node: Any, side_packets: Mapping[str, Any]) -> int | None:
    """Return the channel of a switch, if a side packet sets it that is known."""
    if node.calculator not in _SWITCHES:
        return None
    for entry in node.input_side_packet:
        port = parse_tag_index_name(entry)
        if port.tag in ("ENABLE", "SELECT") and port.name in side_packets:
            return int(side_packets[port.name])
    return None


def _channels(node: Any) -> Iterator[tuple[_Name, _Name, int]]:
    """Per port of a channel: the common name, the channel's own name, the channel."""
    is_demux = node.calculator == "SwitchDemuxCalculator"
    for field, kind in _FIELDS.items():
        if field.startswith("output") is not is_demux:
            continue
        common_field = f"in{field[3:]}" if is_demux else f"out{field[2:]}"
        common = dict(_numbered(getattr(node, common_field)))
        for (tag, index), name in _numbered(getattr(node, field)):
            match = _CHANNEL.fullmatch(tag)
            if match is not None and (match[2], index) in common:
                yield (kind, common[match[2], index]), (kind, name), int(match[1])


def _numbered(entries: Iterable[str]) -> Iterator[tuple[tuple[str, int], str]]:
    """Tag, index and name of the entries; those without a tag are numbered in their order."""
    untagged = 0
    for entry in entries:
        port = parse_tag_index_name(entry)
        index = port.index
        if index < 0:
            index, untagged = untagged, untagged + 1
        yield (port.tag, index), port.name


def _remove_readers(config: Any, dead: set[_Name]) -> None:
    """Remove the nodes that read what nobody makes, and those that read what these make."""
    found = True
    while found:
        found = False
        for node in list(config.node):
            if dead.isdisjoint(_names(node, "input_stream")):
                continue
            dead.update(_names(node, "output_stream"))
            config.node.remove(node)
            found = True


def _names(node: Any, field: str) -> list[_Name]:
    return [(_FIELDS[field], name) for _, name in _numbered(getattr(node, field))]


def _with_new_name(kind: str, entry: str, renamed: Mapping[_Name, _Name]) -> str:
    head, colon, name = entry.rpartition(":")
    while (kind, name) in renamed:
        name = renamed[kind, name][1]
    return f"{head}{colon}{name}"


def expanded_with(config: Any, registry: Registry, changes: Mapping[str, Any]) -> Any:
    """Return the graph without subgraphs, with options of some of its nodes changed.

    Args:
        config: a ``CalculatorGraphConfig``; it is not changed.
        changes: values by ``node.field``; the name of an inner node is ``subgraph__Node``, as
            MediaPipe has it: ``posedetectioncpu__TensorsToDetectionsCalculator.min_score_thresh``.

    Raises:
        GraphConfigError: there is no such node, or its options have no such field.
    """
    expanded = expand_subgraphs(config, registry).config
    nodes = dict(zip(canonical_names(expanded.node), expanded.node, strict=True))
    for place, value in changes.items():
        name, _, field = place.rpartition(".")
        if name not in nodes:
            raise GraphConfigError(f'there is no node "{name}".{did_you_mean(name, nodes)}')
        _set_option(nodes[name], name, field, value)
    return expanded


def _set_option(node: Any, name: str, field: str, value: Any) -> None:
    for _, options in node.options.ListFields():
        if field in options.DESCRIPTOR.fields_by_name:
            setattr(options, field, value)
            return
    for held in node.node_options:
        kind = find_message(held.type_url.rpartition("/")[2])
        if kind is not None and field in kind.fields_by_name:
            options = class_of(kind).FromString(held.value)
            setattr(options, field, value)
            held.value = options.SerializePartialToString()
            return
    raise GraphConfigError(f'the options of the node "{name}" have no field "{field}"')


class SolutionResultsCalculator(Calculator):
    """Sends one list per image as soon as every result of it is there or will not come.

    Inputs:
        TICK (ImageFrame): the images.
        #i: results, of any type.
    Outputs: RESULTS (list): per input, the value, or None without a packet.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["TICK"].set(ImageFrame)
        for index in range(contract.inputs.num_entries("")):
            contract.inputs[index].set_any()
        contract.outputs["RESULTS"].set(list)

    def process(self, cc: CalculatorContext) -> None:
        shards = cc.inputs.all_of("")
        found = [None if shard.is_empty() else shard.value for shard in shards]
        cc.outputs["RESULTS"].add(found, cc.time)


Result = TypeVar("Result")
Image = npt.NDArray[np.uint8]

#: Microseconds between two images without timestamps: 30 per second, as MediaPipe counts.
STEP: Final = 33333
#: Images, or models, that are computed at the same time.
_THREADS: Final = min(4, usable_processors())
#: Images that wait for their results in one graph, beside the one that is returned next.
_AHEAD: Final = 2
_RESULTS: Final = "__results"
_POOL: Final = "inference"


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
        has_branches: bool = False,
    ) -> None:
        """
        Args:
            subgraph: the registered name; the graph's input is the stream "image".
            outputs: results by name: the name of the graph's output stream.
            side_packets: by name.
            options: of inner nodes, by ``node.field``.
            is_stateless: no image has an influence on the results of another.
            has_branches: several models need not wait for one another, so they compute in threads.
        """
        registry = _registry()
        found = registry.find_subgraph(subgraph)
        assert found is not None, "the family registers it"
        made = found.make(SubgraphContext(None))
        config = expanded_with(made, registry, options)
        resolve_known_switches(config, side_packets)
        if is_stateless:
            _forget_images(config)
        config.node.add(
            calculator=SolutionResultsCalculator.__name__,
            input_stream=["TICK:image", *outputs.values()],
            output_stream=[f"RESULTS:{_RESULTS}"],
        )
        if has_branches:
            _compute_in_threads(config)
        self._names = tuple(outputs)
        self._side_packets = dict(side_packets)
        self._plan = validate_graph(config, registry=registry)
        self._is_stateless = is_stateless
        self._has_branches = has_branches
        self._make_graph()

    def _make_graph(self) -> None:
        """Make the graph, and forget all that belongs to another."""
        results: dict[int, list[Any]] = {}

        def keep(_: str, packet: Packet) -> None:
            results[packet.time] = packet.value

        self._graph = CalculatorGraph(validated_graph=self._plan)
        self._graph.observe_output_stream(_RESULTS, keep)
        self._results = results
        self._twins: list[tuple[Solution[Result], ThreadPoolExecutor]] = []
        self._time = 0
        self._is_running = False

    def process(self, image: Image, timestamp: int | None = None) -> Result:
        """Return what is in an image.

        Args:
            image: (height, width, 3) of uint8, RGB.
            timestamp: in microseconds, rising from image to image; 33333 more than the last one
                unless given.

        Raises:
            TypeError, ValueError: the image or the timestamp cannot be used; the graph goes on.
            RunError: the graph has failed; the next image starts a new run.
        """
        time = self._add(image, timestamp)
        try:
            self._graph.wait_until_idle()
        except BaseException:
            self._end()
            raise
        return self._take_result(time)

    def _add(self, image: Image, timestamp: int | None = None) -> int:
        """Send an image into the graph; return its time."""
        # Not a copy: the caller does not write to the image before its result is there.
        frame = ImageFrame.owning(ImageFormat.SRGB, _checked(image))
        time = self._time + STEP if timestamp is None else timestamp
        if time <= self._time and self._is_running:
            raise ValueError(
                f"timestamps must rise: the last was {self._time} microseconds, this is {time}"
            )
        if not self._is_running:
            self._graph.start_run(self._side_packets)
            self._is_running = True
        self._time = time
        try:
            self._graph.add_packet_to_input_stream("image", frame, time)
        except BaseException:
            self._end()
            raise
        return time

    def _take_result(self, time: int) -> Result:
        return self._result(dict(zip(self._names, self._results.pop(time), strict=True)))

    @abstractmethod
    def _result(self, found: dict[str, Any]) -> Result:
        """Make a result of the values by name, None where there is none."""

    def process_all(self, images: Iterable[Image]) -> Iterator[Result]:
        """Yield what is in each image, in their order, as `process` would.

        Where no image has an influence on another (in ``static_image_mode``, and in face detection
        and selfie segmentation at all times), some are computed at the same time, and
        ``images`` is read some images ahead. The images must not be written to meanwhile.

        Raises:
            As `process`; the iterator ends then.
        """
        if self._is_stateless:
            yield from self._by_twins(images)
        elif self._has_branches:
            yield from self._ahead(images)
        else:
            yield from map(self.process, images)

    def _ahead(self, images: Iterable[Image]) -> Iterator[Result]:
        """Yield the results of images that are in the graph at the same time."""
        waiting: deque[int] = deque()
        is_complete = False
        try:
            for image in images:
                try:
                    waiting.append(self._add(image))
                except (TypeError, ValueError):
                    while waiting:
                        yield self._awaited(waiting.popleft())
                    raise
                if len(waiting) > _AHEAD:
                    yield self._awaited(waiting.popleft())
            while waiting:
                yield self._awaited(waiting.popleft())
            is_complete = True
        finally:
            if not is_complete and self._is_running:
                # Images that are still being computed have no reader.
                try:
                    self._graph.wait_until_idle()
                except RunError:
                    self._end()
                self._results.clear()

    def _awaited(self, time: int) -> Result:
        while time not in self._results:
            try:
                self._graph.wait_for_observed_output()
            except GraphError:
                self._graph.wait_until_idle()  # raises the error that has ended the run
                raise
        return self._take_result(time)

    def _by_twins(self, images: Iterable[Image]) -> Iterator[Result]:
        """Yield the results of images, each in one of several graphs."""
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
        """Return the same graph once more."""
        twin = copy(self)
        twin._make_graph()
        return twin

    def _end(self) -> None:
        """End the run after an error, so that the next image begins a new one."""
        self._is_running = False
        self._results.clear()
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
        """End the graph. The next image starts a new run."""
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
    """Return the image, if a graph can take it."""
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


def _forget_images(config: Any) -> None:
    """Let nothing of an image come back for the next one; changes ``config``.

    The switch of MediaPipe's graphs for single images concerns the pose only: hands and face of
    `Holistic` would be looked for where the last image had them.
    """
    options = find_extension("mediapipe.GateCalculatorOptions.ext")
    loops = [node for node in config.node if node.calculator == "PreviousLoopbackCalculator"]
    for node in loops:
        [output] = node.output_stream
        name = parse_tag_index_name(output).name
        node.output_stream[0] = f"{output}__of_last_image"
        gate = config.node.add(
            calculator="GateCalculator",
            input_stream=[f"{name}__of_last_image"],
            output_stream=[name],
        )
        gate.options.Extensions[options].allow = False


def _compute_in_threads(config: Any) -> None:
    """Let the models of a graph compute in a pool of threads."""
    pool = config.executor.add(name=_POOL, type="ThreadPoolExecutor")
    options = find_extension("mediapipe.ThreadPoolExecutorOptions.ext")
    pool.options.Extensions[options].num_threads = _THREADS
    for node in config.node:
        if node.calculator.startswith("InferenceCalculator"):
            node.executor = _POOL


@cache
def _registry() -> Registry:
    """Return the registry of this family and of those that its graphs need."""
    from calculators import core
    from calculators.images import image
    from calculators.vision import registration

    found = Registry(REGISTRY)
    core.register(found)
    image.register(found)
    registration.register_all(found)
    found.register_calculator(SolutionResultsCalculator)
    return found
