"""Heap in use of the bare engine, over requests of random lengths, by the bounds of its kernels.

    python -m bench.engine_memory [--requests 5000] [--at_once 60] [--plugin 64] [--onednn 128]

Prompts of 20, 50 or 100 random tokens and answers of 4 to 60 on the example model. Linux with
glibc: the heap is what ``malloc_info`` reports as not free.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Final

import numpy as np

from bench.machine import describe_machine

DEMO: Final = Path(__file__).parents[1] / "examples/models/demo"
_MEBIBYTE: Final = 2**20


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


def run(requests: int, at_once: int, kernels: int) -> None:
    """Answer the requests, and print a row of the table every thousand."""
    from calculators.llm.engine.engine_settings import EngineSettings, PluginValue
    from calculators.llm.engine.genai_pipeline import GenaiPipeline
    from calculators.llm.engine.generation_settings import GenerationSettings
    from calculators.llm.engine.messages import Add

    plugin: dict[str, PluginValue | dict[str, dict[str, PluginValue]]] = {
        "CPU_RUNTIME_CACHE_CAPACITY": kernels
    }
    pipeline = GenaiPipeline(EngineSettings(model_path=str(DEMO), plugin_config=plugin))
    random = Random(1)
    asked = answered = 0
    while answered < requests:
        while asked - answered < at_once:
            asked += 1
            length = random.choice((20, 20, 20, 50, 100))
            ids = np.array([random.randrange(5, 2000) for _ in range(length)], dtype=np.int64)
            settings = GenerationSettings(max_new_tokens=random.randint(4, 60), ignore_eos=True)
            pipeline.add(Add(asked, ids.tobytes(), settings))
        for tokens in pipeline.step():
            if tokens.finish_reason is None:
                continue
            answered += 1
            if answered % 1000 == 0:
                cpu = time.process_time()
                print(f"| {answered} | {heap_in_use():.0f} | {cpu:.0f} |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--at_once", type=int, default=60)
    parser.add_argument("--plugin", type=int, default=64, help="CPU_RUNTIME_CACHE_CAPACITY")
    parser.add_argument("--onednn", type=int, default=128, help="ONEDNN_PRIMITIVE_CACHE_CAPACITY")
    args = parser.parse_args()
    os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] = str(args.onednn)  # read with its first kernel
    print(f"{describe_machine()}\n")
    print("| requests | heap in use, MiB | processor time, s |\n|---|---|---|")
    run(args.requests, args.at_once, args.plugin)
    return 0


if __name__ == "__main__":
    sys.exit(main())
