"""Models of GGUF files beside llama.cpp: ``python -m tests.llama_cpp_peer [NAME ...]``.

Nightly: it needs the package llama-cpp-python, which a C++ compiler builds for some minutes. Each
tiny model (``tests/calculators/llm/model_files/tiny_models.py``) is run in the paged form in which
it is served, a prompt, then single tokens, then the rest, and its logits are compared with
llama.cpp's. ``--seed`` makes other models, ``--type`` quantizes them, ``--write`` writes the values
that the normal tests compare with.

llama.cpp has GELU as a table of float16, so models with GELU agree to three digits.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.gguf_file import write_gguf
from calculators.llm.model_files.gguf import GgufFile
from calculators.llm.model_files.packed import floats_of, unpack
from tests.calculators.llm.model_files.expected_logits import (
    EXPECTED,
    ids_for,
    logits_of,
    sample,
    tolerance_of,
)
from tests.calculators.llm.model_files.tiny_models import CASES, write_tiny


def peer_logits(path: Path, ids: list[int]) -> NDArray[np.float32]:
    """Return llama.cpp's logits of all tokens, with a float32 cache.

    Raises:
        RuntimeError: it does not load the file.
    """
    import llama_cpp as peer

    parameters = peer.llama_model_default_params()
    parameters.n_gpu_layers = 0
    parameters.use_extra_bufts = False  # plain kernels
    model = peer.llama_model_load_from_file(str(path).encode(), parameters)
    if not model:
        raise RuntimeError(f"llama.cpp does not load {path.name}")
    settings = peer.llama_context_default_params()
    settings.n_ctx = settings.n_batch = settings.n_ubatch = len(ids) + 8
    settings.n_threads = settings.n_threads_batch = 1
    settings.type_k = settings.type_v = 0
    settings.flash_attn_type = 0
    context = peer.llama_init_from_model(model, settings)
    batch = peer.llama_batch_init(len(ids), 0, 1)
    batch.n_tokens = len(ids)
    for place, token in enumerate(ids):
        batch.token[place] = token
        batch.pos[place] = place
        batch.n_seq_id[place] = 1
        batch.seq_id[place][0] = 0
        batch.logits[place] = 1
    if peer.llama_decode(context, batch):
        raise RuntimeError(f"llama.cpp does not compute {path.name}")
    count = peer.llama_vocab_n_tokens(peer.llama_model_get_vocab(model))
    rows = [
        np.ctypeslib.as_array(peer.llama_get_logits_ith(context, place), (count,)).copy()
        for place in range(len(ids))
    ]
    peer.llama_batch_free(batch)
    peer.llama_free(context)
    peer.llama_model_free(model)
    return np.array(rows, np.float32)


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


def quiet() -> None:
    """Leave out llama.cpp's log."""
    import llama_cpp as peer

    global _ignore
    _ignore = peer.llama_log_callback(lambda level, text, data: None)
    peer.llama_log_set(_ignore, ctypes.c_void_p())


_ignore: Any = None


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
        lines = [f'"{name}": {json.dumps(values)}' for name, values in written.items()]
        EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
