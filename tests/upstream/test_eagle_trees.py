"""openvino-genai 2026.4: trees of EAGLE-3 are for one request, without log-probabilities, on a CPU.

Several requests with trees in the same step, or log-probabilities, raises out of the step, after
which no request of the pipeline can go on; with a compressed cache, which is the default, answers
differ from those without a draft model. When this fails, requests may choose a tree:
``docs/differences.md`` says what is missing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.calculators.llm.demo_model import DEMO
from tests.calculators.llm.engine.eagle3_model import make_eagle3_model
from tests.upstream.child import run

_TREES: Final = """
import sys
import numpy as np
import openvino
import openvino_genai as genai

model, draft, precision, count, logprobs = sys.argv[1:]
properties = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
if precision:
    properties["KV_CACHE_PRECISION"] = precision
tokenizer = genai.Tokenizer(model)
form = "<|im_start|>user\\n{}<|im_end|>\\n<|im_start|>assistant\\n"
questions = ["Tell me a story about a fox.", "Write a poem", "hello", "Spell apple."]
prompts = [
    tokenizer.encode(form.format(each), add_special_tokens=False).input_ids
    for each in questions[: int(count)]
]


def answers(tree):
    scheduler = genai.SchedulerConfig()
    scheduler.cache_size, scheduler.dynamic_split_fuse = 1, False
    more = {"draft_model": genai.draft_model(draft, "CPU", **properties)} if tree else {}
    pipeline = genai.ContinuousBatchingPipeline(
        model, genai.Tokenizer(model), scheduler, "CPU", **properties, **more
    )
    config = genai.GenerationConfig(max_new_tokens=40)
    config.apply_chat_template = False
    config.logprobs = int(logprobs)
    if tree:
        config.num_assistant_tokens, config.branching_factor, config.tree_depth = 16, 8, 4
    handles = [pipeline.add_request(*each, config) for each in enumerate(prompts)]
    while pipeline.has_non_finished_requests():
        pipeline.step()
    return [handle.read_all()[0].generated_ids for handle in handles]


print("same" if answers(True) == answers(False) else "different")
"""


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_eagle3_model(tmp_path_factory.mktemp("eagle3") / "draft")


def outcome(draft: Path, precision: str, *, count: int = 1, logprobs: int = 0) -> Any:
    return run(_TREES, str(DEMO), str(draft), precision, str(count), str(logprobs))


def test_one_request_with_an_exact_cache_is_answered(draft: Path) -> None:
    done = outcome(draft, "f32")
    assert done.stdout.split() == ["same"], done.stderr


def test_with_a_compressed_cache_the_answer_is_another(draft: Path) -> None:
    assert outcome(draft, "").stdout.split() == ["different"]


@pytest.mark.parametrize(
    ("count", "logprobs", "why"), [(4, 0, "PaKVReorder"), (1, 1, "m_full_vocab_log_sum_exp")]
)
def test_further_requests_and_log_probabilities_end_the_pipeline(
    draft: Path, count: int, logprobs: int, why: str
) -> None:
    done = outcome(draft, "f32", count=count, logprobs=logprobs)
    assert done.returncode != 0
    assert why in done.stderr
