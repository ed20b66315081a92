"""Calculators that load files and models into side packets, when the graph opens."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

from calculators.kit.graph_directory import GRAPH_DIRECTORY, find_graph_file
from calculators.tensors.openvino.directory_models import MODELS
from calculators.vision.inference.compiled_model import KEPT_MODELS, TfLiteModel
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
)
from graphrt_base.regular_file import read_regular_file
from protos import messages

#: More than any model that MediaPipe names; larger files are refused.
MAX_BYTES: Final = 1 << 30

#: Directories of graphs, and names of files in them that were read.
_known: Final[set[tuple[Path, str]]] = set()
_MOST_KNOWN: Final = 1024

#: The model in these bytes. Python keeps the hash of bytes, so the second look is quick.
tflite_model = lru_cache(maxsize=KEPT_MODELS)(TfLiteModel)


def read_graph_file(cc: CalculatorContext, path: str) -> bytes:
    """Return the content of a file that the graph names, as `find_graph_file` finds it.

    Raises:
        MissingFileError: there is no such file.
        GraphError: it cannot be read (FAILED_PRECONDITION).
    """
    directory = cc.service(GRAPH_DIRECTORY) or Path()
    models = cc.service(MODELS)
    assert models is not None, "the contract asks for it"
    file = find_graph_file(path, directory, models.file_of)
    try:
        found = os.stat(file)
        content = _content(file, found.st_ino, found.st_mtime_ns, found.st_size)
    except OSError as error:
        raise GraphError(
            f'the file "{path}" cannot be read: {error.strerror}', code=Code.FAILED_PRECONDITION
        ) from error
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    _known.add((directory, path))
    return content


def use_graph_files(contract: CalculatorContract) -> None:
    """Ask for what `read_graph_file` needs."""
    contract.use_service(GRAPH_DIRECTORY)
    contract.use_service(MODELS)


def must_wait(cc: CalculatorContext, *paths: str) -> bool:
    """Return whether files should be read beside an event loop: this is one, and some are new."""
    if asyncio._get_running_loop() is None:
        return False
    directory = cc.service(GRAPH_DIRECTORY) or Path()
    return any((directory, path) not in _known for path in paths)


def with_files(
    cc: CalculatorContext, paths: Sequence[str], then: Callable[[], None]
) -> Awaitable[None] | None:
    """Read files, beside an event loop if they are new to it, and call ``then``."""
    if not must_wait(cc, *paths):
        then()
        return None

    async def read() -> None:
        for path in paths:
            await asyncio.to_thread(read_graph_file, cc, path)
        then()

    return read()


@lru_cache(maxsize=KEPT_MODELS)
def _content(file: Path, inode: int, time: int, size: int) -> bytes:
    return read_regular_file(file, MAX_BYTES)


_RESOURCES = messages.ResourceProviderCalculatorOptions
_TEXT_MODE = 2
_MODELS = ("MODEL_RESOURCE", "MODEL_BLOB", "MODEL_SPAN", "MODEL_FD")


class ResourceProviderCalculator(Calculator):
    """Loads files that the graph names, or that side packets name.

    Input side packets: RESOURCE_ID:i (str, optional): paths, one per output.
    Output side packets: RESOURCE:i (bytes, or str with read_mode TEXT): the content.
    Options (mediapipe.ResourceProviderCalculatorOptions):
        resource_id: repeated; in place of the side packets.
        read_mode: BINARY, the default, or TEXT.

    ::

        node {
          calculator: "ResourceProviderCalculator"
          output_side_packet: "RESOURCE:model"
          node_options {
            [type.googleapis.com/mediapipe.ResourceProviderCalculatorOptions] {
              resource_id: "mediapipe/modules/face_landmark/face_landmark.tflite"
            }
          }
        }

    Source: MediaPipe ``calculators/util/resource_provider_calculator.cc``.
    """

    options = Options(_RESOURCES)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        sides, outputs = contract.input_side_packets, contract.output_side_packets
        named = len(contract.options(_RESOURCES).resource_id)
        given = sides.num_entries("RESOURCE_ID")
        contract.require(
            (named > 0) is not (given > 0),
            "the files are named either by the option resource_id or by side packets RESOURCE_ID",
        )
        count = outputs.num_entries("RESOURCE")
        contract.require(
            count == named + given,
            f"there are {named + given} resources and {count} output side packets RESOURCE",
        )
        for index in range(given):
            sides["RESOURCE_ID", index].set(str)
        for index in range(count):
            outputs["RESOURCE", index].set_one_of(bytes, str)
        use_graph_files(contract)

    def open(self, cc: CalculatorContext) -> Awaitable[None] | None:
        paths = list(self.options.resource_id)
        if not paths:
            paths = [side.value for side in cc.input_side_packets.all_of("RESOURCE_ID")]
        return with_files(cc, paths, partial(self._set, cc, paths))

    def _set(self, cc: CalculatorContext, paths: Sequence[str]) -> None:
        outputs = cc.output_side_packets.all_of("RESOURCE")
        for path, output in zip(paths, outputs, strict=True):
            content: Any = read_graph_file(cc, path)
            is_text = self.options.read_mode == _TEXT_MODE
            output.set(content.decode(errors="replace") if is_text else content)


class LocalFileContentsCalculator(Calculator):
    """Loads the files that side packets name.

    Input side packets: FILE_PATH:i (str): a path each.
    Output side packets: CONTENTS:i (bytes): one per path.
    Options (mediapipe.LocalFileContentsCalculatorOptions): text_mode: without effect.

    ::

        node {
          calculator: "LocalFileContentsCalculator"
          input_side_packet: "FILE_PATH:path"
          output_side_packet: "CONTENTS:content"
        }

    Source: MediaPipe ``calculators/util/local_file_contents_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        sides, outputs = contract.input_side_packets, contract.output_side_packets
        count = sides.num_entries("FILE_PATH")
        contract.require(
            count == outputs.num_entries("CONTENTS"),
            "each side packet FILE_PATH needs an output side packet CONTENTS",
        )
        for index in range(max(count, 1)):
            sides["FILE_PATH", index].set(str)
            outputs["CONTENTS", index].set(bytes)
        use_graph_files(contract)

    def open(self, cc: CalculatorContext) -> Awaitable[None] | None:
        paths = [side.value for side in cc.input_side_packets.all_of("FILE_PATH")]
        return with_files(cc, paths, partial(self._set, cc, paths))

    def _set(self, cc: CalculatorContext, paths: Sequence[str]) -> None:
        outputs = cc.output_side_packets.all_of("CONTENTS")
        for path, output in zip(paths, outputs, strict=True):
            output.set(read_graph_file(cc, path))


