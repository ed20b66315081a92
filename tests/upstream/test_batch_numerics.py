"""openvino-genai 2026.4: requests in the same batch change the last digits of a request's logits.

Same prompts, no sampling. Alone, a prompt's answer is the same to the last bit each time. In a
batch its log-probabilities move: by some hundredths in bfloat16, the default on processors
with AVX-512, by a hundred-thousandth in float32. That decides between two tokens that are nearly
equal. `docs/llm_options.md` says which options avoid it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
import openvino
import openvino_genai as genai
import pytest

from tests.support.checkout import ROOT

_MODEL: Final = ROOT / "examples" / "models" / "demo"
_FLOAT32: Final = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
_WORDS: Final = ("the", "graph", "packet", "stream", "of", "a", "node", "and", "many", "does", "it")
_TOKENS: Final = 30

#: Tokens of each prompt, and the log-probability of each token.
Answers = list[tuple[list[int], list[float]]]


def pipeline_of(properties: dict[str, str], *, one_at_a_time: bool = False) -> Any:
    scheduler = genai.SchedulerConfig()
    if one_at_a_time:
        scheduler.max_num_seqs = 1
        scheduler.dynamic_split_fuse = False
    return genai.ContinuousBatchingPipeline(_MODEL, scheduler, "CPU", properties)


def answers(pipeline: Any, batch: int) -> Answers:
    """Return the answers to all prompts, ``batch`` of them at a time."""
    config = genai.GenerationConfig(max_new_tokens=_TOKENS, ignore_eos=True, logprobs=1)
    config.apply_chat_template = False
    random = np.random.default_rng(5)
    texts = [" ".join(random.choice(_WORDS, size=length)) for length in range(3, 63, 3)]
    tokenizer = pipeline.get_tokenizer()
    prompts = [np.array(tokenizer.encode(text).input_ids.data).reshape(1, -1) for text in texts]
    made: Answers = []
    for begin in range(0, len(prompts), batch):
        handles = [
            pipeline.add_request(number, openvino.Tensor(prompt), config)
            for number, prompt in enumerate(prompts[begin : begin + batch], begin)
        ]
        while pipeline.has_non_finished_requests():
            pipeline.step()
        read = [handle.read_all()[0] for handle in handles]
        made += [(list(each.generated_ids), list(each.generated_log_probs)) for each in read]
    return made


def logprobs_of(made: Answers) -> list[list[float]]:
    return [logprobs for _, logprobs in made]


class Model:
    """The model in one precision, and its answers, which the tests compare with each other."""

    def __init__(self, properties: dict[str, str]) -> None:
        self.properties = properties
        self.pipeline = pipeline_of(properties)
        self.answers: Callable[[int], Answers] = cache(lambda batch: answers(self.pipeline, batch))


@pytest.fixture(scope="module")
def float32() -> Model:
    return Model(_FLOAT32)


@pytest.fixture(scope="module", params=["default", "float32"])
def model(request: pytest.FixtureRequest) -> Model:
    if request.param == "float32":
        made: Model = request.getfixturevalue("float32")
        return made
    return Model({})


def test_a_prompt_alone_is_always_answered_the_same(model: Model) -> None:
    assert model.answers(1) == answers(model.pipeline, 1)
    assert all(len(tokens) == _TOKENS for tokens, _ in model.answers(1))


@pytest.mark.parametrize("batch", [4, 20])
def test_in_float32_a_batch_changes_no_token(batch: int, float32: Model) -> None:
    alone, together = float32.answers(1), float32.answers(batch)
    assert [tokens for tokens, _ in alone] == [tokens for tokens, _ in together]
    assert np.allclose(logprobs_of(alone), logprobs_of(together), rtol=0, atol=1e-3)


def test_a_batch_changes_the_last_digits(model: Model) -> None:
    assert logprobs_of(model.answers(1)) != logprobs_of(model.answers(20))


def test_one_request_at_a_time_nothing_changes(model: Model) -> None:
    assert answers(pipeline_of(model.properties, one_at_a_time=True), 20) == model.answers(1)


def test_the_number_of_sequences_counts_only_where_prompts_are_not_cut() -> None:
    scheduler = genai.SchedulerConfig()
    scheduler.max_num_seqs = 1
    pipeline = genai.ContinuousBatchingPipeline(_MODEL, scheduler, "CPU")
    assert logprobs_of(answers(pipeline, 1)) != logprobs_of(answers(pipeline, 20))
