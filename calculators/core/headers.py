"""Stream headers that a calculator passes on."""

from __future__ import annotations

from graph_runtime import CalculatorContext


def copy_headers(cc: CalculatorContext) -> None:
    """Give each output the header of the input with the same tag and index. Only in ``open``."""
    for place in cc.inputs.places:
        header = cc.inputs[place].header
        if place in cc.outputs and not header.is_empty():
            cc.outputs[place].set_header(header)
