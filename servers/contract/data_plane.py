"""The data plane: the interface between the fronts and the served graphs and plain models.

A servable, which is a graph or a version of a plain model, has states and transitions. As in
`graph_runtime.engine.states`, an event that the table does not list raises and changes nothing. The
names and codes that `/v1/config` shows are OpenVINO Model Server's (``modelversionstatus.hpp``,
``dags/pipelinedefinitionstatus.cpp``).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum, auto
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from calculators.kit.model_card import NO_CARD, ModelCard
from calculators.kit.requests.http_answer import ResponsePacket
from calculators.kit.requests.http_payload import ClientConnection, HttpPayload
from calculators.kit.tasks import AuthorEndpoint
from graph_runtime import Code, GraphError
from graph_runtime.engine.states import Transitions

if TYPE_CHECKING:
    # Without NumPy, which a check of a graph of a language model does not need.
    from calculators.tensors.inference import InferRequest, InferResponse

_log: Final = logging.getLogger(__name__)


class Disconnection:
    """The part of a `ClientConnection` that all fronts share.

    Attributes:
        is_disconnected: True once the client has disconnected.
    """

    is_disconnected = False
    _callbacks: tuple[Callable[[], None], ...] = ()

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once when the client disconnects, or now if it already has."""
        if self.is_disconnected:
            callback()
        else:
            self._callbacks = (*self._callbacks, callback)

    def disconnect(self) -> None:
        """Mark the client as disconnected and run the callbacks. Later calls do nothing."""
        self.is_disconnected = True
        callbacks, self._callbacks = self._callbacks, ()
        for callback in callbacks:
            try:
                callback()
            except Exception:
                _log.exception("a disconnect callback failed")

    def forget(self) -> None:
        """Drop the callbacks: the request is over."""
        self._callbacks = ()


class ServableState(IntEnum):
    """The state of a graph or of a version of a model."""

    START = auto()  # named by the configuration; loading has not begun
    LOADING = auto()  # the file is checked, resources are made, the model is compiled
    FAILED = auto()  # could not be loaded; the reason is kept
    AVAILABLE = auto()  # answers requests
    UNLOADING = auto()  # refuses requests; closes its resources after the last one in flight
    END = auto()  # everything is closed
    ON_DEMAND = auto()  # nothing is loaded; the next request loads it and waits


class ServableEvent(IntEnum):
    """A cause of a transition."""

    LOAD = auto()  # loading begins
    LOADED = auto()  # ... and succeeds
    LOAD_FAILED = auto()  # ... or fails, or is interrupted
    RETIRE = auto()  # retiring begins
    UNLOADED = auto()  # ... and ends
    DEFER = auto()  # the next request loads it, because the config says so or it was idle


SERVABLE_TRANSITIONS: Final[Transitions[ServableState, ServableEvent]] = Transitions(
    {
        (ServableState.START, ServableEvent.LOAD): ServableState.LOADING,
        (ServableState.LOADING, ServableEvent.LOADED): ServableState.AVAILABLE,
        (ServableState.LOADING, ServableEvent.LOAD_FAILED): ServableState.FAILED,
        (ServableState.FAILED, ServableEvent.LOAD): ServableState.LOADING,
        (ServableState.END, ServableEvent.LOAD): ServableState.LOADING,
        (ServableState.ON_DEMAND, ServableEvent.LOAD): ServableState.LOADING,
        (ServableState.START, ServableEvent.DEFER): ServableState.ON_DEMAND,
        (ServableState.FAILED, ServableEvent.DEFER): ServableState.ON_DEMAND,
        (ServableState.END, ServableEvent.DEFER): ServableState.ON_DEMAND,
        (ServableState.START, ServableEvent.RETIRE): ServableState.UNLOADING,
        (ServableState.FAILED, ServableEvent.RETIRE): ServableState.UNLOADING,
        (ServableState.AVAILABLE, ServableEvent.RETIRE): ServableState.UNLOADING,
        (ServableState.ON_DEMAND, ServableEvent.RETIRE): ServableState.UNLOADING,
        (ServableState.UNLOADING, ServableEvent.UNLOADED): ServableState.END,
    }
)

