"""Requests of every client, so that their answers can be compared. Imports no client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

LANGUAGE_MODEL: Final = "demo"
PROMPT: Final = "Once upon a time"
MAX_TOKENS: Final = 12
NO_MODEL: Final = "no-such-model"
#: Models whose metadata the clients request.
MODELS: Final = ("passing", "arithmetic", "sensor", "add", "upper", "words", LANGUAGE_MODEL)

#: A graph with a process, which one client unloads and loads.
RESTARTED: Final = "restarted"
#: Modules of this folder that use a client, and the graph that each may unload.
SPARE_OF: Final = {
    "with_triton_grpc": "spare-1",
    "with_triton_grpc_aio": "spare-2",
    "with_triton_http": "spare-3",
    "with_triton_http_aio": "spare-4",
    "with_kserve_grpc": "spare-5",
    "with_kserve_rest": "spare-6",
}

#: The module that uses a client as other projects' demos do.
DEMOS: Final = "ovms_demos"


@dataclass(frozen=True)
class Asked:
    """A request; ``inputs`` are tensors by name. ``time``: OVMS_MP_TIMESTAMP."""

    model: str
    inputs: Mapping[str, Array]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    version: str = ""
    id: str = ""
    time: int | None = None

    @property
    def all_parameters(self) -> dict[str, Any]:
        time = {} if self.time is None else {"OVMS_MP_TIMESTAMP": self.time}
        return {**self.parameters, **time}


def array(values: Any, kind: Any = np.float32) -> Array:
    return np.array(values, kind)


def texts(*values: str) -> Array:
    """Return a tensor of BYTES."""
    return np.array([value.encode() for value in values], dtype=np.object_)


#: Tensors that a graph passes on, by datatype.
PASSED: Final[dict[str, Array]] = {
    "FP32": array([[0.5, -1.0], [3.25, 1e10]]),
    "FP64": array([0.1], np.float64),
    "FP16": array([[0.5, -2.0, 65504.0]], np.float16),
    "INT64": array([2**62, -1], np.int64),
    "UINT8": np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
    "BOOL": array([True, False, True], np.bool_),
    "BYTES": texts("one", "zwölf", ""),
}

_SUMMANDS: Final = {"left": array([1, 2]), "right": array([10, 20])}
_TWO: Final = {"X": array([1, 2])}
_SCORES: Final = array([[0.5, 2.5, 1.0], [7.0, 7.0, 9.0]])
#: Whole numbers, because kserve's client for gRPC sends no others.
_WEIGHT: Final = {"weight": 2}
_GREEDY: Final[dict[str, Any]] = {"max_tokens": MAX_TOKENS, "temperature": 0}

_ANSWERED: Final = {
    **{name: Asked("passing", {"in": each}, outputs=("out",)) for name, each in PASSED.items()},
    "two outputs": Asked("arithmetic", _SUMMANDS, _WEIGHT),
    "one output": Asked("arithmetic", _SUMMANDS, _WEIGHT, ("largest",)),
    "latest version": Asked("add", _TWO, outputs=("SUM",)),
    "version 1": Asked("add", _TWO, outputs=("SUM",), version="1"),
    "handler": Asked("upper", {"text": texts("one", "two three")}, outputs=("uppercase",)),
    "converters": Asked("python_handler", {"scores": _SCORES}, outputs=("labels", "probabilities")),
    "language model": Asked(
        LANGUAGE_MODEL,
        {"text_input": texts(PROMPT)},
        {**_GREEDY, "exclude_input_in_output": True, "return_finish_reason": True},
    ),
}

#: Requests that are answered; some clients make an id if there is none.
ANSWERED: Final = {name: replace(asked, id=f"a {name}") for name, asked in _ANSWERED.items()}

#: Encodings of tensors over REST, by inputs and outputs. JSON has no FP16.
REST_WAYS: Final = {
    "binary": ANSWERED,
    "json": {name: asked for name, asked in ANSWERED.items() if name != "FP16"},
}

#: Requests that are refused.
REFUSED: Final = {
    "no model": Asked(NO_MODEL, _TWO),
    "no version": Asked("add", _TWO, version="7"),
    "missing input": Asked("arithmetic", {"left": array([1])}, _WEIGHT),
    "unknown input": Asked("passing", {"in": array([1]), "more": array([1])}),
    "wrong type": Asked("add", {"X": array([1, 2], np.float64)}),
    "wrong shape": Asked("add", {"X": array([1, 2, 3])}),
    "missing parameter": Asked("arithmetic", _SUMMANDS),
    "unknown output": Asked("passing", {"in": array([1])}, outputs=("most",)),
    "author's error": Asked("arithmetic", {**_SUMMANDS, "left": array([1])}, _WEIGHT),
    "handler's error": Asked("python_handler", {"scores": array([[1, 2]])}),
    "too hot": Asked(LANGUAGE_MODEL, {"text_input": texts(PROMPT)}, {"temperature": 99}),
}

_KELVIN: Final = {"temperature": array([300.0], np.float64)}
_PASCAL: Final = {"pressure": array([86115.0], np.float64)}

#: Streams of requests.
STREAMS: Final[dict[str, tuple[Asked, ...]]] = {
    "timestamps": (
        Asked("sensor", {**_KELVIN, **_PASCAL}, id="both", time=10),
        Asked("sensor", _KELVIN, id="kelvin", time=20),
        Asked("sensor", _PASCAL, id="pascal", time=20),
        Asked("sensor", _KELVIN, id="late", time=15),
        Asked("sensor", {"humidity": array([1])}, id="unknown", time=30),
        Asked("sensor", {"temperature": texts("warm")}, id="type", time=30),
        Asked("sensor", {**_KELVIN, **_PASCAL}, id="good"),
    ),
    "counted": tuple(Asked("passing", {"in": array([n])}, id=str(n)) for n in range(3)),
    "one output": (
        Asked("sensor", {**_KELVIN, **_PASCAL}, outputs=("density",), id="one"),
        Asked("sensor", {**_KELVIN, **_PASCAL}, id="all"),
    ),
    "other model": (
        Asked("passing", {"in": array([1])}, id="first"),
        Asked("sensor", _KELVIN, id="other"),
        Asked("passing", {"in": array([2])}, id="last"),
    ),
    "side packet": (
        Asked("arithmetic", _SUMMANDS, {"weight": 0.5}, id="first"),
        Asked("arithmetic", _SUMMANDS, id="second"),
    ),
    "generator": (Asked("words", {"text": texts("the quick", "fox")}, id="words", time=40),),
    "failing generator": (Asked("words", {"text": texts("one fail two")}, id="words"),),
    "plain model": tuple(Asked("add", {"X": array([n, n])}, id=str(n)) for n in range(3)),
    "language model": tuple(
        Asked(LANGUAGE_MODEL, {"text_input": texts(PROMPT)}, _GREEDY, id=id) for id in "ab"
    ),
}


def told(value: Array | None) -> Any:
    """Return a tensor in its JSON form."""
    assert value is not None
    return _texts(value.tolist())


def _texts(value: Any) -> Any:
    if isinstance(value, list):
        return [_texts(each) for each in value]
    return value.decode() if isinstance(value, bytes) else value
