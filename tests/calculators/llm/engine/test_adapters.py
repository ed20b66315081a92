"""Adapters in the real engine: each request gets its own, in whatever order they arrive."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import openvino
import openvino_genai as genai
import pytest

from calculators.llm.engine.messages import Add, FailedGeneration
from calculators.llm.engine.pipelines import AdapterScheduler, open_pipeline
from calculators.llm.engine.settings import (
    AdapterFile,
    EngineSettings,
    GenerationSettings,
    PipelineType,
)
from tests.calculators.llm.adapter_files import write_adapter
from tests.calculators.llm.demo_model import DEMO, ONE_THREAD, demo_tokenizer
from tests.support.patience import PATIENCE

QUESTIONS = ("What is graphrt?", "Tell me a story about a fox.")
PIRATE = DEMO.parents[1] / "graphs" / "adapters" / "pirate" / "adapter_model.safetensors"
TOKENS = 24
WOKEN = Event()
#: Half precision rounds differently where an adapter might be added.
EXACT: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32", **ONE_THREAD}


def adapter_files(folder: Path) -> tuple[AdapterFile, ...]:
    """Write a trained adapter, and two of noise with other layers, ranks and types."""
    up = write_adapter(folder / "up.safetensors", "F32", rank=2, seed=3)
    query = write_adapter(
        folder / "query.safetensors",
        "BF16",
        layer="model.layers.{}.self_attn.q_proj",
        outputs=256,
        rank=8,
    )
    return (
        AdapterFile(name="pirate", path=str(PIRATE), alpha=2.0),
        AdapterFile(name="up", path=str(up), alpha=2.0),
        AdapterFile(name="query", path=str(query), alpha=2.0),
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[AdapterFile, ...]:
    return adapter_files(tmp_path_factory.mktemp("adapters"))


def prompt_of(question: str) -> Any:
    text = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
    return demo_tokenizer().encode(text, add_special_tokens=False).input_ids.data.astype(np.int64)


@pytest.fixture(scope="module")
def alone(files: tuple[AdapterFile, ...]) -> dict[tuple[str, str], list[int]]:
    """Return the library's answers with each adapter alone; "" is the model itself."""
    found: dict[tuple[str, str], list[int]] = {}
    for file in (None, *files):
        adapters = genai.AdapterConfig()
        properties: dict[str, Any] = {**EXACT}
        if file is not None:
            adapters = genai.AdapterConfig([(genai.Adapter(file.path), file.alpha)])
            properties["adapters"] = adapters
        pipeline = genai.ContinuousBatchingPipeline(
            str(DEMO), genai.SchedulerConfig(), "CPU", properties
        )
        for question in QUESTIONS:
            config = genai.GenerationConfig()
            config.max_new_tokens = TOKENS
            config.ignore_eos = True
            if file is not None:
                config.adapters = adapters
            (result,) = pipeline.generate([openvino.Tensor(prompt_of(question))], [config])
            name = "" if file is None else file.name
            found[name, question] = list(result.m_generation_ids[0])
    return found


def run(pipeline: Any, asked: list[tuple[str, str]]) -> list[list[int]]:
    """Run all at the same time; return the tokens of each."""
    gained: dict[int, list[int]] = {number: [] for number in range(len(asked))}
    for number, (adapter, question) in enumerate(asked):
        settings = GenerationSettings(max_new_tokens=TOKENS, ignore_eos=True, adapter=adapter)
        pipeline.add(Add(number, prompt_of(question).tobytes(), settings))
    while pipeline.has_work or pipeline.has_news:
        if not pipeline.has_news:  # it generates in a thread of its own
            WOKEN.wait(PATIENCE)
            WOKEN.clear()
        for each in pipeline.step():
            assert not isinstance(each, FailedGeneration), each.reason
            gained[each.request_id] += each.token_ids
    return list(gained.values())


@pytest.fixture(scope="module", params=["LM_CB", "LM"])
def pipeline(request: pytest.FixtureRequest, files: tuple[AdapterFile, ...]) -> Any:
    kind: PipelineType = request.param
    return open_pipeline(
        EngineSettings(
            model_path=str(DEMO),
            device="CPU",
            pipeline_type=kind,
            plugin_config=dict(EXACT),
            adapters=files,
        ),
        WOKEN.set,
    )


def test_each_request_gets_its_answer_of_running_alone(
    pipeline: Any, alone: dict[tuple[str, str], list[int]]
) -> None:
    names = ["", "pirate", "up", "query"]
    for order in (names, names[::-1], ["up", "", "query", "pirate"]):
        asked = [(name, question) for question in QUESTIONS for name in order]
        assert run(pipeline, asked) == [alone[each] for each in asked]


def test_all_adapters_answer_differently(alone: dict[tuple[str, str], list[int]]) -> None:
    for question in QUESTIONS:
        answers = [tuple(ids) for (_, asked), ids in alone.items() if asked == question]
        assert len(set(answers)) == len(answers)


def test_without_adapters_there_are_no_turns() -> None:
    settings = EngineSettings(model_path=str(DEMO), device="CPU")
    assert not isinstance(open_pipeline(settings, lambda: None), AdapterScheduler)
