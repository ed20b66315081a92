"""Plain functions as calculators."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graph_runtime import GraphError, Registry, RunError, ValidationError, options
from graph_runtime.authoring.calculator import function_calculator
from graph_runtime.authoring.packet_type import type_name
from graph_runtime.authoring.ports import ports_of
from graph_runtime.testing import CalculatorRunner


@options("enginetest.MaskOptions")
class MaskOptions:
    mask: str = "*"


def ports(function: Any) -> list[str]:
    """Return the function's ports as the graph sees them, such as ``In TAG int``."""
    return [
        f"{type(port).__name__} {port.key} {type_name(port.spec)}"
        + (" optional" if port.is_optional else "")
        for port in ports_of(function_calculator(function))
    ]


def values(function: Any, *inputs: Any, **options_and_tags: Any) -> list[Any]:
    """Return the first output for one packet on each untagged input."""
    runner = CalculatorRunner(function, options=options_and_tags.pop("options", ()))
    for index, value in enumerate(inputs):
        runner.push(index, value, at=0)
    for tag, value in options_and_tags.items():
        runner.push(tag, value, at=0)
    return runner.run().outputs[0].values


def test_positional_parameters_are_untagged_inputs() -> None:
    def join(left: str, right: str) -> str:
        return left + right

    assert ports(join) == ["In 0 string", "In 1 string", "Out 0 string"]
    assert values(join, "a", "b") == ["ab"]


def test_keyword_only_parameters_are_tagged() -> None:
    def pad(text: str, *, fill_char: str) -> str:
        return text.center(5, fill_char)

    assert ports(pad) == ["In 0 string", "In FILL_CHAR string", "Out 0 string"]
    assert values(pad, "a", FILL_CHAR="-") == ["--a--"]


def test_a_default_makes_an_input_optional() -> None:
    def scale(value: int, factor: int = 10, *, offset: int | None = None) -> int:
        return value * factor + (offset or 0)

    assert ports(scale) == ["In 0 int", "In 1 int optional", "In OFFSET int optional", "Out 0 int"]
    assert values(scale, 3) == [30]
    assert values(scale, 3, 2, OFFSET=1) == [7]


def test_a_default_also_stands_in_where_a_timestamp_has_no_packet() -> None:
    def scale(value: int, factor: int = 10) -> int:
        return value * factor

    runner = CalculatorRunner(scale)
    runner.push(0, 3, at=0)
    runner.push(0, 3, at=1)
    runner.push(1, 2, at=1)
    runner.push(1, 5, at=2)
    assert runner.run().outputs[0].pairs == [(0, 30), (1, 6)]


def test_options_are_passed_by_their_type() -> None:
    def mask(text: str, settings: MaskOptions) -> str:
        return settings.mask * len(text)

    assert ports(mask) == ["In 0 string", "Out 0 string"]
    assert values(mask, "abc") == ["***"]
    assert values(mask, "abc", options=MaskOptions("#")) == ["###"]


def test_a_tuple_is_several_outputs_and_none_sends_nothing() -> None:
    def split(value: int) -> tuple[int, str | None]:
        return value, str(value) if value > 1 else None

    assert ports(split) == ["In 0 int", "Out 0 int", "Out 1 string"]
    runner = CalculatorRunner(split)
    runner.push(0, 1, at=0)
    runner.push(0, 2, at=1)
    runner.run()
    assert [runner.outputs[0].values, runner.outputs[1].pairs] == [[1, 2], [(1, "2")]]


def test_none_in_place_of_a_tuple_sends_nothing() -> None:
    def split(value: int) -> tuple[int, int] | None:
        return (value, value) if value else None

    assert ports(split) == ["In 0 int", "Out 0 int", "Out 1 int"]
    assert values(split, 0) == []
    assert values(split, 3) == [3]


def test_a_list_and_a_tuple_of_any_length_are_one_value() -> None:
    def both(value: int) -> tuple[int, ...]:
        return (value, value)

    def listed(value: int) -> list[int]:
        return [value]

    assert ports(both)[-1] == "Out 0 tuple<int, Ellipsis>"
    assert values(both, 1) == [(1, 1)]
    assert values(listed, 1) == [[1]]


