"""Growth of an engine's memory with its requests."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.calculators.llm.demo_model import DEMO
from tests.support.checkout import ROOT

#: Prints how many MiB the process has grown when prompts of all these lengths have been answered
#: once, and when they have been answered again.
_CODE = """
import json, os, resource, sys
import numpy as np
from calculators.llm.engine.settings import EngineSettings
from calculators.llm.engine.settings import GenerationSettings
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


def run(code: str, argument: str) -> list[int]:
    """Run code with the model and ``argument`` as its arguments; return the numbers it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, str(DEMO), argument],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    printed: list[int] = json.loads(done.stdout.splitlines()[-1])
    return printed


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_an_engine_grows_little_with_prompts_of_many_lengths() -> None:
    unbounded, _ = run(_CODE, '{"CPU_RUNTIME_CACHE_CAPACITY": 5000}')
    once, twice = run(_CODE, "{}")
    assert once < 0.8 * unbounded
    assert twice < unbounded


#: Prints the most MiB that the process had in each of two rounds of new grammars.
_GRAMMARS = """
import json, os, sys
from functools import partial
from calculators.llm.engine import constrained_decoding
from calculators.llm.engine.settings import EngineSettings
from calculators.llm.engine.genai_pipeline import GenaiPipeline
from calculators.llm.grammars import formats
from calculators.llm.grammars.form_grammar import grammar_of
from calculators.llm.grammars.grammar import AnswerForm

GrammarCache = partial(constrained_decoding.GrammarCache, max_count=int(sys.argv[2]))
constrained_decoding.GrammarCache = GrammarCache
pipeline = GenaiPipeline(EngineSettings(model_path=sys.argv[1], device="CPU"))

def most(numbers):
    sizes = []
    for number in numbers:
        text, count = {"type": "string", "maxLength": 200}, {"type": "integer"}
        kinds = (text, {**count, "minimum": 10**8 + number})
        properties = {f"p{number}_{place}": kinds[place % 2] for place in range(8)}
        schema = {"type": "object", "properties": properties, "required": list(properties)}
        form = AnswerForm(json.dumps(formats.json_schema(schema, "")))
        pipeline.make_room()
        pipeline.compile(grammar_of(form))
        sizes.append(constrained_decoding._resident_bytes() >> 20)
    return max(sizes)

print(json.dumps([most(range(10, 16)), most(range(16, 28))]), flush=True)
os._exit(0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_an_engine_grows_by_a_bounded_number_of_grammars() -> None:
    def growth(most_grammars: int) -> int:
        first, then = run(_GRAMMARS, str(most_grammars))
        return then - first

    assert growth(3) < 0.5 * growth(1000)
