"""Compiled models and their heads: streams, inputs by name, and poolings, against NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as op

from calculators.kit.machine import usable_processors
from calculators.text.text_models.batch_runner import CompiledForms
from calculators.text.text_models.heads import (
    find_output,
    first_token,
    last_token,
    mask_of,
    mean,
    with_output,
)
from calculators.text.text_models.messages import EncoderLoad
from calculators.text.text_models.text_tokenizer import TextTokens

SEQUENCES = [[5, 6, 7], [8], [9, 10, 11, 12, 13]]
NAMES = ("input_ids", "attention_mask", "token_type_ids", "position_ids", "beam_idx")


def write(directory: Path, names: Sequence[str] = NAMES, kind: Any = np.int64) -> EncoderLoad:
    """Write a model whose vector of a token has its id, type and position; padding is NaN."""
    inputs = {}
    for name in names:
        inputs[name] = op.parameter([-1] if name == "beam_idx" else [-1, -1], kind, name)
        inputs[name].output(0).set_names({name})
    zero = op.multiply(inputs["input_ids"], op.constant(np.array(0, kind)))
    last = op.constant(np.array([-1], np.int64))
    columns = [
        op.unsqueeze(op.convert(inputs.get(name, zero), "f32"), last)
        for name in ("input_ids", "token_type_ids", "position_ids")
    ]
    mask = op.unsqueeze(op.convert(inputs["attention_mask"], "f32"), last)
    # 0 / 0 in padding.
    hidden = op.divide(op.multiply(op.concat(columns, -1), mask), mask)
    model = ov.Model([op.result(hidden)], list(inputs.values()), "words")
    ov.save_model(model, directory / "openvino_model.xml", compress_to_fp16=False)
    return EncoderLoad(str(directory), 0, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}, 32, {})


def first(model: ov.Model, load: EncoderLoad) -> ov.Model:
    return with_output(model, first_token(find_output(model, 3)))


def last(model: ov.Model, load: EncoderLoad) -> ov.Model:
    return with_output(model, last_token(find_output(model, 3), mask_of(model)))


def average(model: ov.Model, load: EncoderLoad) -> ov.Model:
    return with_output(model, mean(find_output(model, 3), mask_of(model)))


def sequences() -> list[TextTokens]:
    """Return `SEQUENCES`, the last with segments."""
    made = [TextTokens(np.array(ids, np.int64)) for ids in SEQUENCES]
    made[-1] = TextTokens(made[-1].ids, np.array([0, 0, 1, 1, 1], np.int64))
    return made


def hidden() -> list[Any]:
    """Return the vectors of tokens without padding: id, type, position."""
    return [
        np.stack(
            [
                each.ids,
                np.zeros_like(each.ids) if each.types is None else each.types,
                np.arange(len(each.ids)),
            ],
            axis=1,
        )
        for each in sequences()
    ]


@pytest.mark.parametrize("kind", [np.int64, np.int32])
@pytest.mark.parametrize(
    ("head", "pooled"),
    [
        (first, lambda each: each[0]),
        (last, lambda each: each[-1]),
        (average, lambda each: each.mean(axis=0)),
    ],
)
@pytest.mark.parametrize("is_lone", [True, False])
def test_poolings_are_those_of_the_tokens_without_padding(
    tmp_path: Path, head: Any, pooled: Any, kind: Any, is_lone: bool
) -> None:
    forms = CompiledForms(write(tmp_path, kind=kind), head, lambda phase: None)
    assert forms.columns == 3
    found = forms.runner().compute(sequences(), 0, is_lone=is_lone)
    np.testing.assert_allclose(found, [pooled(each) for each in hidden()], rtol=1e-6)
    # The rows are a copy: the next run leaves them as they are.
    before = found.copy()
    forms.runner().compute(sequences()[:1], 0, is_lone=is_lone)
    assert found.tolist() == before.tolist()


def test_a_model_gets_the_inputs_that_it_has(tmp_path: Path) -> None:
    forms = CompiledForms(write(tmp_path, NAMES[:2]), first, lambda phase: None)
    found = forms.runner().compute(sequences(), 0, is_lone=False)
    assert found.tolist() == [[float(ids[0]), 0.0, 0.0] for ids in SEQUENCES]


def test_a_model_of_other_inputs_is_refused(tmp_path: Path) -> None:
    pixels = op.parameter([-1, 3], np.float32, "pixels")
    pixels.output(0).set_names({"pixels"})
    model = ov.Model([op.result(pixels)], [pixels], "pictures")
    ov.save_model(model, tmp_path / "openvino_model.xml")
    load = EncoderLoad(str(tmp_path), 0, "CPU", {}, 32, {})
    with pytest.raises(RuntimeError, match="has the input pixels; those of an encoder model are"):
        CompiledForms(load, lambda model, load: model, lambda phase: None)


def test_there_is_a_stream_for_each_processor_unless_the_operator_chooses(tmp_path: Path) -> None:
    load = write(tmp_path)
    assert CompiledForms(load, first, lambda phase: None).streams == usable_processors()
    load.properties["NUM_STREAMS"] = "1"
    assert CompiledForms(load, first, lambda phase: None).streams == 1