def test_a_function_may_have_no_output() -> None:
    seen = []

    def swallow(value: Any) -> None:
        seen.append(value)

    assert ports(swallow) == ["In 0 Any"]
    runner = CalculatorRunner(swallow)
    runner.push(0, "x", at=0)
    runner.run()
    assert seen == ["x"]


def test_a_coroutine_function_can_be_a_calculator() -> None:
    async def later(value: int) -> int:
        await asyncio.sleep(0)
        return value + 1

    assert values(later, 1) == [2]


def test_any_accepts_everything() -> None:
    def anything(value: Any) -> Any:
        return value

    assert ports(anything) == ["In 0 Any", "Out 0 Any"]
    assert values(anything, {"x": 1}) == [{"x": 1}]
    assert values(anything, 0) == [0]


@pytest.mark.parametrize(
    ("signature", "told"),
    [
        ("value", "f: the parameter value has no annotation, .* write value: str, or value: Any"),
        ("value: int, *, limit=3", "f: the parameter limit has no annotation"),
        ("value: int", "f: the result has no annotation, .* write -> str, -> Any"),
        ("value: Nowhere", "f: its annotations cannot be read: NameError: name 'Nowhere' is not"),
    ],
)
def test_a_missing_annotation_is_refused(signature: str, told: str, registry: Registry) -> None:
    scope: dict[str, Any] = {}
    exec(f"from __future__ import annotations\ndef f({signature}): return value", scope)

    with pytest.raises(GraphError, match=told):
        registry.register_calculator(scope["f"])


def test_none_where_the_annotation_does_not_allow_it_is_an_error() -> None:
    def forgets(value: int) -> str:
        if value:
            return "x"
        return None  # type: ignore[return-value]

    def forgets_one(value: int) -> tuple[int, str]:
        return (value, None)  # type: ignore[return-value]

    def forgets_all(value: int) -> tuple[int, str]:
        return None  # type: ignore[return-value]

    assert values(forgets, 1) == ["x"]
    with pytest.raises(RunError, match=r"forgets is declared `-> str`: it returned None; .*None`"):
        values(forgets, 0)
    with pytest.raises(RunError, match=r"`-> tuple\[int, str\]`: it returned None as value 2;"):
        values(forgets_one, 0)
    with pytest.raises(RunError, match=r"declared `-> tuple.* a tuple of 2 values is needed"):
        values(forgets_all, 0)


def test_types_are_checked() -> None:
    def lies(value: int) -> int:
        return str(value)  # type: ignore[return-value]

    with pytest.raises(RunError, match=r'lies is declared `-> int`: .*"string", but "int" was'):
        values(lies, 1)
    with pytest.raises(RunError, match='stores "string", but "int" was requested'):
        values(lies, "one")


def test_an_exception_is_an_error_of_the_node() -> None:
    def divides(value: int) -> float:
        return 1 / value

    with pytest.raises(RunError, match='node "divides" failed: ZeroDivisionError') as caught:
        values(divides, 0)
    assert isinstance(caught.value.errors[0].__cause__, ZeroDivisionError)


@pytest.mark.parametrize("kind", ["*args", "**kwargs", "only, /"])
def test_parameters_that_cannot_be_ports_are_refused(kind: str, registry: Registry) -> None:
    scope: dict[str, Any] = {}
    exec(f"def f({kind}): pass", scope)

    with pytest.raises(GraphError, match=r"cannot be a port .* write a Calculator class"):
        registry.register_calculator(scope["f"])


def test_the_node_must_connect_inputs_without_a_default(registry: Registry) -> None:
    def join(left: str, right: str) -> str:
        return left + right

    with pytest.raises(ValidationError, match='Failed to get tag "" index 1'):
        CalculatorRunner(join, inputs=[0]).run()


def test_the_functions_documentation_is_the_calculators() -> None:
    def documented(value: int) -> int:
        """Says what it does."""
        return value

    cls = function_calculator(documented)
    assert (cls.__name__, cls.__doc__) == ("documented", "Says what it does.")
