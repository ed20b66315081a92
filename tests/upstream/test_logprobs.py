"""openvino-genai 2026.4: log-probabilities are those of the chosen tokens, whatever is asked for.

When this fails, `top_logprobs` and `logit_bias` can be honoured: see "Log-probabilities" in
``docs/serving.md``.
"""

from __future__ import annotations

from typing import Any

import openvino_genai as genai

from tests.process.server_process import DEMO


def test_five_likeliest_tokens_are_asked_for_and_the_chosen_one_is_returned() -> None:
    scheduler = genai.SchedulerConfig()
    scheduler.cache_size = 1
    pipeline: Any = genai.ContinuousBatchingPipeline(str(DEMO), scheduler, "CPU")
    config: Any = genai.GenerationConfig(max_new_tokens=3)
    config.logprobs = 5
    handle = pipeline.add_request(0, "Hello", config)
    tokens = 0
    while pipeline.has_non_finished_requests():
        pipeline.step()
        for output in handle.read().values():
            assert len(output.generated_log_probs) == len(output.generated_ids)
            assert not [name for name in dir(output) if "top" in name]
            tokens += len(output.generated_ids)
    assert tokens > 0


def test_there_is_no_bias() -> None:
    assert not [name for name in dir(genai.GenerationConfig) if "bias" in name or "proc" in name]
