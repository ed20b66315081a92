"""llama.cpp by the package llama-cpp-python, for comparisons: logits, and tokens per second.

The package is built by a C++ compiler when it is installed: ``pip install llama-cpp-python``.
"""

from __future__ import annotations

import ctypes
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def peer_logits(path: Path, ids: list[int], *, plain: bool = True) -> NDArray[np.float32]:
    """Return llama.cpp's logits of all tokens, with a float32 cache.

    Args:
        plain: without kernels for rearranged weights.

    Raises:
        RuntimeError: it does not load the file.
    """
    import llama_cpp as peer

    parameters = peer.llama_model_default_params()
    parameters.n_gpu_layers = 0
    parameters.use_extra_bufts = not plain
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


class PeerModel:
    """A loaded model that decodes several sequences at a time."""

    def __init__(self, path: Path, sequences: int, length: int, threads: int) -> None:
        import llama_cpp as peer

        self._peer = peer
        parameters = peer.llama_model_default_params()
        parameters.n_gpu_layers = 0
        self._model = peer.llama_model_load_from_file(str(path).encode(), parameters)
        settings = peer.llama_context_default_params()
        settings.n_ctx = sequences * length
        settings.n_batch = settings.n_ubatch = 512
        settings.n_seq_max = sequences
        settings.n_threads = settings.n_threads_batch = threads
        self._context = peer.llama_init_from_model(self._model, settings)
        self._batch = peer.llama_batch_init(512, 0, 1)

    def _decode(self, tokens: list[tuple[int, int, int]]) -> None:
        """Decode tokens: id, position, sequence."""
        batch = self._batch
        batch.n_tokens = len(tokens)
        for place, (token, position, sequence) in enumerate(tokens):
            batch.token[place] = token
            batch.pos[place] = position
            batch.n_seq_id[place] = 1
            batch.seq_id[place][0] = sequence
            batch.logits[place] = 1 if len(tokens) < 64 or place == len(tokens) - 1 else 0
        if self._peer.llama_decode(self._context, batch):
            raise RuntimeError("llama.cpp does not decode")

    def run(self, sequences: int, prompt: int, new: int) -> tuple[float, float]:
        """Return seconds until all prompts are read, and until all tokens are made after that."""
        peer = self._peer
        peer.llama_memory_clear(peer.llama_get_memory(self._context), True)
        start = time.perf_counter()
        for sequence in range(sequences):
            self._decode([(100 + place, place, sequence) for place in range(prompt)])
        read = time.perf_counter()
        for step in range(new):
            self._decode([(100 + step, prompt + step, each) for each in range(sequences)])
        return read - start, time.perf_counter() - read


def quiet() -> None:
    """Leave out llama.cpp's log."""
    import llama_cpp as peer

    global _ignore
    _ignore = peer.llama_log_callback(lambda level, text, data: None)
    peer.llama_log_set(_ignore, ctypes.c_void_p())


_ignore: Any = None
