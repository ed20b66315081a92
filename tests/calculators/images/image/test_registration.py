"""Registration of the family, and its behaviour without OpenCV."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import calculators
from calculators.images.image.calculators import CALCULATORS
from calculators.images.image.opencv import check_opencv
from graph_runtime import REGISTRY, Calculator, Registry, validate_graph
from tests.calculators.docstring_examples import example_graph

WITHOUT_OPENCV = """
import sys
sys.modules["cv2"] = None
from calculators.images.image.encoded_image import decode_image
from graph_runtime import Code, GraphError
from tests.calculators.images.image.runs import image, run
run(sys.argv[1], {"in": image(4, 4)})
try:
    decode_image(bytes.fromhex("ffd8ffc000110800010001030000000000000000"))
except GraphError as error:
    assert error.code is Code.FAILED_PRECONDITION
    print(error)
"""

CONVERTER = (
    'node { calculator: "OpenVINOConverterCalculator" input_stream: "IMAGE:in" '
    'output_stream: "TENSORS:out" }'
)

VALIDATING = """
import sys
import calculators
from graph_runtime import REGISTRY, parse_graph_text, validate_graph
calculators.register_all(REGISTRY)
validate_graph(parse_graph_text(open(sys.argv[1]).read()), registry=REGISTRY)
assert "cv2" not in sys.modules
"""


@pytest.mark.parametrize("calculator", CALCULATORS, ids=lambda cls: cls.__name__)
def test_the_example_in_the_docstring_is_a_valid_node(calculator: type[Calculator]) -> None:
    registry = Registry(REGISTRY)
    calculators.register_all(registry)
    assert validate_graph(example_graph(calculator), registry=registry).nodes


def test_a_graph_is_validated_without_opencv() -> None:
    graph = "examples/graphs/object_detection/graph.pbtxt"
    subprocess.run([sys.executable, "-c", VALIDATING, graph], check=True)


def test_without_opencv_the_error_names_the_extra() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_OPENCV, CONVERTER],
        check=True,
        capture_output=True,
        text=True,
    )
    assert "needs OpenCV, which is not installed: pip install 'graphrt[images]'" in done.stdout


def test_opencv_is_there_while_another_thread_imports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # What others see in the middle of its import.
    monkeypatch.setitem(sys.modules, "cv2", ModuleType("cv2"))
    check_opencv()
