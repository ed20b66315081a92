"""Writes the two models of this folder to models/: `python make_models.py`.

They tell kinds of iris apart by the lengths and widths of sepals and petals, in centimetres.
Nothing is trained: the weights are the mean of each kind, from R. A. Fisher, "The use of multiple
measurements in taxonomic problems", 1936.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino
from openvino import opset13 as op

KINDS = {
    "setosa": [5.006, 3.428, 1.462, 0.246],
    "versicolor": [5.936, 2.770, 4.260, 1.326],
    "virginica": [6.588, 2.974, 5.552, 2.026],
}
MEAN = [5.843, 3.057, 3.758, 1.199]
DEVIATION = [0.828, 0.436, 1.765, 0.762]


def named(node: Any, name: str) -> Any:
    node.output(0).tensor.set_names({name})
    return node


def row(numbers: list[float]) -> Any:
    return op.constant(np.array([numbers], np.float32))


def standardize() -> Any:
    """Return (measurements - mean) / deviation; a row per flower."""
    flowers = named(op.parameter(openvino.PartialShape([-1, 4]), np.float32), "measurements")
    standard = op.divide(op.subtract(flowers, row(MEAN)), row(DEVIATION))
    return openvino.Model([op.result(named(standard, "standard"))], [flowers], "standardize")


def nearest_kind() -> Any:
    """Return a probability per kind: the nearer a flower is to the mean of the kind, the higher."""
    flowers = named(op.parameter(openvino.PartialShape([-1, 4]), np.float32), "standard")
    kinds = (np.array(list(KINDS.values())) - MEAN) / DEVIATION
    each = op.unsqueeze(flowers, op.constant(np.int64(1)))
    difference = op.subtract(each, op.constant(kinds.astype(np.float32)))
    distance = op.reduce_sum(op.multiply(difference, difference), op.constant(np.int64(2)))
    probabilities = named(op.softmax(op.negative(distance), 1), "probabilities")
    model = openvino.Model([op.result(probabilities)], [flowers], "nearest_kind")
    model.set_rt_info(" ".join(KINDS), ["model_info", "labels"])
    return model


def main(folder: Path) -> None:
    """Write both models in the layout of a model repository: NAME/VERSION/FILE."""
    for model in (standardize(), nearest_kind()):
        name = model.get_friendly_name()
        file = folder / name / "1" / f"{name}.xml"
        file.parent.mkdir(parents=True, exist_ok=True)
        openvino.save_model(model, file, compress_to_fp16=False)


if __name__ == "__main__":
    main(Path(__file__).parent / "models")
