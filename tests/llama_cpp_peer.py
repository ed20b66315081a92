"""Models of GGUF files beside llama.cpp: ``python -m tests.llama_cpp_peer [NAME ...]``.

Nightly: it needs the package llama-cpp-python, which a C++ compiler builds for some minutes. Each
tiny model (``tests/calculators/kit/checkpoints/tiny_models.py``) is run in the paged form in which
it is served, a prompt, then single tokens, then the rest, and its logits are compared with
llama.cpp's. ``--seed`` makes other models, ``--type`` quantizes them, ``--write`` writes the values
that the normal tests compare with.

llama.cpp has GELU as a table of float16, so models with GELU agree to three digits.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from bench.gguf import peer_logits, quiet
from bench.gguf_file import write_gguf
from calculators.kit.checkpoints.families import FAMILIES
from calculators.kit.checkpoints.gguf import GgufFile
from calculators.kit.checkpoints.packed import floats_of, unpack
from tests.calculators.kit.checkpoints.expected_logits import (
    EXPECTED,
    expected,
    ids_for,
    logits_of,
    sample,
    tolerance_of,
)
from tests.calculators.kit.checkpoints.tiny_models import CASES, write_tiny


def as_floats(path: Path) -> Path:
    """Write the same model in float32: llama.cpp rounds the inputs of quantized products."""
    file = GgufFile(path)
    tensors = {}
    for name, tensor in file.tensors.items():
        rows = floats_of(tensor.type.name, tensor.rows())
        if rows is None:
            rows = unpack(tensor.type.name, tensor.rows()).floats()
        tensors[name] = rows.astype(np.float32).reshape(tensor.shape)
    values = dict(file.metadata.scalars)
    for key in file.metadata:
        if key not in values:
            values[key] = [each.item() for each in np.asarray(file.metadata.numbers(key))]
    found = path.with_name("floats.gguf")
    write_gguf(found, values, tensors)
    return found


def other_sizes(name: str, seed: int) -> dict[str, Any]:
    """Return other sizes for a tiny model, within what its family's files can have."""
    case, random = CASES[name], Random(f"{seed} {name}")
    family = FAMILIES[case.architecture]
    kv_heads = 1 if case.kv_heads == 1 else random.choice([1, 2, 3])
    heads = kv_heads * random.choice([1, 2, 3, 4])
    if case.kv_heads == case.heads:  # each head of queries has its own keys
        heads = kv_heads = random.choice([1, 2, 3, 5, 7])
    is_fixed = family.builder in ("latent", "delta") or "rope.dimension_sections" in case.values
    size = case.size if is_fixed else random.choice([8, 12, 24, 32])
    inner = random.choice([32, 64, 128, 224])
    found: dict[str, Any] = {"heads": heads, "kv_heads": kv_heads, "size": size, "inner": inner}
    # llama.cpp loads some families only if all heads together are as wide as the model.
    found["width"] = random.choice([heads * size, heads * size, 32, 160])
    if family.builder == "decoder" and not case.values.get("leading_dense_block_count"):
        found["layers"] = random.choice([1, 3]) * max(family.window_period, 1)
    if case.experts and "expert_group_count" not in case.values:
        found["experts"] = random.choice([3, 5, 8])
        found["used"] = random.randint(1, found["experts"])
    values = dict(case.values)
    for key, value in case.values.items():
        if "feed_forward" in key:
            values[key] = int(str(value)) // case.inner * inner
        elif key == "rope.dimension_count":
            values[key] = min(int(str(value)), size // 2 // 2 * 2)
        elif key == "attention.sliding_window":
            values[key] = random.choice([3, 8, 33])
    return {**found, "values": values}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="of tiny models; default all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--type", default="F32")
    parser.add_argument("--width", type=int, default=0, help="256 for types with blocks of 256")
    parser.add_argument("--sizes", action="store_true", help="other ones, by the seed")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    quiet()
    failed = 0
    written = {}
    more = 10 if arguments.type != "F32" else 3 if arguments.sizes else 1
    for name in arguments.names or CASES:
        changes: dict[str, Any] = {}
        if arguments.width:
            changes = {"width": arguments.width, "inner": arguments.width, "size": 64}
        if arguments.sizes:
            changes |= other_sizes(name, arguments.seed)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"{name}.gguf")
            write_tiny(path, name, arguments.seed, arguments.type, **changes)
            ids = ids_for(arguments.seed)
            try:
                wanted = peer_logits(as_floats(path), ids)
            except RuntimeError as error:
                print(f"{name:18} {error}")
                continue
            found = logits_of(path, ids, batches="stateful" not in CASES[name].parts)
        difference = float(np.abs(found - wanted).max() / np.abs(wanted).max())
        warned = 10 if FAMILIES[CASES[name].architecture].warning else 1
        is_equal = difference < tolerance_of(name) * more * warned
        failed += not is_equal
        written[name] = sample(wanted)
        print(f"{name:18} {difference:.1e} {'' if is_equal else 'DIFFERS'}", flush=True)
    if arguments.write:
        values = {**expected(), **written}
        lines = [f'"{name}": {json.dumps(values[name])}' for name in CASES if name in values]
        EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
