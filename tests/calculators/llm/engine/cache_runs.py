"""Runs of requests on engines with given caches, each in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from calculators.llm.engine import genai_pipeline
from calculators.llm.engine.core import Pipeline
from calculators.llm.engine.library_config import scheduler_config
from calculators.llm.engine.messages import Add, FailedGeneration
from calculators.llm.engine.pipelines import open_pipeline
from calculators.llm.engine.settings import EngineSettings, GenerationSettings
from tests.calculators.llm.demo_model import DEMO, ONE_THREAD, ids_of
from tests.calculators.llm.engine.pipeline_apart import PipelineApart

#: Tokens per block on the CPU.
BLOCK = 32
_IDS = np.random.default_rng(0).integers(300, 2000, 4000).tolist()


def open_engine(*, blocks: int = 0, **settings: Any) -> PipelineApart:
    """Open the demo model with these settings; ``blocks`` of cache, 0: as the settings say."""
    settings["plugin_config"] = {**ONE_THREAD, **settings.get("plugin_config", {})}
    made = EngineSettings(model_path=str(DEMO), device="CPU", **settings)
    return PipelineApart(_pipeline, made, blocks)


def _pipeline(settings: EngineSettings, blocks: int) -> Pipeline:
    def config(settings: EngineSettings) -> Any:
        made = scheduler_config(settings)
        made.num_kv_blocks = blocks
        return made

    # The process is that of the pipeline alone.
    if blocks:
        pytest.MonkeyPatch().setattr(genai_pipeline, "scheduler_config", config)
    return open_pipeline(settings, wake=lambda: None)


def request(
    request_id: int, prompt: int, answer: int | None, *, first: int = 0, **settings: Any
) -> Add:
    """Return a greedy request that does not end before its length.

    ``first``: prompts that begin at the same number begin the same.
    """
    return Add(
        request_id,
        ids_of(*_IDS[first : first + prompt]),
        GenerationSettings(max_new_tokens=answer, ignore_eos=True, **settings),
    )


@dataclass
class Run:
    """Requests that have run to their ends.

    Attributes:
        logprobs: of the tokens, if requested; they differ sooner than tokens do.
        first: by request, the number of the step with its first token.
        peak, last: most bytes of the cache in use at once, and the bytes before the end.
    """

    ids: dict[int, list[int]] = field(default_factory=dict)
    logprobs: dict[int, list[float]] = field(default_factory=dict)
    ends: dict[int, str] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    first: dict[int, int] = field(default_factory=dict)
    steps: int = 0
    peak: float = 0.0
    last: float = 0.0


def run(pipeline: Pipeline, requests: Sequence[Add], *, most: int = 3000) -> Run:
    """Run all requests at once, to their ends."""
    done = Run()
    for each in requests:
        done.ids[each.request_id] = []
        done.logprobs[each.request_id] = []
        pipeline.add(each)
    while pipeline.has_work:
        done.steps += 1
        assert done.steps < most, "it goes on and on"
        for gained in pipeline.step():
            if isinstance(gained, FailedGeneration):
                done.failed[gained.request_id] = gained.reason
                continue
            done.first.setdefault(gained.request_id, done.steps)
            done.ids[gained.request_id] += gained.token_ids
            done.logprobs[gained.request_id] += gained.logprobs
            if gained.finish_reason is not None:
                done.ends[gained.request_id] = gained.finish_reason
        metrics = pipeline.metrics()
        used = metrics.cache_usage * metrics.cache_bytes
        done.peak = max(done.peak, used)
        done.last = used or done.last
    return done