class TfLiteModelCalculator(Calculator):
    """Makes a model of the bytes of a ``.tflite`` file. Nodes with the same bytes share it.

    Input side packets, exactly one of:
        MODEL_RESOURCE or MODEL_BLOB (bytes): the file's content.
        MODEL_SPAN (bytes): likewise.
        MODEL_FD (tuple of 3 ints): file descriptor, offset and size.
    Output side packets: MODEL or SHARED_MODEL (`TfLiteModel`).
    Options: none.

    ::

        node {
          calculator: "TfLiteModelCalculator"
          input_side_packet: "MODEL_RESOURCE:content"
          output_side_packet: "MODEL:model"
        }

    Source: MediaPipe ``calculators/tflite/tflite_model_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        sides, outputs = contract.input_side_packets, contract.output_side_packets
        contract.require(
            sum(map(sides.has_tag, _MODELS)) == 1,
            f"exactly one of the side packets {', '.join(_MODELS)} is needed",
        )
        for tag in _MODELS[:3]:
            sides[tag].set(bytes).optional()
        sides["MODEL_FD"].set(tuple).optional()
        contract.require(
            outputs.has_tag("MODEL") or outputs.has_tag("SHARED_MODEL"),
            "the output side packet MODEL or SHARED_MODEL is needed",
        )
        outputs["MODEL"].set(TfLiteModel).optional()
        outputs["SHARED_MODEL"].set(TfLiteModel).optional()

    def open(self, cc: CalculatorContext) -> None:
        (side,) = cc.input_side_packets.in_order
        content = side.value
        if isinstance(content, tuple):
            descriptor, offset, size = content
            content = os.pread(descriptor, min(size, MAX_BYTES), offset)
        model = tflite_model(content)
        for output in cc.output_side_packets.in_order:
            output.set(model)


class OpResolver:
    """A marker: the custom operations are always there."""


class TfLiteCustomOpResolverCalculator(Calculator):
    """Makes the side packet that asks for MediaPipe's custom operations, which are always there.

    Output side packets: OP_RESOLVER, or #0 (`OpResolver`).
    Options (mediapipe.TfLiteCustomOpResolverCalculatorOptions): use_gpu: without effect.

    ::

        node {
          calculator: "TfLiteCustomOpResolverCalculator"
          output_side_packet: "OP_RESOLVER:op_resolver"
        }

    Source: MediaPipe ``calculators/tflite/tflite_custom_op_resolver_calculator.cc``.
    """

    options = Options(messages.TfLiteCustomOpResolverCalculatorOptions)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        outputs = contract.output_side_packets
        outputs["OP_RESOLVER" if outputs.has_tag("OP_RESOLVER") else 0].set(OpResolver)

    def open(self, cc: CalculatorContext) -> None:
        cc.output_side_packets.in_order[0].set(OpResolver())


MODEL_CALCULATORS: tuple[type[Calculator], ...] = (
    LocalFileContentsCalculator,
    ResourceProviderCalculator,
    TfLiteCustomOpResolverCalculator,
    TfLiteModelCalculator,
)
