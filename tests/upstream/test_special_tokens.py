"""openvino-genai 2026.4: special tokens fit a grammar by their letters, and end the answer there.

Its grammars know one end token. Every other special token is a token with a text, so a class of
letters that has all its letters allows it, and a second end token ends the answer in the middle of
its form. `calculators.llm.engine.constrained_decoding` makes them letters that no rule has.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import openvino
import openvino_genai as genai
import pytest

from tests.support.checkout import ROOT

_MODEL: Final = str(ROOT / "examples" / "models" / "demo")
#: Texts of letters; the model's end tokens are 0, whose text this is, and 2.
_RULES: Final = 'root ::= "a" "<|endoftext|>" "b"'


@pytest.fixture(scope="module")
def pipeline() -> Any:
    return genai.ContinuousBatchingPipeline(_MODEL, genai.SchedulerConfig(), "CPU", {})


def generated(pipeline: Any, text: str, seed: int) -> tuple[list[int], Any]:
    config = genai.GenerationConfig(max_new_tokens=60, do_sample=True, rng_seed=seed)
    config.temperature = 2.0
    config.apply_chat_template = False
    config.stop_token_ids = {0, 2}
    config.structured_output_config = genai.StructuredOutputConfig(grammar=_RULES)
    ids = np.array(pipeline.get_tokenizer().encode(text).input_ids.data).reshape(1, -1)
    handle = pipeline.add_request(0, openvino.Tensor(ids), config)
    while pipeline.has_non_finished_requests():
        pipeline.step()
    [output] = handle.read_all()
    return list(output.generated_ids), output.finish_reason


def test_a_special_token_fits_by_its_letters_and_ends_the_answer(pipeline: Any) -> None:
    answers = [generated(pipeline, "Hello", seed) for seed in range(24)]
    decode = pipeline.get_tokenizer().decode
    texts = {decode(ids, skip_special_tokens=True) for ids, _ in answers}
    assert all(reason == genai.GenerationFinishReason.STOP for _, reason in answers)
    # By its letters, and by the token, which ends the answer before its form does.
    assert texts == {"a<|endoftext|>b", "a"}
