"""Models are read and compiled beside an event loop, which goes on meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from calculators.vision.inference import compiled_model
from graph_runtime import CalculatorGraph, GraphError, Packet
from tests.calculators.vision.solutions import needs_models
from tests.calculators.vision.test_calculators import registry
from tests.support.patience import PATIENCE

pytestmark = needs_models

_FILE: Final = "mediapipe/modules/face_landmark/face_landmark.tflite"
OWN_FILE: Final = f"""
    input_stream: "tensors"
    output_stream: "out"
    node {{
      calculator: "InferenceCalculator"
      input_stream: "TENSORS:tensors"
      output_stream: "TENSORS:out"
      options {{ [mediapipe.InferenceCalculatorOptions.ext] {{ model_path: "{_FILE}" }} }}
    }}
"""
SIDE_PACKET: Final = f"""
    input_stream: "tensors"
    output_stream: "out"
    node {{
      calculator: "ResourceProviderCalculator"
      output_side_packet: "RESOURCE:content"
      node_options {{
        [type.googleapis.com/mediapipe.ResourceProviderCalculatorOptions] {{
          resource_id: "{_FILE}"
        }}
      }}
    }}
    node {{
      calculator: "TfLiteModelCalculator"
      input_side_packet: "MODEL_RESOURCE:content"
      output_side_packet: "MODEL:model"
    }}
    node {{
      calculator: "InferenceCalculator"
      input_side_packet: "MODEL:model"
      input_stream: "TENSORS:tensors"
      output_stream: "TENSORS:out"
    }}
"""


class Held:
    """Calls that wait until the event loop lets them go on.

    Attributes:
        were_let_go: for each call, whether the loop did so in time.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._go = threading.Event()
        self.were_let_go: list[bool] = []

    def __call__(self, *words: Any) -> Any:
        self.were_let_go.append(self._go.wait(PATIENCE / 10))
        return self._function(*words)

    async def let_go(self) -> None:
        """Let the calls go on, as soon as the event loop has a turn after this one."""
        await asyncio.sleep(0)
        self._go.set()


@pytest.fixture(autouse=True)
def nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_model, "_compiled", type(compiled_model._compiled)())


async def run(text: str, *tensors: list[np.ndarray[Any, Any]]) -> list[Any]:
    graph = CalculatorGraph(text_config=text, registry=registry())
    seen: list[Any] = []
    graph.observe_output_stream("out", lambda _, packet: seen.append(packet.value))
    await graph.start_run_async({})
    for time, each in enumerate(tensors):
        await graph.add_packet_to_input_stream_async("tensors", Packet(each, time))
    graph.close_all_packet_sources()
    await graph.wait_until_done_async()
    return seen


@pytest.mark.parametrize("text", [OWN_FILE, SIDE_PACKET], ids=["own file", "side packet"])
def test_a_model_is_compiled_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    held = Held(compiled_model._read)
    monkeypatch.setattr(compiled_model, "_read", held)
    image = np.zeros((1, 192, 192, 3), np.float32)

    async def scenario() -> None:
        letting = asyncio.create_task(held.let_go())
        # Two at once: the second waits for the first one's model, and not on the loop.
        assert all(await asyncio.gather(run(text, [image]), run(text, [image])))
        await letting

    asyncio.run(scenario())
    assert held.were_let_go == [True]


def test_a_model_is_resized_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(compiled_model.CompiledModel.for_shapes)
    monkeypatch.setattr(compiled_model.CompiledModel, "for_shapes", lambda *words: held(*words))
    small, large = (np.zeros((1, size, size, 3), np.float32) for size in (192, 256))

    async def scenario() -> None:
        letting = asyncio.create_task(held.let_go())
        with pytest.raises(GraphError, match="cannot be resized"):  # as this model says
            await run(OWN_FILE, [small], [large])
        await letting

    asyncio.run(scenario())
    assert held.were_let_go == [True]
