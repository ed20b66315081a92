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
from typing import Any

import numpy as np

from bench.gguf import peer_logits, quiet
from bench.gguf_file import write_gguf
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="of tiny models; default all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--type", default="F32")
    parser.add_argument("--width", type=int, default=0, help="256 for types with blocks of 256")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    quiet()
    failed = 0
    written = {}
    for name in arguments.names or CASES:
        changes: dict[str, Any] = {}
        if arguments.width:
            changes = {"width": arguments.width, "inner": arguments.width, "size": 64}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"{name}.gguf")
            write_tiny(path, name, arguments.seed, arguments.type, **changes)
            ids = ids_for(arguments.seed)
            try:
                wanted = peer_logits(as_floats(path), ids)
            except RuntimeError as error:
                print(f"{name:18} {error}")
                continue
            found = logits_of(path, ids)
        difference = float(np.abs(found - wanted).max() / np.abs(wanted).max())
        is_equal = difference < tolerance_of(name) * (1 if arguments.type == "F32" else 10)
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
