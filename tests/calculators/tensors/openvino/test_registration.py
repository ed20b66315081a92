"""Registration of the family."""

from __future__ import annotations

import subprocess
import sys

import pytest

from calculators.tensors.openvino.openvino_inference_calculator import OpenVINOInferenceCalculator
from calculators.tensors.openvino.openvino_model_server_session_calculator import (
    OpenVINOModelServerSessionCalculator,
)
from graph_runtime import Calculator, validate_graph
from tests.calculators.docstring_examples import example_graph
from tests.calculators.tensors.openvino.graphs import registry, session_and_inference

CALCULATORS = [OpenVINOInferenceCalculator, OpenVINOModelServerSessionCalculator]

VALIDATING = """
import sys
from graph_runtime import parse_graph_text, validate_graph
from tests.calculators.tensors.openvino.graphs import registry
validate_graph(parse_graph_text(sys.argv[1]), registry=registry())
assert "openvino" not in sys.modules
"""


@pytest.mark.parametrize("calculator", CALCULATORS, ids=lambda cls: cls.__name__)
def test_the_example_in_the_docstring_is_a_valid_node(calculator: type[Calculator]) -> None:
    assert "Source: OpenVINO Model Server" in (calculator.__doc__ or "")
    assert validate_graph(example_graph(calculator), registry=registry()).nodes


def test_a_graph_is_validated_without_openvino() -> None:
    text = session_and_inference("any", ["OVTENSORS:in"], ["OVTENSOR:out"])
    subprocess.run([sys.executable, "-c", VALIDATING, text], check=True)
