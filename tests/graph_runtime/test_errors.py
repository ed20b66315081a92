"""The error tree: its classes, pickling, and texts."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from graph_runtime import (
    CalculatorError,
    Cancelled,
    Code,
    GraphConfigError,
    GraphError,
    GraphSyntaxError,
    NotFoundError,
    PacketTypeError,
    ResourceError,
    RunError,
    StateError,
    TimestampError,
    UnavailableError,
    ValidationError,
)
from graph_runtime.errors import common_code, did_you_mean, reason_of
from graphrt_base.regular_file import DescriptorsExhaustedError

EXAMPLES: list[GraphError] = [
    GraphError("plain", code=Code.ALREADY_EXISTS),
    GraphConfigError("config", code=Code.INTERNAL),
    GraphSyntaxError("oops", source="graph.pbtxt", line=3, column=7, hint="write it so"),
    ValidationError([GraphConfigError("one"), NotFoundError("two")]),
    PacketTypeError("type"),
    ResourceError("no such file"),
    TimestampError("time"),
    StateError("state"),
    NotFoundError("nothing"),
    UnavailableError("later"),
    DescriptorsExhaustedError("too many open files"),
    CalculatorError("node", "Process", "ValueError: no", code=Code.INTERNAL, time=5),
    Cancelled(),
    RunError([CalculatorError("n", "Open", "x"), StateError("y")], prefix="Graph has errors: "),
    DescriptorsExhaustedError("too many open files (limit 1024)"),
]


def subclasses(cls: type[Any]) -> set[type[Any]]:
    return {cls}.union(*(subclasses(each) for each in cls.__subclasses__()))


def attributes(error: BaseException) -> dict[str, Any]:
    """Return an error's attributes, with errors inside it in the same form."""

    def told(value: Any) -> Any:
        if isinstance(value, BaseException):
            return attributes(value)
        return tuple(map(told, value)) if isinstance(value, tuple) else value

    found = {name: told(value) for name, value in vars(error).items() if name != "__cause__"}
    return {**found, "type": type(error), "text": str(error), "code": getattr(error, "code", None)}


def test_every_error_has_an_example() -> None:
    rooms = ("graph_runtime", "graphrt_base")
    ours = {cls for cls in subclasses(GraphError) if cls.__module__.startswith(rooms)}
    assert {type(error) for error in EXAMPLES} == ours


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_errors_keep_their_attributes_when_pickled(error: GraphError, protocol: int) -> None:
    assert attributes(pickle.loads(pickle.dumps(error, protocol))) == attributes(error)
    assert attributes(copy.deepcopy(error)) == attributes(error)


class AuthorsError(GraphError):
    """An author's error with a constructor of its own."""

    def __init__(self, model: str, *, retry_after: float) -> None:
        super().__init__(f"{model} is busy", code=Code.UNAVAILABLE)
        self.model = model
        self.retry_after = retry_after


def test_errors_of_authors_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(AuthorsError("llama", retry_after=1.5)))

    assert (error.model, error.retry_after, error.code) == ("llama", 1.5, Code.UNAVAILABLE)
    assert str(error) == "llama is busy"


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_errors_are_those_that_mediapipes_python_api_raises(error: GraphError) -> None:
    assert isinstance(error, RuntimeError)
    is_value_error = isinstance(error, (GraphConfigError, PacketTypeError, TimestampError))
    assert isinstance(error, ValueError) is is_value_error
    assert error.message == str(error)


def test_a_syntax_error_begins_with_the_place() -> None:
    error = EXAMPLES[2]
    assert str(error) == "graph.pbtxt:3:7: parse error: oops\nhint: write it so"


def test_a_calculator_error_keeps_the_calculators_words_apart() -> None:
    error = CalculatorError("llm", "Process", "ValueError: no", time=5)

    assert (error.node, error.phase, error.reason, error.time) == (
        "llm", "Process", "ValueError: no", 5,
    )  # fmt: skip
    assert str(error) == (
        'Calculator::Process() for node "llm" failed: ValueError: no (at input timestamp 5)'
    )
    assert str(CalculatorError("n", "Close", "x")) == 'Calculator::Close() for node "n" failed: x'


def test_several_errors_share_a_code_or_have_none() -> None:
    both = [NotFoundError("a"), NotFoundError("b")]
    assert RunError(both).code is Code.NOT_FOUND
    assert RunError([*both, StateError("c")]).code is Code.UNKNOWN
    assert common_code([]) is Code.UNKNOWN
    assert str(RunError(both)) == "CalculatorGraph::Run() failed: \na\nb"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("vidoe", ' Did you mean "video"?'),
        ("VIDEO", ' Did you mean "video"?'),
        ("xyz", ""),
        ("a_", ' Did you mean "a_2"?'),
    ],
)
def test_suggestions_are_near_names(name: str, hint: str) -> None:
    assert did_you_mean(name, ["video", "audio", "a_2"]) == hint


@pytest.mark.parametrize("raised", [ValueError, SystemExit, KeyboardInterrupt])
def test_a_foreign_exception_whose_text_fails_has_its_type_as_reason(
    raised: type[BaseException],
) -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise raised

    assert reason_of(Odd()) == "Odd"


def test_the_reason_of_a_foreign_exception_names_its_type() -> None:
    assert reason_of(ValueError("no")) == "ValueError: no"
    assert reason_of(KeyError()) == "KeyError"
    assert reason_of(StateError("too late")) == "too late"
