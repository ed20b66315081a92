"""`CompileProbe`: compiles a grammar by generating one token with a model without weights.

The engine's library compiles a grammar when a request that has one is first scheduled, in the
middle of a step that all requests share, and an exception there breaks the pipeline. This pipeline
has one user: its model gives every token the same weight and takes milliseconds. Compiled grammars
are kept with the tokenizer, so pipelines that share a tokenizer share them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import openvino_genai as genai
from openvino import opset13 as ops

from calculators.llm.grammars.grammar import Grammar


class CompileProbe:
    """A pipeline with a model's tokenizer and vocabulary size, for compiling grammars only."""

    def __init__(self, tokenizer: Any, vocabulary_size: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.xml"
            openvino.save_model(_model(vocabulary_size), path, compress_to_fp16=False)
            weights = np.fromfile(path.with_suffix(".bin"), dtype=np.uint8)
            self._pipeline = genai.LLMPipeline(
                path.read_text(encoding="utf-8"),
                openvino.Tensor(weights),
                tokenizer,
                "CPU",
                ATTENTION_BACKEND="SDPA",
            )

    def compile(self, grammar: Grammar) -> None:
        """Compile a grammar; the library releases the interpreter's lock meanwhile.

        Raises:
            RuntimeError: the library refuses the grammar; the probe can be used again.
        """
        self._generate(structured_output(grammar))

    def run(self) -> None:
        """Generate a token without a grammar."""
        self._generate(None)

    def _generate(self, output: Any) -> None:
        config = genai.GenerationConfig()
        config.max_new_tokens = 1
        config.apply_chat_template = False
        if output is not None:
            config.structured_output_config = output
        self._pipeline.generate(openvino.Tensor(np.zeros((1, 1), dtype=np.int64)), config)


def structured_output(grammar: Grammar) -> Any:
    """Convert a grammar to the library's ``StructuredOutputConfig``."""
    return genai.StructuredOutputConfig(grammar=grammar.text)


def _model(vocabulary_size: int) -> openvino.Model:
    """Make a model with the four inputs that the library expects, and equal logits."""
    inputs = [
        ops.parameter([-1, -1], np.int64, name="input_ids"),
        ops.parameter([-1, -1], np.int64, name="attention_mask"),
        ops.parameter([-1, -1], np.int64, name="position_ids"),
        ops.parameter([-1], np.int32, name="beam_idx"),
    ]
    zero = ops.constant(np.float32(0))
    nothing = ops.multiply(ops.convert(inputs[0], "f32"), zero)
    logits = ops.unsqueeze(nothing, ops.constant(2))
    for each in inputs:
        each.output(0).get_tensor().set_names({each.get_friendly_name()})
        axes = ops.constant(np.arange(each.get_output_partial_shape(0).rank.get_length()))
        total = ops.reduce_sum(ops.convert(each, "f32"), axes, keep_dims=False)
        logits = ops.add(logits, ops.multiply(total, zero))
    row = ops.constant(np.zeros((1, 1, vocabulary_size), dtype=np.float32))
    logits = ops.add(logits, row)
    logits.output(0).get_tensor().set_names({"logits"})
    return openvino.Model([ops.result(logits)], inputs, "tiny")
