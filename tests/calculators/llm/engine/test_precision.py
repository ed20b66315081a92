"""Models are computed in a precision that works with the threads that they have."""

from __future__ import annotations

from typing import Any

import pytest

from calculators.llm.engine import pipelines
from calculators.llm.engine.pipelines import open_pipeline, with_working_precision
from calculators.llm.engine.settings import EngineSettings
from tests.calculators.llm.demo_model import DEMO
from tests.calculators.llm.engine.cache_runs import request

AMX = frozenset({"amx_bf16", "avx512_bf16"})
F32 = "f32"


def hint(device: str = "CPU", **config: Any) -> object:
    settings, warning = with_working_precision(
        EngineSettings(model_path=str(DEMO), device=device, plugin_config=config), device
    )
    assert bool(warning) == (settings.plugin_config != config)
    return settings.plugin_config.get("INFERENCE_PRECISION_HINT")


@pytest.fixture
def amx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "cpu_flags", lambda: AMX)


@pytest.mark.usefixtures("amx")
@pytest.mark.parametrize(
    "config",
    [
        {"INFERENCE_NUM_THREADS": 1},
        {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "bf16"},
        {"INFERENCE_NUM_THREADS": 2, "NUM_STREAMS": 2},
        {"DEVICE_PROPERTIES": {"CPU": {"INFERENCE_NUM_THREADS": 1}}},
        {
            "DEVICE_PROPERTIES": {
                "CPU": {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "bf16"}
            }
        },
    ],
)
def test_one_thread_computes_in_float32_beside_amx(config: dict[str, Any]) -> None:
    assert hint(**config) == F32


@pytest.mark.usefixtures("amx")
@pytest.mark.parametrize(
    "config",
    [
        {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"},
        {"INFERENCE_NUM_THREADS": 1, "EXECUTION_MODE_HINT": "ACCURACY"},
        {"INFERENCE_NUM_THREADS": "no number"},
    ],
)
def test_what_works_or_is_wrong_stays_as_it_is(config: dict[str, Any]) -> None:
    assert hint(**config) == config.get("INFERENCE_PRECISION_HINT")


@pytest.mark.usefixtures("amx")
def test_other_devices_decide_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "_is_cpu", lambda device: False)
    assert hint("GPU", INFERENCE_NUM_THREADS=1) is None


def test_processors_without_amx_decide_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "cpu_flags", lambda: frozenset({"avx512_bf16"}))
    assert hint(INFERENCE_NUM_THREADS=1) is None


@pytest.mark.usefixtures("in_process_engine")
def test_a_model_with_one_thread_generates_on_this_processor() -> None:
    settings = EngineSettings(
        model_path=str(DEMO), device="CPU", plugin_config={"INFERENCE_NUM_THREADS": 1}
    )
    pipeline = open_pipeline(settings, wake=lambda: None)
    pipeline.add(request(1, prompt=3, answer=2))
    assert pipeline.step()
