"""The environment of an engine's process. Imports nothing slow."""

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
