"""The layers of a model that an adapter may change, from its OpenVINO file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple
from xml.etree.ElementTree import Element, ParseError, iterparse

from graph_runtime import ResourceError

MODEL_FILE: Final = "openvino_model.xml"


class Layer(NamedTuple):
    """A product with a matrix of weights. ``name``: the file's, which contains the module's."""

    name: str
    inputs: int
    outputs: int


def read_layers(model: Path) -> list[Layer]:
    """Return the products of a model with matrices of known sizes. Reads some megabytes.

    Raises:
        ResourceError: the model's file cannot be read.
    """
    found: list[Layer] = []
    try:
        for _, element in iterparse(model / MODEL_FILE):
            if element.tag == "layer":
                if element.get("type") == "MatMul":
                    found += _layers_of(element)
                element.clear()
    except (OSError, ParseError) as error:
        raise ResourceError(f"{MODEL_FILE} cannot be read: {error}") from None
    return found


def _layers_of(element: Element) -> Iterable[Layer]:
    data, ports = element.find("data"), element.findall("input/port")
    if data is None or len(ports) != 2:
        return
    weights = [int(dim.text or -1) for dim in ports[1].iter("dim")]
    if len(weights) != 2 or min(weights) < 1:
        return
    outputs, inputs = weights if data.get("transpose_b") == "true" else reversed(weights)
    yield Layer(element.get("name", ""), inputs, outputs)
