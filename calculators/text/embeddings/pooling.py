"""The pooling of an embedding model, as a part of the compiled model."""

from __future__ import annotations

import openvino as ov

from calculators.text.text_models.messages import Load
from calculators.text.text_models.outputs import (
    find_output,
    first_token,
    last_token,
    mask_of,
    mean,
    with_output,
)


def add_pooling(model: ov.Model, load: Load) -> ov.Model:
    """Return the model with one vector for each text; ``load.head`` has the way, ``pooling``.

    Raises:
        RuntimeError: the model has no vectors of tokens.
    """
    hidden = find_output(model, 3)
    if hidden is None:
        raise RuntimeError(
            "No output with 3 dimensions found: openvino_model.xml has no vector for each token; "
            "export it with optimum-cli export openvino --task feature-extraction"
        )
    match load.head["pooling"]:
        case "MEAN":
            pooled = mean(hidden, mask_of(model))
        case "LAST":
            pooled = last_token(hidden, mask_of(model))
        case _:
            pooled = first_token(hidden)
    return with_output(model, pooled)
