"""Slips in classes and functions of authors: found where they are written, with the right line."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from graph_runtime import (
    Calculator,
    CalculatorContext,
    GraphError,
    In,
    Out,
    RunError,
    ValidationError,
    parse_graph_text,
    validate_graph,
)
from graph_runtime.errors import did_you_mean
from graph_runtime.testing import CalculatorRunner


def port_without_brackets() -> None:
    class Slip(Calculator):
        text = In[str]


def bare_port() -> None:
    class Slip(Calculator):
        clean = Out


def small_tag() -> None:
    class Slip(Calculator):
        text = In[str]("text-in")


def capital_method() -> None:
    class Slip(Calculator):
        def Process(self, cc: CalculatorContext) -> None: ...  # noqa: N802


def capital_open() -> None:
    class Slip(Calculator):
        def Open(self, cc: CalculatorContext) -> None: ...  # noqa: N802

        def process(self, cc: CalculatorContext) -> None: ...


def no_context() -> None:
    class Slip(Calculator):
        def process(self) -> None:  # type: ignore[override]
            ...


def no_self() -> None:
    class Slip(Calculator):
        def open(cc) -> None:  # type: ignore[override]  # noqa: N805
            ...


def too_much() -> None:
    class Slip(Calculator):
        def close(self, cc: CalculatorContext, status: int) -> None:  # type: ignore[override]
            ...


def yielding() -> None:
    class Slip(Calculator):
        def process(self, cc: CalculatorContext) -> Iterator[int]:  # type: ignore[override]
            yield 1


def yielding_later() -> None:
    class Slip(Calculator):
        async def process(  # type: ignore[override]
            self, cc: CalculatorContext
        ) -> AsyncIterator[int]:
            yield 1


@pytest.mark.parametrize(
    ("write", "text"),
    [
        (port_without_brackets, 'a type and no port: write text = In[str]("TEXT")'),
        (bare_port, 'Slip.clean is Out, a type and no port: write clean = Out[str]("CLEAN")'),
        (small_tag, "In('text-in'): a tag is of capitals, digits and _"),
        (small_tag, 'write In[...]("TEXT_IN")'),
        (capital_method, "Slip.Process is never called: its name is process here"),
        (capital_open, "its name is open here: write def open(self, cc)"),
        (no_context, "process takes (self), and is called with the context: write"),
        (no_self, "Slip.open takes (cc), and is called with the context: write def open(self, cc)"),
        (too_much, "Slip.close takes (self, cc, status), and is called with the context"),
        (yielding, "Slip.process has a yield: packets are sent with cc.emit(self.port, ...)"),
        (yielding_later, "Slip.process has a yield"),
    ],
)  # fmt: skip
def test_a_class_with_a_slip_is_refused_at_its_definition(
    write: Callable[[], None], text: str
) -> None:
    with pytest.raises(GraphError) as raised:
        write()
    assert text in str(raised.value)


def test_methods_that_are_right_in_other_forms_are_taken() -> None:
    class Right(Calculator):
        text = In[str]("TEXT")

        def process(self, *arguments: Any) -> None: ...

        def close(self, cc: CalculatorContext, note: str = "") -> None: ...

        def Process(self) -> None: ...  # noqa: N802

    runner = CalculatorRunner(Right)
    runner.push("TEXT", "a", at=0)
    runner.run()


def numbers(text: str) -> Iterator[int]:
    yield 1


async def later(text: str) -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("function", [numbers, later])
def test_a_function_that_yields_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(GraphError, match="this one has a yield: return the value, or write a Calc"):
        CalculatorRunner(function)


class Ported(Calculator):
    text = In[str]("TEXT")
    clean = Out[str]("CLEAN")
    slip: Callable[[Ported, CalculatorContext], None]

    def process(self, cc: CalculatorContext) -> None:
        type(self).slip(self, cc)


def fails(slip: Callable[[Any, Any], None]) -> str:
    cls = type("Slipping", (Ported,), {"slip": staticmethod(slip)})
    runner = CalculatorRunner(cls)
    runner.push("TEXT", "a", at=0)
    with pytest.raises(RunError) as raised:
        runner.run()
    return str(raised.value)


def test_a_text_in_place_of_a_port_names_the_port() -> None:
    text = fails(lambda self, cc: cc.get("text"))
    assert (
        "cc.get('text') takes a port of the class, self.text; by its tag a stream is "
        'cc.inputs["TAG"]'
    ) in text
    assert "cc.emit(0) takes a port of the class, self.clean" in fails(
        lambda self, cc: cc.emit(0, "a")
    )


def test_two_packets_at_one_timestamp_say_how_several_are_sent() -> None:
    def twice(self: Any, cc: CalculatorContext) -> None:
        cc.emit(self.clean, "a")
        cc.emit(self.clean, "b")

    text = fails(twice)
    assert "Each packet of a stream needs a later timestamp than the one before" in text
    assert "cc.emit(port, value, at=time)" in text
    assert '(sent by node "Slipping")' in text


@pytest.mark.parametrize("side", ['input_side_packet: "FACTOR:factor"', "MADE"])
def test_a_side_packet_as_a_stream_is_named(side: str) -> None:
    made = 'node { calculator: "Made" output_side_packet: "factor" }'
    node = 'node { calculator: "PassThroughCalculator" input_stream: "factor" output_stream: "o" }'
    with pytest.raises(ValidationError, match='is a side packet: write input_side_packet: "TAG:'):
        validate_graph(parse_graph_text(node + side.replace("MADE", made)))


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("Detector", ["MergeToVector", "GetVectorItem"], ""),
        ("Redact", ["Redacts"], ' Did you mean "Redacts"?'),
        ("edact", ["Redact"], ' Did you mean "Redact"?'),
    ],
)
def test_a_hint_is_a_likely_slip(name: str, known: list[str], hint: str) -> None:
    assert did_you_mean(name, known) == hint
