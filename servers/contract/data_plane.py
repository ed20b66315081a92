"""The data plane: all that a front knows of the graphs and plain models that are served."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol, TypeAlias

from calculators.inference import InferRequest, InferResponse
from calculators.requests.http_payload import ClientConnection, HttpPayload
from graph_runtime import Code, GraphError


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """A model as clients see it.

    Attributes:
        created: when it was loaded, Unix time in seconds.
        parent: of an adapter, the model that it belongs to; "" of a model itself.
    """

    name: str
    created: int
    parent: str = ""


@dataclass(frozen=True, slots=True)
class TensorMetadata:
    """What is known of one input or output.

    Attributes:
        datatype: KServe's name; "INVALID" where it is not known, as OpenVINO Model Server has it.
        shape: -1 is any length; empty where nothing is known.
        is_optional: a request may leave this input out.
    """

    name: str
    datatype: str = "INVALID"
    shape: tuple[int, ...] = ()
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """What is known of a model.

    Attributes:
        versions: all that can be asked for, in rising order.
        platform: "OpenVINO", or "graphrt" of a graph.
        rt_info: what the model's file says about it; JSON values.
    """

    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorMetadata, ...]
    outputs: tuple[TensorMetadata, ...]
    rt_info: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One line of the repository's index. ``state``: READY, LOADING or UNAVAILABLE; ``reason``:
    why it is not ready, for people; "" when it is."""

    name: str
    version: str
    state: str
    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class InferFailure:
    """One request of a stream has failed after `InferStream.send` took it; the stream goes on.

    Attributes:
        id: that of the request.
        error: what `LoadedServable.infer` would have raised.
    """

    id: str
    error: Exception


#: What a stream gives, one for each answer.
InferAnswer: TypeAlias = InferResponse | InferFailure


class InferStream(Protocol):
    """A run of a model that takes one request after another, and answers when it likes."""

    async def send(self, request: InferRequest) -> None:
        """Take a request; returns when the next may come. The first one too is given here.

        Raises:
            RequestError: not this one; the stream goes on.
            RunError: the run has failed, as `wait` tells.
        """

    def close_inputs(self) -> None:
        """No more requests come."""

    async def wait(self) -> None:
        """Return when the run is over, and every answer was given.

        Raises:
            RunError: the run has failed.
        """


class Method(StrEnum):
    """A way to ask a servable, in OpenVINO Model Server's words."""

    UNARY = "Unary"
    STREAM = "Stream"
    INFER = "ModelInfer"
    INFER_STREAM = "ModelInferStream"


class LoadedServable(Protocol):
    """A loaded graph, or a loaded version of a plain model.

    Each method raises `RequestError` (RESOURCE_EXHAUSTED) when as many requests are in flight as
    may be, and `UnavailableError` after it has been unloaded.
    """

    async def answer(self, payload: HttpPayload, emit: Callable[[str | bytes], object]) -> None:
        """Run the graph for one HTTP request; ``emit`` gets each response packet in order.

        Cancelling this coroutine cancels the graph.

        Raises:
            RequestError: not a request for this model.
            RunError: the graph failed. ``errors[0].__cause__`` is what the calculator raised.
        """

    async def infer(self, request: InferRequest, client: ClientConnection) -> InferResponse:
        """One request, one answer. Cancelling this coroutine cancels the run.

        Raises:
            RequestError: not a request for this model.
            RunError: as in `answer`.
            GraphError: the inference failed.
        """

    def open_stream(
        self, first: InferRequest, client: ClientConnection, emit: Callable[[InferAnswer], object]
    ) -> AbstractAsyncContextManager[InferStream]:
        """A stream of requests to one model, that of ``first``, whose parameters hold for the run.

        ``first`` is not sent by this. ``emit`` gets each answer in order. Leaving the context ends
        the run, by cancelling it if need be. Entering it raises as `infer` does.
        """


class ReloadError(GraphError):
    """Not all of what the configuration says now could be taken; what was served goes on.

    Attributes:
        reloaded: names of what was loaded, replaced or retired all the same.
        failed: what could not be loaded by name, with the reason; empty where the configuration
            cannot be used, and nothing has changed.
    """

    code = Code.FAILED_PRECONDITION

    def __init__(
        self,
        message: str,
        reloaded: Sequence[str] = (),
        failed: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(message)
        self.reloaded = tuple(reloaded)
        self.failed = dict(failed)


class DataPlane(Protocol):
    """The served models, by name. Adapters of a model have names of their own, by which requests
    find it; what is loaded and unloaded is the model.

    What takes a model's name raises `NotFoundError` (no such model, or no such version) and
    `UnavailableError` (it is loading, draining, or could not be loaded).
    """

    def models(self) -> Sequence[ModelDescription]:
        """What is served, in the order of the configuration."""

    def statuses(self) -> dict[str, object]:
        """The answer of ``GET /v1/config``, in OpenVINO Model Server's form."""

    @property
    def is_ready(self) -> bool:
        """Has everything been loaded, and can everything that loaded work?"""

    async def resolve(self, model: str, method: Method, version: str = "") -> LoadedServable:
        """The servable that answers one request; one that loads on demand is loaded first.

        Call it at once: a servable that nobody uses may be unloaded at any time.

        Args:
            method: what will be called; ``version``: "" and "0" are the highest one.
        """

    # KServe ---------------------------------------------------------------------------------------

    def is_model_ready(self, model: str, version: str = "") -> bool:
        """Would it answer now? Raises only `NotFoundError`."""

    async def metadata(self, model: str, version: str = "") -> ModelMetadata:
        """What is known of a model; one that loads on demand is loaded for the first such
        question."""

    async def inputs_of(self, model: str, version: str = "") -> Sequence[TensorMetadata]:
        """What a request to it consists of; else as `metadata`."""

    def index(self) -> Sequence[IndexEntry]:
        """Every version of every model that the configuration names, loaded or not."""

    async def reload(self) -> bool:
        """Read the configuration again and serve what it says now; try what failed again.

        True if anything was loaded, unloaded or replaced. Returns when that is done; requests in
        flight go on, on what they began with.

        Raises:
            ReloadError: the configuration cannot be used, or something in it cannot be loaded.
        """

    async def load(self, model: str) -> None:
        """Load it anew from its files if it is not loaded.

        Raises:
            NotFoundError: the configuration does not name it.
            GraphError: it cannot be loaded; the text says why.
        """

    async def unload(self, model: str) -> None:
        """Take no more requests; returns while those in flight may still go on.

        Raises:
            NotFoundError: the configuration does not name it.
        """
