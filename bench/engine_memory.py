"""Memory of the bare engine, over requests of random lengths, by the bounds of its caches.

    python -m bench.engine_memory [--requests 5000] [--at_once 60] [--plugin 64] [--onednn 128]
                                  [--tools] [--arenas 2]

Prompts of 20, 50 or 100 random tokens and answers of 4 to 60 on the example model. With ``--tools``
each answer calls tools: 32 lists of tools recur, and every tenth request has one of its own. Linux
with glibc: the heap is what ``malloc_info`` reports as not free; its arenas are as many as in
servers, or the C library's default with ``--arenas 0``.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import numpy as np

from bench.machine import describe_machine, resident_bytes

if TYPE_CHECKING:
    from calculators.llm.grammars.grammar import Grammar

DEMO: Final = Path(__file__).parents[1] / "examples/models/demo"
_MEBIBYTE: Final = 2**20
#: Lists of tools that recur.
_FORMS: Final = 32
#: The part of requests with one of their own.
_NEW_FORMS: Final = 0.1


def heap_in_use() -> float:
    """Return the bytes, in MiB, that this process has allocated and not freed."""
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    libc.fopen.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    libc.fclose.argtypes = [ctypes.c_void_p]
    libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
    with tempfile.NamedTemporaryFile() as file:
        stream = libc.fopen(file.name.encode(), b"w")
        libc.malloc_info(0, stream)
        libc.fclose(stream)
        report = Path(file.name).read_text(encoding="ascii")
    of_all_heaps = report.rpartition("</heap>")[2]
    free = re.findall(r'<total type="(?:fast|rest)" count="\d+" size="(\d+)"', of_all_heaps)
    taken = re.findall(
        r'<(?:system type="current"|total type="mmap" count="\d+") size="(\d+)"', of_all_heaps
    )
    return (sum(map(int, taken)) - sum(map(int, free))) / _MEBIBYTE


def grammar_of_calls(random: Random, number: int) -> Grammar:
    """Return the grammar of calls of one to three tools, as Hermes' models write them."""
    from calculators.llm.grammars.form_grammar import grammar_of
    from calculators.llm.grammars.formats import Tool, calls
    from calculators.llm.grammars.grammar import AnswerForm
    from calculators.llm.parsers.registry import tool_parser

    properties = {
        f"name{number}": {"type": "string", "maxLength": 5 + number % 20},
        f"count{number}": {"type": "integer", "minimum": number},
        f"kind{number}": {"enum": [f"a{number}", f"b{number}"]},
    }
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    form = tool_parser("hermes3").call_form
    assert form is not None
    tools = [Tool(f"f{place}", schema, "tools") for place in range(random.randint(1, 3))]
    return grammar_of(AnswerForm(json.dumps(calls(form, tools, only_one=False))))


def run(requests: int, at_once: int, kernels: int, *, has_tools: bool) -> None:
    """Answer the requests, and print a row of the table every thousand."""
    from calculators.llm.engine.core import EngineCore
    from calculators.llm.engine.genai_pipeline import GenaiPipeline
    from calculators.llm.engine.messages import Add, Step
    from calculators.llm.engine.settings import EngineSettings, GenerationSettings, PluginValue

    plugin: dict[str, PluginValue | dict[str, dict[str, PluginValue]]] = {
        "CPU_RUNTIME_CACHE_CAPACITY": kernels
    }
    core = EngineCore(GenaiPipeline(EngineSettings(model_path=str(DEMO), plugin_config=plugin)))
    random = Random(1)
    recurring = [grammar_of_calls(random, number) for number in range(_FORMS if has_tools else 0)]

    def grammar() -> Grammar | None:
        if not recurring:
            return None
        if random.random() < _NEW_FORMS:
            return grammar_of_calls(random, random.randrange(10**9))
        return random.choice(recurring)

    asked = answered = 0
    while answered < requests:
        while asked - answered < at_once:
            asked += 1
            length = random.choice((20, 20, 20, 50, 100))
            ids = np.array([random.randrange(5, 2000) for _ in range(length)], dtype=np.int64)
            settings = GenerationSettings(
                max_new_tokens=random.randint(4, 60),
                ignore_eos=not has_tools,
                grammar=grammar(),
            )
            core.handle(Add(asked, ids.tobytes(), settings))
        for news in core.step():
            for tokens in news.tokens if isinstance(news, Step) else ():
                if tokens.finish_reason is None:
                    continue
                answered += 1
                if answered % 1000 == 0:
                    resident = resident_bytes(os.getpid()) / _MEBIBYTE
                    cpu = time.process_time()
                    print(f"| {answered} | {heap_in_use():.0f} | {resident:.0f} | {cpu:.0f} |",
                          flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--at_once", type=int, default=60)
    parser.add_argument("--plugin", type=int, default=64, help="CPU_RUNTIME_CACHE_CAPACITY")
    parser.add_argument("--onednn", type=int, default=128, help="ONEDNN_PRIMITIVE_CACHE_CAPACITY")
    parser.add_argument("--arenas", type=int, default=2, help="of the C library; 0: its default")
    parser.add_argument("--tools", action="store_true", help="answers call tools")
    args = parser.parse_args()
    # The C library reads its variable before Python starts, so this process starts anew.
    tunables = ["glibc.malloc.hugetlb=1"]
    if args.arenas:
        tunables.append(f"glibc.malloc.arena_max={args.arenas}")
    environment = {
        "GLIBC_TUNABLES": ":".join(tunables),
        "ONEDNN_PRIMITIVE_CACHE_CAPACITY": str(args.onednn),
    }
    if environment.items() - os.environ.items():
        words = [sys.executable, "-m", "bench.engine_memory", *sys.argv[1:]]
        os.execve(sys.executable, words, {**os.environ, **environment})
    print(f"{describe_machine()}\n")
    print("| requests | heap in use, MiB | resident, MiB | processor time, s |\n|---|---|---|---|")
    run(args.requests, args.at_once, args.plugin, has_tools=args.tools)
    sys.stdout.flush()
    os._exit(0)  # requests in flight make the library end with an error


if __name__ == "__main__":
    main()
