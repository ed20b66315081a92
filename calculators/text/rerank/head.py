"""The head of a reranking model: one number for each sequence, whose sigmoid is the score.

Classifiers have logits ``[batch, labels]``: the only one counts, or the second of several, as in
OpenVINO Model Server. Qwen3-Reranker continues texts, with logits ``[batch, tokens, words]``: what
counts is how much likelier yes is than no behind the last token.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import openvino as ov
from openvino import opset13 as op

from calculators.kit.model_json import read_model_json
from calculators.text.rerank.prompts import PROMPTED
from calculators.text.text_models.outputs import find_output, last_token, mask_of, with_output

if TYPE_CHECKING:
    from calculators.text.text_models.messages import Load


def build_head(model: ov.Model, load: Load) -> ov.Model:
    """Return the model with the one output ``[batch, 1]``.

    Raises:
        RuntimeError: it is no model that scores pairs of texts.
    """
    labels = find_output(model, 2)
    if labels is not None:
        return with_output(model, _label(labels))
    if find_output(model, 3) is not None:
        return with_output(model, _yes_over_no(model, Path(load.model_path)))
    raise RuntimeError(
        "openvino_model.xml has no output of two dimensions (texts, labels); export the model with "
        "optimum-cli export openvino --task text-classification"
    )


def _label(logits: Any) -> Any:
    """Return the number that counts, ``[batch, 1]``."""
    labels = logits.get_partial_shape()[1]
    if labels.is_dynamic:
        raise RuntimeError("openvino_model.xml does not say how many labels the model has")
    return op.gather(logits, _ints([min(labels.get_length() - 1, 1)]), _ints(1))


def _yes_over_no(model: ov.Model, directory: Path) -> Any:
    """Return the logit of yes minus that of no, ``[batch, 1]``."""
    if read_model_json(directory / "config.json").get("model_type") not in PROMPTED:
        raise RuntimeError(
            "the model continues texts, and config.json has another model_type than "
            f"{', '.join(sorted(PROMPTED))}: how such a model is asked for scores is not known"
        )
    logits = _logits_of_last_token(model)
    yes, no = (op.gather(logits, _ints([word]), _ints(1)) for word in _words(directory))
    return op.subtract(op.convert(yes, "f32"), op.convert(no, "f32"))


def _logits_of_last_token(model: ov.Model) -> Any:
    """Return the logits behind the last token, ``[batch, words]``.

    The multiplication with the matrix of all words is made for that token only: for all tokens of a
    batch its result would take gigabytes.
    """
    mask = mask_of(model)
    logits = _word_logits(model)
    node = logits.get_node()
    while node.get_type_name() == "Convert":
        node = node.input_value(0).get_node()
    if node.get_type_name() == "MatMul" and not node.get_attributes().get("transpose_a"):
        hidden = node.input_value(0)
        if hidden.get_partial_shape().rank == ov.Dimension(3):
            last = op.unsqueeze(last_token(hidden, mask), _ints([1]))
            node.input(0).replace_source_output(last.output(0))
            model.validate_nodes_and_infer_types()
            return op.squeeze(_word_logits(model), _ints([1]))
    return last_token(logits, mask)


def _word_logits(model: ov.Model) -> Any:
    """Return the output ``[batch, tokens, words]``, which the model has."""
    output = find_output(model, 3)
    assert output is not None
    return output


def _words(directory: Path) -> tuple[int, int]:
    """Return the ids of yes and no."""
    tokenizer = read_model_json(directory / "tokenizer.json").get("model")
    vocabulary = tokenizer.get("vocab") if isinstance(tokenizer, dict) else None
    if not isinstance(vocabulary, dict) or not {"yes", "no"} <= vocabulary.keys():
        raise RuntimeError("tokenizer.json has no tokens yes and no")
    return int(vocabulary["yes"]), int(vocabulary["no"])


def _ints(value: int | list[int]) -> Any:
    return op.constant(np.array(value, np.int64))
