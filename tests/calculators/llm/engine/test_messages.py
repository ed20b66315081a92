"""Wire format: every message is decoded as it was encoded."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from calculators.images.media.image import Image
from calculators.kit.child_process.messages import LoadFailed, StopChild
from calculators.llm.engine.messages import (
    VERSION,
    Add,
    CancelGeneration,
    EngineLoad,
    EngineReady,
    FailedGeneration,
    Metrics,
    NewTokens,
    Step,
    from_engine_decoder,
    to_engine_decoder,
)
from calculators.llm.engine.settings import (
    CacheEviction,
    EngineSettings,
    GenerationSettings,
    SparseAttention,
)
from tests.calculators.llm.demo_model import ids_of

SETTINGS = EngineSettings(
    model_path="models/ž",
    device="GPU.1",
    cache_size=3,
    cache_interval_multiplier=4,
    cache_eviction=CacheEviction(start_size=32, recent_size=64, max_cache_size=128),
    sparse_attention=SparseAttention(mode="XATTENTION", xattention_threshold=0.5),
    plugin_config={"A": "x", "B": True, "C": 2**62, "D": 0.5, "DEVICE_PROPERTIES": {"CPU": {}}},
)
GENERATION = GenerationSettings(
    max_new_tokens=5,
    stop_strings=("\n", "ž"),
    stop_token_ids=(1, 2),
    do_sample=True,
    temperature=0.7,
    top_k=3,
    rng_seed=2**32 - 1,
    num_beams=2,
    logprobs=True,
)
TO_ENGINE = [
    EngineLoad(VERSION, EngineSettings(model_path="m")),
    EngineLoad(VERSION, SETTINGS),
    Add(0, ids_of(), GenerationSettings()),
    Add(2**40, ids_of(1, -1, 2**62), GENERATION),
    Add(3, ids_of(1), GENERATION, "a", (Image(1, 2, b"rgbrgb"),), group=2),
    CancelGeneration(7),
    StopChild(),
]
FROM_ENGINE = [
    EngineReady(VERSION, "CPU", "openvino-genai 2026.4", 0.25),
    LoadFailed("no such file"),
    Step([]),
    Step(
        [NewTokens(1, 0, [5, 6], [-0.5, -1e-9]), NewTokens(2, 1, [], [], "cache")],
        [FailedGeneration(3, "no", True)],
    ),
    Metrics(1, 2, 0.5, 2**40, 9),
]


@pytest.mark.parametrize("message", TO_ENGINE, ids=lambda message: type(message).__name__)
def test_messages_to_the_engine_are_decoded(message: Any) -> None:
    assert to_engine_decoder.decode(msgspec.msgpack.encode(message)) == message


@pytest.mark.parametrize("message", FROM_ENGINE, ids=lambda message: type(message).__name__)
def test_messages_from_the_engine_are_decoded(message: Any) -> None:
    assert from_engine_decoder.decode(msgspec.msgpack.encode(message)) == message


def test_a_message_of_the_other_direction_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        from_engine_decoder.decode(msgspec.msgpack.encode(CancelGeneration(1)))
