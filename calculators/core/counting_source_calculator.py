"""CountingSourceCalculator: a source of numbers."""

from __future__ import annotations

from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Out,
    SideIn,
    Stop,
)


class CountingSourceCalculator(Calculator):
    """Sends numbers, each at the timestamp of the same value. For tests and demonstrations.

    Outputs: #0 (int).
    Input side packets, one of MAX_COUNT and ERROR_COUNT at least:
        MAX_COUNT (int): stop after this many batches.
        ERROR_COUNT (int): fail after this many batches.
        BATCH_SIZE (int): numbers per call, default 1.
        INITIAL_VALUE (int): the first number, default 0.
        INCREMENT (int): the step, at least 1, default 1.
        ERROR_ON_OPEN (bool): fail at once.
    Options: none.

    ::

        node {
          calculator: "CountingSourceCalculator"
          input_side_packet: "MAX_COUNT:count"
          output_stream: "numbers"
        }

    Source: MediaPipe ``calculators/core/counting_source_calculator.cc``.
    """

    numbers = Out[int]()
    max_count = SideIn[int]("MAX_COUNT", optional=True)
    error_count = SideIn[int]("ERROR_COUNT", optional=True)
    batch_size = SideIn[int]("BATCH_SIZE", optional=True)
    initial_value = SideIn[int]("INITIAL_VALUE", optional=True)
    increment = SideIn[int]("INCREMENT", optional=True)
    error_on_open = SideIn[bool]("ERROR_ON_OPEN", optional=True)

    timestamp_offset = None

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        sides = contract.input_side_packets
        contract.require(
            sides.has_tag("MAX_COUNT") or sides.has_tag("ERROR_COUNT"),
            "one of the input side packets MAX_COUNT and ERROR_COUNT must be connected",
        )

    def open(self, cc: CalculatorContext) -> None:
        if cc.side(self.error_on_open, False):
            raise GraphError("expected error", code=Code.NOT_FOUND)
        self._batches = 0
        self._max_count = cc.side(self.max_count, None)
        self._error_count = cc.side(self.error_count, None)
        self._batch_size = cc.side(self.batch_size, 1)
        self._number = cc.side(self.initial_value, 0)
        self._increment = cc.side(self.increment, 1)
        for name, value, lowest in (
            ("MAX_COUNT", self._max_count, 0),
            ("ERROR_COUNT", self._error_count, 0),
            ("BATCH_SIZE", self._batch_size, 1),
            ("INCREMENT", self._increment, 1),
        ):
            if value is not None and value < lowest:
                raise GraphError(
                    f"{name} is {value}; it must be at least {lowest}", code=Code.INTERNAL
                )

    def process(self, cc: CalculatorContext) -> None:
        if self._error_count is not None and self._batches >= self._error_count:
            raise GraphError("expected error", code=Code.INTERNAL)
        if self._max_count is not None and self._batches >= self._max_count:
            raise Stop
        for _ in range(self._batch_size):
            cc.output_list[0].add(self._number, self._number)
            self._number += self._increment
        self._batches += 1
