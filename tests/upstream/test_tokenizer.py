"""openvino-genai 2026.4: a tokenizer of one thread hides a failed allocation.

`calculators.llm.prompt.builder` detects it.
"""

from __future__ import annotations

import sys

import pytest

from tests.support.checkout import ROOT
from tests.upstream.child import LIMITED, run

_MODEL = ROOT / "examples" / "models" / "demo"
_CODE = """
import sys
import openvino_genai
tokenizer = openvino_genai.Tokenizer(sys.argv[1], INFERENCE_NUM_THREADS=1, NUM_STREAMS=1)
def encode(text):
    return tokenizer.encode(text).input_ids.data.tolist()
before = encode("the secret of somebody else")
text = "a word and more of them " * 400_000
limit(int(sys.argv[2]) << 20)
try:
    after = encode(text)
except (MemoryError, RuntimeError):
    print("noticed")
else:
    print("the tokens of the text before" if after == before else len(after[0]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a limit of memory")
def test_a_text_without_enough_memory_gets_the_tokens_of_the_text_before() -> None:
    done = [run(LIMITED + _CODE, str(_MODEL), str(mib)) for mib in (16, 32, 64, 128)]
    assert "the tokens of the text before\n" in [each.stdout for each in done]
