"""Calculators on numbers: sources, zero or not, quantised vectors, matrices."""

from __future__ import annotations

from typing import Any

import pytest

from graph_runtime import RunError, ValidationError
from tests.calculators.core.running import CLOSE, at, run


def counted(**side_packets: Any) -> list[tuple[int, int]]:
    ports = " ".join(f'input_side_packet: "{name.upper()}:{name}"' for name in side_packets)
    return run(
        f'node {{ calculator: "CountingSourceCalculator" {ports} output_stream: "out" }}',
        side_packets=side_packets,
    )["out"]


def test_counting_stops_at_its_maximum() -> None:
    assert counted(max_count=3) == [(0, 0), (1, 1), (2, 2)]
    assert counted(max_count=0) == []


def test_counting_in_batches_and_steps() -> None:
    seen = counted(max_count=2, batch_size=2, initial_value=5, increment=3)
    assert seen == [(5, 5), (8, 8), (11, 11), (14, 14)]


@pytest.mark.parametrize(
    ("side_packets", "message"),
    [
        ({"error_count": 2}, "expected error"),
        ({"max_count": 1, "error_on_open": True}, "expected error"),
        ({"max_count": -1}, "MAX_COUNT is -1; it must be at least 0"),
        ({"max_count": 1, "batch_size": 0}, "BATCH_SIZE is 0; it must be at least 1"),
        ({"max_count": 1, "increment": 0}, "INCREMENT is 0; it must be at least 1"),
    ],
)
def test_counting_can_fail(side_packets: dict[str, Any], message: str) -> None:
    with pytest.raises(RunError, match=message):
        counted(**side_packets)


def test_counting_needs_an_end() -> None:
    with pytest.raises(ValidationError, match="one of the input side packets MAX_COUNT"):
        counted()


def test_zero_and_other_numbers_go_to_different_outputs() -> None:
    seen = run(
        """node {
          calculator: "NonZeroCalculator" input_stream: "INPUT:in"
          output_stream: "OUTPUT:out" output_stream: "OUTPUT_BOOL:bool"
        }""",
        at("in", 0, 7),
        watch="out bool",
    )
    assert seen == {"out": [(0, 0), (7, 1)], "bool": [(0, False), (7, True)]}


def test_a_side_packet_is_compared_with_zero() -> None:
    seen = run(
        'node { calculator: "NonZeroCalculator" input_side_packet: "INPUT:n" '
        'output_stream: "OUTPUT:out" }',
        side_packets={"n": 7},
    )
    assert seen["out"] == [(0, 1)]


def quantiser(calculator: str, ports: str, limits: str) -> str:
    return f"""node {{
      calculator: "{calculator}Calculator" {ports}
      options {{ [mediapipe.{calculator}CalculatorOptions.ext] {{ {limits} }} }}
    }}"""


QUANTISE = ("QuantizeFloatVector", 'input_stream: "FLOAT_VECTOR:in" output_stream: "ENCODED:out"')
DEQUANTISE = ("DequantizeByteArray", 'input_stream: "ENCODED:in" output_stream: "FLOAT_VECTOR:out"')


def test_numbers_become_bytes() -> None:
    text = quantiser(*QUANTISE, "max_quantized_value: 64 min_quantized_value: -64")
    seen = run(text, [("in", 0, [0.0, -64.0, 64.0, -32.0, 32.0, -1e9, 1e9])])
    assert seen["out"] == [(0, bytes([127, 0, 255, 63, 191, 0, 255]))]


def test_bytes_become_numbers() -> None:
    text = quantiser(*DEQUANTISE, "max_quantized_value: 2 min_quantized_value: -2")
    seen = run(text, [("in", 0, bytes([0x7F, 0xFF, 0x00, 0x01]))])
    assert seen["out"][0][1] == pytest.approx([0, 2.007812, -1.992188, -1.976502], abs=1e-4)


@pytest.mark.parametrize("quantise", [QUANTISE, DEQUANTISE])
@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ("max_quantized_value: 1", "Both max_quantized_value and min_quantized_value"),
        ("min_quantized_value: 1", "Both max_quantized_value and min_quantized_value"),
        ("max_quantized_value: 1 min_quantized_value: 1", "must be greater than"),
        ("max_quantized_value: 1 min_quantized_value: 2", "must be greater than"),
    ],
)
def test_impossible_limits_are_refused(
    quantise: tuple[str, str], limits: str, message: str
) -> None:
    with pytest.raises(RunError, match=message):
        run(quantiser(*quantise, limits), [("in", CLOSE)])


class Matrix:
    """A matrix of rows, with the operators that the calculators use."""

    def __init__(self, *rows: list[float]) -> None:
        self.rows = list(rows)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.rows[0])

    @property
    def T(self) -> list[list[float]]:  # noqa: N802
        return [list(column) for column in zip(*self.rows, strict=True)]

    def __matmul__(self, other: Matrix) -> Matrix:
        return Matrix(
            *(
                [sum(x * y for x, y in zip(row, column, strict=True)) for column in other.T]
                for row in self.rows
            )
        )

    def __sub__(self, other: Matrix) -> Matrix:
        return Matrix(
            *(
                [x - y for x, y in zip(mine, theirs, strict=True)]
                for mine, theirs in zip(self.rows, other.rows, strict=True)
            )
        )


A, B = Matrix([1, 2], [3, 4]), Matrix([10, 20], [30, 40])


def test_matrices_multiply_from_the_left() -> None:
    seen = run(
        'node { calculator: "MatrixMultiplyCalculator" input_stream: "in" '
        'input_side_packet: "a" output_stream: "out" }',
        [("in", 0, B)],
        side_packets={"a": A},
    )
    assert seen["out"][0][1].rows == [[70, 100], [150, 220]]


@pytest.mark.parametrize(
    ("stream", "side", "difference"),
    [
        ("MINUEND", "SUBTRAHEND", [[9, 18], [27, 36]]),
        ("SUBTRAHEND", "MINUEND", [[-9, -18], [-27, -36]]),
    ],
)
def test_matrices_subtract_either_way(
    stream: str, side: str, difference: list[list[float]]
) -> None:
    seen = run(
        f"""node {{
          calculator: "MatrixSubtractCalculator" input_stream: "{stream}:in"
          input_side_packet: "{side}:a" output_stream: "out"
        }}""",
        [("in", 0, B)],
        side_packets={"a": A},
    )
    assert seen["out"][0][1].rows == difference


def test_matrices_of_different_shapes_cannot_be_subtracted() -> None:
    with pytest.raises(RunError, match="must have the same dimensions"):
        run(
            """node {
              calculator: "MatrixSubtractCalculator" input_stream: "MINUEND:in"
              input_side_packet: "SUBTRAHEND:a" output_stream: "out"
            }""",
            [("in", 0, Matrix([1, 2, 3]))],
            side_packets={"a": A},
        )


def test_matrices_become_lists_column_by_column() -> None:
    seen = run(
        'node { calculator: "MatrixToVectorCalculator" input_stream: "in" output_stream: "out" }',
        [("in", 0, A)],
    )
    assert seen["out"] == [(0, [1.0, 3.0, 2.0, 4.0])]