#: The ``state`` and the ``error_code`` that clients see.
SHOWN: Final[dict[ServableState, tuple[str, str]]] = {
    ServableState.START: ("START", "OK"),
    ServableState.LOADING: ("LOADING", "OK"),
    ServableState.FAILED: ("LOADING", "FAILED_PRECONDITION"),
    ServableState.AVAILABLE: ("AVAILABLE", "OK"),
    ServableState.UNLOADING: ("UNLOADING", "OK"),
    ServableState.END: ("END", "OK"),
    ServableState.ON_DEMAND: ("AVAILABLE", "OK"),  # a request is answered
}


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """A model as OpenAI's clients see it.

    Attributes:
        created: when the model was loaded, Unix time in seconds.
        parent: the model that an adapter belongs to; "" for a model itself.
        task: the name of its task; "" for a graph of the author's own.
        facts: further members that the task has for it, such as ``max_model_len``; JSON values.
        card: what clients of Ollama's API ask of it; empty before it is loaded.
        is_loaded: it is in memory.
        idle_seconds: how long it stays without requests, until the next one loads it again; None:
            it stays.
    """

    name: str
    created: int
    parent: str = ""
    task: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)
    card: ModelCard = NO_CARD
    is_loaded: bool = True
    idle_seconds: float | None = None


class ServedEndpoint(NamedTuple):
    """An author's endpoint, and the name of the graph that answers it."""

    model: str
    endpoint: AuthorEndpoint


@dataclass(frozen=True, slots=True)
class TensorMetadata:
    """Name, type and shape of one input or output.

    Attributes:
        datatype: KServe's name; "INVALID" if it is not known, as in OpenVINO Model Server.
        shape: -1 is any length; empty if the shape is not known.
        is_optional: a request may omit this input.
    """

    name: str
    datatype: str = "INVALID"
    shape: tuple[int, ...] = ()
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """Versions, inputs and outputs of a model.

    Attributes:
        versions: every version that answers requests, in ascending order.
        platform: "OpenVINO" for a plain model, "graphrt" for a graph.
        rt_info: the runtime information in the model's file, as JSON values.
    """

    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorMetadata, ...]
    outputs: tuple[TensorMetadata, ...]
    rt_info: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One line of the repository's index.

    Attributes:
        state: READY, LOADING or UNAVAILABLE.
        reason: why the version is not ready, for people; "" if it is ready.
    """

    name: str
    version: str
    state: str
    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class InferFailure:
    """The failure of one request after `InferStream.send` took it. The stream continues.

    Attributes:
        id: the id of the request.
        error: the exception that `LoadedServable.infer` would have raised.
    """

    id: str
    error: Exception


#: One answer on a stream.
InferAnswer: TypeAlias = "InferResponse | InferFailure"


class InferStream(Protocol):
    """A run of a model that takes one request after another and answers at any time."""

    async def send(self, request: InferRequest) -> None:
        """Take a request, the first one included. Return when the next one may be sent.

        Raises:
            RequestError: this request is refused; the stream continues.
            RunError: the run has failed; `wait` raises the same error.
        """

    def close_inputs(self) -> None:
        """End the requests. Answers still arrive until the run is over."""

    async def wait(self) -> None:
        """Return when the run is over and every answer has been emitted.

        Raises:
            RunError: the run has failed.
        """


class Method(StrEnum):
    """A kind of call, by OpenVINO Model Server's name."""

    # An enum's own is a function of Python.
    __hash__ = str.__hash__

    UNARY = "Unary"
    STREAM = "Stream"
    INFER = "ModelInfer"
    INFER_STREAM = "ModelInferStream"


class LoadedServable(Protocol):
    """A loaded graph, or a loaded version of a plain model.

    Each method raises `RequestError` (RESOURCE_EXHAUSTED) if the limit of requests in flight is
    reached, and `UnavailableError` after the servable has been unloaded.
    """

    async def answer(self, payload: HttpPayload, emit: Callable[[ResponsePacket], object]) -> None:
        """Run the graph for one HTTP request; ``emit`` receives each response packet in order.

        Cancelling this coroutine cancels the graph.

        Raises:
            RequestError: the model does not take this request.
            RunError: the graph failed. ``errors[0].__cause__`` is the calculator's exception.
        """

    async def infer(self, request: InferRequest, client: ClientConnection) -> InferResponse:
        """Return the answer to one request. Cancelling this coroutine cancels the run.

        Raises:
            RequestError: the model does not take this request.
            RunError: as in `answer`.
            GraphError: the inference failed.
        """

    def open_stream(
        self, first: InferRequest, client: ClientConnection, emit: Callable[[InferAnswer], object]
    ) -> AbstractAsyncContextManager[InferStream]:
        """Open a stream of requests to the model of ``first``.

        The parameters of ``first`` hold for the whole run, but the request itself is not sent: pass
        it to `InferStream.send`. ``emit`` receives each answer in order. Leaving the context ends
        the run, by cancelling it if it is not over. Entering it raises as `infer` does.
        """


