"""openvino 2026.4: beside AMX a language model with one thread ends the process while it compiles.

The kernels that join the multiplications of a layer divide by half of the threads. In float32 they
are not used. `calculators/llm/engine/pipelines.py` avoids it; a version that does not need that
fails this test.
"""

from __future__ import annotations

import json
import signal
from typing import Final

import pytest

from calculators.kit.machine import cpu_flags
from tests.support.checkout import ROOT
from tests.upstream.child import run

pytestmark = pytest.mark.skipif("amx_bf16" not in cpu_flags(), reason="the processor has no AMX")

_MODEL: Final = ROOT / "examples" / "models" / "demo"
_CODE: Final = """
import json, sys
import openvino_genai as genai
properties = json.loads(sys.argv[2])
genai.ContinuousBatchingPipeline(sys.argv[1], genai.SchedulerConfig(), "CPU", properties)
"""


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        ({"INFERENCE_NUM_THREADS": 1}, -signal.SIGFPE),
        ({"INFERENCE_NUM_THREADS": 2, "NUM_STREAMS": 2}, -signal.SIGFPE),
        ({"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}, 0),
    ],
)
def test_one_thread_in_bfloat16_divides_by_zero(
    properties: dict[str, int | str], code: int
) -> None:
    assert run(_CODE, str(_MODEL), json.dumps(properties)).returncode == code
