"""The engine: openvino-genai in a process of its own.

The child: ``process`` is its main program, ``core`` the loop that steps a pipeline, ``admission``
the queue in front of one, and ``pipelines`` opens the pipeline that fits the model:
``genai_pipeline`` with continuous batching, or ``stateful_pipeline`` with one request at a time.
Only these two generate with openvino-genai; ``library_config`` and ``constrained_decoding`` prepare
its arguments. ``messages`` is the protocol, ``settings`` has the engine's options. The server's
side is an `Engine` (``engine``), which `ProcessEngine` implements.
"""

from __future__ import annotations

from typing import Final

from calculators.kit.memory import FEW_ARENAS

ENVIRONMENT: Final = {
    # Puts weights and cache into huge pages, where Linux has them on request (glibc 2.35). A step
    # reads all the weights, and small pages cost the processor many more address look-ups.
    # Grammars and kernels are made and freed in several threads: with few arenas the engine of the
    # example model stays 70 MiB smaller.
    "GLIBC_TUNABLES": f"glibc.malloc.hugetlb=1:{FEW_ARENAS}",
    # oneDNN keeps 1,024 kernels, beside those of the CPU plugin (`library_config`), one for each
    # number of tokens in a step. The example model's engine then grows for 45,000 requests.
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128",
}
