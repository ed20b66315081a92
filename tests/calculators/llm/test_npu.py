"""Device NPU: OpenVINO's plugin for it, configured to compute on the CPU."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import openvino
import pytest

from calculators.kit.child_process.library_errors import library_reason
from calculators.kit.requests.http_payload import RequestError
from calculators.llm.engine.engine import TOO_LONG
from calculators.llm.engine.messages import Add
from calculators.llm.engine.settings import EngineSettings, GenerationSettings, PluginValue
from calculators.llm.engine.stateful_pipeline import StatefulTextModel, StatefulVisionModel
from graph_runtime import Code
from tests.calculators.llm.demo_model import DEMO
from tests.calculators.llm.graph_runs import CHAT, COMPLETIONS, Asking, text_of
from tests.calculators.llm.graph_texts import plan_of, resources_of, with_options
from tests.support.conditions import soon

LONGEST = 40
SHORTEST_ANSWER = 24
NPU = with_options(
    'models_path: "./" device: "NPU" plugin_config: \'{"NPUW_DEVICES": "CPU", '
    '"NPUW_ONLINE_PIPELINE": "NONE", "DEVICE_PROPERTIES": {"NPU": '
    f'{{"MAX_PROMPT_LEN": {LONGEST}, "MIN_RESPONSE_LEN": {SHORTEST_ANSWER}}}}}}}\''
)


def has_plugin() -> bool:
    try:
        openvino.Core().get_versions("NPU")
    except RuntimeError:
        return False
    return True


pytestmark = pytest.mark.skipif(not has_plugin(), reason="OpenVINO has no NPU plugin here")


@pytest.fixture(scope="module")
def npu(runner: asyncio.Runner) -> Iterator[Asking]:
    resources = runner.run(soon(resources_of(NPU, DEMO)))
    yield Asking(runner, plan_of(NPU), resources)
    runner.run(resources.close())


def test_a_greedy_answer_is_that_of_other_devices(npu: Asking, ask: Asking) -> None:
    # An answer of which the model is sure: the plugin computes with 16 bits.
    answered, expected = npu(CHAT).body, ask(CHAT).body
    assert answered["choices"] == expected["choices"]
    assert answered["usage"] == expected["usage"]
    assert text_of(npu(CHAT, stream=True)) == text_of(ask(CHAT))


def test_a_prompt_longer_than_the_limit_is_refused_with_both_numbers(npu: Asking) -> None:
    with pytest.raises(RequestError) as caught:
        npu(COMPLETIONS, prompt=list(range(100, 101 + LONGEST)))
    error = caught.value
    assert str(error) == (
        f"the prompt has {LONGEST + 1} tokens; this model takes at most {LONGEST} at once "
        "(MAX_PROMPT_LEN)"
    )
    assert (error.param, error.code, error.reason) == ("prompt", Code.OUT_OF_RANGE, TOO_LONG)
    longest = npu(COMPLETIONS, prompt=list(range(100, 100 + LONGEST))).body
    assert longest["usage"]["prompt_tokens"] == LONGEST


def test_an_answer_ends_when_the_devices_memory_is_full(npu: Asking) -> None:
    prompt = list(range(100, 110))
    body = npu(COMPLETIONS, prompt=prompt, max_tokens=500, ignore_eos=True).body
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["usage"]["total_tokens"] in range(LONGEST + SHORTEST_ANSWER - 2, 70)


@pytest.mark.parametrize("asked", [{"best_of": 2}, {"best_of": 4, "n": 2}])
def test_beam_search_is_refused(npu: Asking, asked: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match="beam search") as caught:
        npu(COMPLETIONS, **asked)
    assert caught.value.param == "best_of"


def test_several_answers_are_made_one_after_the_other(npu: Asking) -> None:
    body = npu(CHAT, n=2, temperature=1.5, seed=3, max_tokens=6).body
    assert len(body["choices"]) == 2


def test_the_limit_applies_to_vision_models() -> None:
    of_npu: dict[str, PluginValue] = {
        "NPUW_DEVICES": "CPU",
        "NPUW_ONLINE_PIPELINE": "NONE",
        "MAX_PROMPT_LEN": 32,
    }
    settings = EngineSettings(
        model_path=str(DEMO.parent / "shapes_vlm"),
        pipeline_type="VLM",
        device="NPU",
        plugin_config={"DEVICE_PROPERTIES": {"NPU": of_npu}},
    )
    model = StatefulVisionModel(settings)
    told: list[int] = []

    def take(ids: list[int], speech: bytes = b"") -> bool:
        told.extend(ids)
        return True

    def ask(words: int) -> Add:
        asked = GenerationSettings(max_new_tokens=3, ignore_eos=True)
        return Add(1, b"", asked, text="a " * words)

    with pytest.raises(RuntimeError) as caught:
        model.generate(ask(200), take)
    assert "up to 32 tokens" in library_reason(caught.value)
    (ending,) = model.generate(ask(5), take)
    assert ending.reason == "length"
    assert ending.prompt_tokens in range(5, 33)
    assert len(told) == 3


def test_a_machine_without_an_npu_is_an_error() -> None:
    if any(name.startswith("NPU") for name in openvino.Core().available_devices):
        pytest.skip("this machine has one")
    settings = EngineSettings(model_path=str(DEMO), pipeline_type="LM", device="NPU")
    with pytest.raises(RuntimeError, match="device NPU is not on this machine, which has CPU"):
        StatefulTextModel(settings)
