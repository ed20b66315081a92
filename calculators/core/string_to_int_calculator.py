"""StringToInt calculators: a side packet with a number in it."""

from __future__ import annotations

import re
from typing import ClassVar

from graph_runtime import Calculator, CalculatorContext, Code, GraphError, SideIn, SideOut

_NUMBER = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)[ \t\n\v\f\r]*\Z")


class StringToIntCalculator(Calculator):
    """Reads the decimal integer in a string side packet, or fails the run.

    Variants differ in the range they accept: StringToIntCalculator and StringToInt32Calculator
    (-2^31 to 2^31 - 1), StringToUintCalculator and StringToUint32Calculator (0 to 2^32 - 1),
    StringToInt64Calculator, StringToUint64Calculator.

    Input side packets: #0 (str): digits, perhaps with a sign and white space around.
    Output side packets: #0 (int).
    Options: none.

    ::

        node {
          calculator: "StringToIntCalculator"
          input_side_packet: "limit_text"
          output_side_packet: "limit"
        }

    Source: MediaPipe ``calculators/core/string_to_int_calculator.cc``.
    """

    text = SideIn[str]()
    number = SideOut[int]()

    #: lowest <= number < end
    lowest: ClassVar[int] = -(2**31)
    end: ClassVar[int] = 2**31

    timestamp_offset = None

    def open(self, cc: CalculatorContext) -> None:
        text = cc.side(self.text)
        # 64 bits have 20 digits; int() of a huge text would be slow.
        match = _NUMBER.match(text) if len(text) < 100 else None
        number = int(match.group(1)) if match else None
        if number is None or not self.lowest <= number < self.end:
            raise GraphError(
                f"The string could not be parsed as an integer: {text[:100]!r}. It must be a "
                f"decimal number from {self.lowest} to {self.end - 1}.",
                code=Code.INVALID_ARGUMENT,
            )
        cc.set_side(self.number, number)


class StringToInt32Calculator(StringToIntCalculator):
    __doc__ = StringToIntCalculator.__doc__


class StringToUintCalculator(StringToIntCalculator):
    __doc__ = StringToIntCalculator.__doc__
    lowest = 0
    end = 2**32


class StringToUint32Calculator(StringToUintCalculator):
    __doc__ = StringToIntCalculator.__doc__


class StringToInt64Calculator(StringToIntCalculator):
    __doc__ = StringToIntCalculator.__doc__
    lowest = -(2**63)
    end = 2**63


class StringToUint64Calculator(StringToIntCalculator):
    __doc__ = StringToIntCalculator.__doc__
    lowest = 0
    end = 2**64


STRING_TO_INT = [
    StringToIntCalculator,
    StringToInt32Calculator,
    StringToUintCalculator,
    StringToUint32Calculator,
    StringToInt64Calculator,
    StringToUint64Calculator,
]
