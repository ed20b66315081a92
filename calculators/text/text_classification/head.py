"""The model's output: a number for each class; in the model's process."""

from __future__ import annotations

from typing import Any

from calculators.text.text_models.messages import Load
from calculators.text.text_models.outputs import find_output, with_output


def build_head(model: Any, load: Load) -> Any:
    """Return the model with its logits, float32 ``[texts, classes]``, as the only output.

    Raises:
        RuntimeError: the model has no output of two dimensions.
    """
    output = find_output(model, 2)
    if output is None:
        raise RuntimeError(
            "openvino_model.xml has no output of two dimensions (texts, classes); export it with "
            "optimum-cli export openvino --task text-classification"
        )
    return with_output(model, output)
