"""Models of sessions in places of their own; `ModelWork` runs there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from calculators.kit.packing import pack, unpack
from calculators.kit.places import Place, Question, WorkOrder, ask_once
from calculators.tensors.openvino.directory_models import ModelSources, PlainModelSource
from calculators.tensors.openvino.infer_requests import Array
from calculators.tensors.openvino.model import Model, ModelFacts, TensorSpec
from graph_runtime import GraphError, LoadProgress, NodeMetrics

_MAKER: Final = f"{__name__}:make_work"
#: Bytes of tensors that are packed in less than a millisecond.
_AT_ONCE: Final = 1 << 20

#: Tensors in the model's order: shape and elements of each.
_Packed = list[tuple[tuple[int, ...], bytes]]


class PlacedModels:
    """A `calculators.tensors.openvino.directory_models.ModelProvider`, some models in places."""

    def __init__(self, models: ModelSources) -> None:
        """``models``: all models."""
        self._models = models
        self._placed: dict[tuple[str, int | None], Model] = {}

    async def place(
        self, name: str, version: int | None, place: Place, progress: LoadProgress
    ) -> None:
        """Let a place load a model, for all sessions that name it with this version.

        Raises:
            GraphError: there is no such model, or it cannot be loaded.
        """
        source = await self._models.source(name, version)
        paths = (str(source.file.parent if source.file.is_file() else source.file),)
        order = WorkOrder(_MAKER, pack(source), name, paths)
        facts = unpack(await place.start(order, progress), ModelFacts)
        self._placed[name, version] = Model(facts, PlacedInferences(place, facts.outputs))

    async def get(self, name: str, version: int | None = None) -> Model:
        """See `calculators.tensors.openvino.directory_models.ModelProvider.get`."""
        placed = self._placed.get((name, version))
        return await self._models.get(name, version) if placed is None else placed

    def file_of(self, name: str) -> Path | None:
        """See `calculators.tensors.openvino.directory_models.ModelProvider.file_of`."""
        return self._models.file_of(name)


class PlacedInferences:
    """The asker's side: `calculators.tensors.openvino.model.Inferences` in a place."""

    def __init__(self, place: Place, outputs: Sequence[TensorSpec]) -> None:
        self._place = place
        self._outputs = outputs
        self._active = 0

    @property
    def active(self) -> int:
        """The number of inferences that were asked for and are not answered."""
        return self._active

    def observe_times(
        self, waited: Callable[[float], object], computed: Callable[[float], object]
    ) -> None:
        """Do nothing: the place has the times."""

    async def infer(self, inputs: Sequence[Array]) -> list[Array]:
        """See `InferRequests.infer`.

        Raises:
            RequestError: the inference failed, or its process is gone (UNAVAILABLE).
        """
        self._active += 1
        try:
            return await _arrays(await ask_once(self._place, await _packed(inputs)), self._outputs)
        finally:
            self._active -= 1


class ModelWork:
    """A `calculators.kit.places.Work`: a model of OpenVINO in this process."""

    def __init__(self, source: PlainModelSource) -> None:
        self._source = source
        self._model: Model | None = None

    async def start(self, progress: LoadProgress) -> bytes:
        """See `Work.start`."""
        source = self._source
        try:
            self._model = await asyncio.to_thread(source.load, progress)
        except GraphError as error:
            raise GraphError(
                f'the model "{source.name}" (version {source.version}) cannot be loaded: {error}',
                code=error.code,
            ) from error
        return pack(self._model.facts)

    async def answer(self, question: Question) -> None:
        """See `Work.answer`."""
        model = self._model
        assert model is not None, "it is started"
        # The asker has checked them against the same facts.
        arrays = await _arrays(question.body, model.inputs)
        question.emit(await _packed(await model.infer_checked(arrays)))

    async def close(self) -> None:
        """Release the model."""
        self._model = None


def make_work(arguments: bytes, *, name: str, metrics: NodeMetrics) -> ModelWork:
    """Make the work of an order of `PlacedModels`."""
    return ModelWork(unpack(arguments, PlainModelSource))


async def _packed(arrays: Sequence[Array]) -> bytes:
    """Return tensors as MessagePack; large ones are packed in a thread."""

    def packed() -> bytes:
        return pack([(each.shape, each.tobytes()) for each in arrays])

    if sum(each.nbytes for each in arrays) <= _AT_ONCE:
        return packed()
    return await asyncio.to_thread(packed)


async def _arrays(body: bytes, specs: Iterable[TensorSpec]) -> list[Array]:
    """Return the tensors that `_packed` has packed, as new arrays."""

    def arrays() -> list[Array]:
        return [
            np.frombuffer(elements, spec.dtype).reshape(shape).copy()
            for (shape, elements), spec in zip(unpack(body, _Packed), specs, strict=True)
        ]

    return arrays() if len(body) <= _AT_ONCE else await asyncio.to_thread(arrays)
