"""Writes the model of this folder to models/: `python make_model.py`.

It recognises colours from a table, without training. Each pixel is distributed over the colours,
the nearest getting the most; the probability of a colour is the mean over all pixels.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino
from openvino import opset13 as op

#: Red, green and blue, from 0 to 1. labels.txt has the names in this order.
COLOURS = {
    "black": [0, 0, 0],
    "blue": [0.1, 0.2, 0.9],
    "green": [0.1, 0.7, 0.2],
    "red": [0.9, 0.1, 0.1],
    "white": [1, 1, 1],
    "yellow": [1, 0.9, 0.1],
}
SIZE = 32
#: The larger, the more of a pixel goes to the nearest colour.
SHARPNESS = 20.0


def named(node: Any, name: str) -> Any:
    node.output(0).tensor.set_names({name})
    return node


def colours() -> Any:
    """Return the model from an image, FP32 [1, 32, 32, 3], to probabilities, FP32 [1, 6]."""
    image = named(op.parameter(openvino.PartialShape([1, SIZE, SIZE, 3]), np.float32), "image")
    table = np.array(list(COLOURS.values()), np.float32).reshape(1, 1, 1, -1, 3)
    difference = op.subtract(op.unsqueeze(image, op.constant(np.int64(3))), op.constant(table))
    distance = op.reduce_sum(op.multiply(difference, difference), op.constant(np.int64(4)))
    shares = op.softmax(op.multiply(distance, op.constant(np.float32(-SHARPNESS))), 3)
    mean = op.reduce_mean(shares, op.constant(np.array([1, 2], np.int64)))
    return openvino.Model([op.result(named(mean, "probabilities"))], [image], "colours")


def main(folder: Path) -> None:
    """Write the model in the layout of a model repository: NAME/VERSION/FILE."""
    file = folder / "colours" / "1" / "colours.xml"
    file.parent.mkdir(parents=True, exist_ok=True)
    openvino.save_model(colours(), file, compress_to_fp16=False)


if __name__ == "__main__":
    main(Path(__file__).parent / "models")