class ReloadError(GraphError):
    """A reload failed for part of the configuration or all of it. What was served stays served.

    Attributes:
        reloaded: the names that were loaded, replaced or retired all the same.
        failed: the names that could not be loaded, with the reasons; empty if the configuration
            cannot be used at all, so that nothing has changed.
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


class PullProgress(NamedTuple):
    """How far a download is that a client has asked for.

    Attributes:
        status: what is being done, in Ollama's words.
        completed, total: bytes; 0 and 0 where no file is read.
    """

    status: str
    completed: int = 0
    total: int = 0


class ModelChanges(Protocol):
    """Downloads and removals of models that clients ask for. `DataPlane.reload` comes after."""

    def pull(self, name: str) -> AsyncGenerator[PullProgress, None]:
        """Download a model and put it into the configuration; yield how far it is.

        Raises:
            RequestError: it cannot be had.
        """

    async def remove(self, name: str) -> None:
        """Take a model out of the configuration.

        Raises:
            RequestError: it is not in it.
        """

    async def forget(self, name: str) -> None:
        """Remove the files of a model that was downloaded, once it is not served any more."""


class DataPlane(Protocol):
    """The served models, by name.

    The adapters of a model have names of their own. Requests find the model by them, but only the
    model itself is loaded and unloaded.

    Methods that take a model's name raise `NotFoundError` (no such model, or no such version) and
    `UnavailableError` (the model is loading, draining, or could not be loaded).
    """

    def models(self) -> Sequence[ModelDescription]:
        """Return every model and adapter that answers below ``/v3/``, as configured.

        Plain models, and graphs that take only tensors, do not.
        """

    def endpoints(self) -> Sequence[ServedEndpoint]:
        """Return the endpoints of authors; of several for one request the first answers it."""

    def statuses(self) -> dict[str, object]:
        """Return the answer of ``GET /v1/config``, in OpenVINO Model Server's form."""

    @property
    def is_ready(self) -> bool:
        """True if loading is over and every loaded servable can answer."""

    async def resolve(self, model: str, method: Method, version: str = "") -> LoadedServable:
        """Return the servable for one request. One that loads on demand is loaded first.

        Call the servable at once: one without a request may be unloaded at any time.

        Args:
            method: the kind of call that follows, for metrics.
            version: "" and "0" are the highest one.
        """

    # KServe ---------------------------------------------------------------------------------------

    def is_model_ready(self, model: str, version: str = "") -> bool:
        """Return True if the model would answer now. Raises only `NotFoundError`."""

    async def metadata(self, model: str, version: str = "") -> ModelMetadata:
        """Return the metadata of a model. One that loads on demand is loaded for it once."""

    async def inputs_of(self, model: str, version: str = "") -> Sequence[TensorMetadata]:
        """Return the inputs of a request to a model. Loads as `metadata` does."""

    def index(self) -> Sequence[IndexEntry]:
        """Return every version of every model in the configuration, loaded or not."""

    async def reload(self) -> bool:
        """Read the configuration again, serve what it names now, and retry what failed.

        Return True if anything was loaded, unloaded or replaced, once that is done. Requests in
        flight finish on the servable they began with.

        Raises:
            ReloadError: the configuration cannot be used, or part of it cannot be loaded.
        """

    async def load(self, model: str) -> None:
        """Load a model from its files unless it is loaded.

        Raises:
            NotFoundError: the configuration does not name the model.
            GraphError: the model cannot be loaded; the text says why.
        """

    async def unload(self, model: str) -> None:
        """Unload a model. Return at once; requests in flight may still be running.

        Raises:
            NotFoundError: the configuration does not name the model.
        """

    def release(self, model: str) -> None:
        """Unload a model that loads on demand and has no request now; the next one loads it.

        Any other model stays.

        Raises:
            NotFoundError: the configuration does not name the model.
        """
