"""How much an engine grows with what it is asked."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.calculators.llm.demo_model import DEMO
from tests.checkout import ROOT

#: Prints how many MiB the process has grown by when prompts of all these lengths have been
#: answered once, and when they have been answered again.
_CODE = """
import json, os, resource, sys
import numpy as np
from calculators.llm.engine.engine_settings import EngineSettings
from calculators.llm.engine.generation_settings import GenerationSettings
from calculators.llm.engine.genai_pipeline import GenaiPipeline
from calculators.llm.engine.messages import Add

pipeline = GenaiPipeline(
    EngineSettings(model_path=sys.argv[1], device="CPU", plugin_config=json.loads(sys.argv[2]))
)
once = GenerationSettings(max_new_tokens=1, ignore_eos=True)

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() >> 20

def answer_all():
    for length in range(3, 256, 2):
        pipeline.add(Add(length, np.full(length, 7, dtype=np.int64).tobytes(), once))
        while pipeline.has_work:
            pipeline.step()
    return resident()

pipeline.add(Add(1, np.full(255, 7, dtype=np.int64).tobytes(), once))
while pipeline.has_work:
    pipeline.step()
start = resident()
print(json.dumps([answer_all() - start, answer_all() - start]), flush=True)
os._exit(0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells")
def test_an_engine_grows_little_with_prompts_of_many_lengths() -> None:
    def growth(plugin_config: str) -> list[int]:
        done = subprocess.run(
            [sys.executable, "-c", _CODE, str(DEMO), plugin_config],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        made: list[int] = json.loads(done.stdout)
        return made

    unbounded, _ = growth('{"CPU_RUNTIME_CACHE_CAPACITY": 5000}')
    once, twice = growth("{}")
    assert once < 0.8 * unbounded
    assert twice < unbounded
