"""Heads of encoder models: the last steps, which are compiled with the model, in its process.

A model has one output of 32-bit floats with a row for each sequence: the vector of a text
(`add_pooling`), the score of a pair (`add_score`), or a number for each class (`add_classes`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as op

from calculators.kit.model_json import read_model_json
from calculators.text.text_models.messages import PROMPTED, EncoderLoad

#: A divisor that would be smaller, of a text of padding, is this.
_SMALLEST = 1e-12


def find_output(model: ov.Model, rank: int) -> Any | None:
    """Return the first output with this number of dimensions, as it enters the result; or None."""
    for result in model.get_results():
        output = result.input_value(0)
        if output.get_partial_shape().rank.is_static and len(output.get_partial_shape()) == rank:
            return output
    return None


def with_output(model: ov.Model, node: Any) -> ov.Model:
    """Return a model of the same inputs whose only output is ``node``, as 32-bit floats."""
    result = op.result(op.convert(node, "f32"))
    result.output(0).set_names({"result"})
    return ov.Model([result], model.get_sinks(), model.get_parameters(), model.get_friendly_name())


def mask_of(model: ov.Model) -> Any:
    """Return the input ``attention_mask``.

    Raises:
        RuntimeError: the model has none.
    """
    for port in model.inputs:
        if "attention_mask" in port.get_names():
            return port.get_node().output(0)
    raise RuntimeError("openvino_model.xml has no input attention_mask")


def first_token(hidden: Any) -> Any:
    """Return the vector of the first token, shape ``[batch, size]``."""
    return op.gather(hidden, op.constant(np.int64(0)), op.constant(np.int64(1)))


def last_token(hidden: Any, mask: Any) -> Any:
    """Return the vector of the last token that is no padding, shape ``[batch, size]``."""
    axis = op.constant(np.array([1], np.int64))
    counts = op.reduce_sum(op.convert(mask, "i64"), axis, keep_dims=False)
    last = op.unsqueeze(op.subtract(counts, op.constant(np.int64(1))), axis)
    return op.gather_nd(hidden, last, batch_dims=1)


def mean(hidden: Any, mask: Any) -> Any:
    """Return the mean of the vectors of tokens that are no padding, shape ``[batch, size]``."""
    hidden = op.convert(hidden, "f32")
    weights = op.unsqueeze(op.convert(mask, "f32"), op.constant(np.array([-1], np.int64)))
    # Padding may hold any value, also infinite ones, which would survive a factor of 0.
    zero = op.constant(np.float32(0))
    kept = op.select(op.greater(weights, zero), hidden, zero)
    axis = op.constant(np.array([1], np.int64))
    total = op.reduce_sum(kept, axis, keep_dims=False)
    count = op.reduce_sum(weights, axis, keep_dims=False)
    return op.divide(total, op.maximum(count, op.constant(np.float32(_SMALLEST))))


def add_pooling(model: ov.Model, load: EncoderLoad) -> ov.Model:
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


def add_score(model: ov.Model, load: EncoderLoad) -> ov.Model:
    """Return the model with the one output ``[batch, 1]``.

    Raises:
        RuntimeError: it is not a model that scores pairs of texts.
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
    """Return the logits after the last token, ``[batch, words]``.

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


def add_classes(model: Any, load: EncoderLoad) -> Any:
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
