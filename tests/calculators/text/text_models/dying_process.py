"""The process of an encoder model whose tokens can end it: its text says how."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

import msgspec

from calculators.text.text_models.process import run_text_model

MODULE = "tests.calculators.text.text_models.dying_process"


class Words(msgspec.Struct, frozen=True, tag="words", array_like=True):
    """A row for each text: the numbers of its tokens, of any special ones and of words."""

    texts: list[str]


def encode(tokenizer: Any, question: Words) -> Any:
    from calculators.text.text_models.text_tokenizer import Encoded

    for text in question.texts:
        if text == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if text == "raise":
            raise KeyError("a secret")
        if text in ("hang", f"hang in {os.getpid()}"):
            threading.Event().wait()
    return Encoded(tokenizer.encode(question.texts), len(question.texts))


def add_sum(model: Any, load: Any) -> Any:
    """Return a model whose row is the sum of a text's token ids."""
    import numpy as np
    from openvino import opset13 as op

    from calculators.text.text_models.heads import with_output

    ids, mask = (model.input(name).get_node().output(0) for name in ("input_ids", "attention_mask"))
    kept = op.convert(op.multiply(ids, mask), "f32")
    axis = op.constant(np.array([1], np.int64))
    return with_output(model, op.reduce_sum(kept, axis, keep_dims=True))


if __name__ == "__main__":
    os._exit(run_text_model(sys.argv, Words, f"{MODULE}:encode", f"{MODULE}:add_sum"))
