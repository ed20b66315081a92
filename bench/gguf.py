"""GGUF files: how near answers are to the file's numbers, and how fast they come.

``python -m bench.gguf exactness FILE``: the divergence (Kullback-Leibler) of next-token
distributions from those of the file's own numbers, for each form of the weights, and the perplexity
over 14,000 characters of ``docs/serving.md`` (512 tokens at a time, second halves).
``python -m bench.gguf speed FILE...``: tokens per second of each form in openvino-genai, and the
time until the first token, in turns.
``python -m bench.gguf served FILE``: the perplexity over the same text, as a client reads it from
``graphrt serve FILE``: completions with ``echo`` and ``logprobs``.
``python -m bench.gguf conversion FILE``: seconds and the most memory of the converting process,
beside the bytes of the weights that it writes.
``python -m bench.gguf products``: milliseconds of one product by the form of its matrix.

``--peer`` adds llama.cpp (the package llama-cpp-python). ``gguf.md`` has results.

llama-cpp-python gives logits, and tokens per second, for comparisons. The package is built by a C++
compiler when it is installed: ``pip install llama-cpp-python``.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import json
import math
import os
import shlex
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import openvino as ov
import openvino_genai as genai
from numpy.typing import NDArray
from openvino import opset15 as op

from bench.machine import ServerProcess, children, peak_bytes
from bench.random_model import EXACT, PagedModel
from calculators.kit.checkpoints.converted_gguf import convert, read_source
from calculators.kit.checkpoints.decoder import read_decoder
from calculators.kit.checkpoints.family_builders import build_model
from calculators.kit.checkpoints.gguf import GgufFile
from calculators.kit.checkpoints.packed import OffsetForm
from calculators.kit.checkpoints.tokenizer_graph import write_tokenizer
from calculators.kit.checkpoints.vocabulary import read_vocabulary
from calculators.kit.checkpoints.weights import WeightScratch
from graph_runtime import LoadProgress


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


class LlamaCppModel:
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


_TEXT: Final = Path(__file__).parents[1] / "docs" / "serving.md"
_CHARACTERS: Final = 14_000
_CHUNK: Final = 512
_SHORT: Final = 320
#: New tokens of a stream, and the prompts whose first tokens are waited for.
_NEW: Final = 32
_PROMPTS: Final = (16, 128, 512)
_SERVED: Final = {"INFERENCE_PRECISION_HINT": "f32"}
_DEFAULT: Final = {**_SERVED, "KV_CACHE_PRECISION": "f32"}
_FOREIGN: Final = (
    "Grüße aus München: Der Zug fährt heute nicht, weil die Strecke gesperrt ist. La réunion "
    "commence à neuf heures, et tout le monde est prié d'être à l'heure.\n今天天气很好，我们去公园"  # noqa: RUF001
    "散步吧。\ndef fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
)


@contextmanager
def built(path: Path, form: OffsetForm) -> Iterator[ov.Model]:
    """Build a file's model; its constants lie in a temporary folder."""
    file = GgufFile(path)
    with tempfile.TemporaryDirectory() as folder:
        scratch = WeightScratch(Path(folder, "weights"))
        yield build_model(file, read_decoder(file), form, scratch)


def token_ids(path: Path, text: str) -> list[int]:
    """Return the tokens of a text by the file's vocabulary."""
    file = GgufFile(path)
    with tempfile.TemporaryDirectory() as folder:
        write_tokenizer(read_vocabulary(file.metadata, file.name), Path(folder), file.name)
        found: list[int] = genai.Tokenizer(folder).encode(text).input_ids.data[0].tolist()
    return found


def chances(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the logarithms of the chances of all tokens."""
    wide = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    return np.asarray(wide - np.log(np.exp(wide).sum(-1, keepdims=True)))


def divergence(exact: NDArray[np.float32], other: NDArray[np.float32]) -> str:
    """Return mean divergence and agreement of best tokens, as text."""
    p, q = chances(exact), chances(other)
    mean = float((np.exp(p) * (p - q)).sum(-1).mean())
    same = float((exact.argmax(-1) == other.argmax(-1)).mean())
    return f"{mean:.1e} | {same:.1%}"


def perplexity(run: Callable[[list[int]], NDArray[np.float32]], ids: list[int]) -> float:
    """Return the perplexity of the second halves of chunks."""
    total, count = 0.0, 0
    for start in range(0, len(ids) - _CHUNK + 1, _CHUNK):
        chunk = ids[start : start + _CHUNK]
        half = _CHUNK // 2
        logs = chances(run(chunk)[half - 1 : -1])
        total -= float(logs[np.arange(len(logs)), chunk[half:]].sum())
        count += len(logs)
    return math.exp(total / count)


def exactness(path: Path, source: Path, *, with_peer: bool) -> None:
    """Print divergences and perplexities."""
    text = source.read_text(encoding="utf-8")[:_CHARACTERS]
    ids = token_ids(path, text)
    short = token_ids(path, text[:700] + _FOREIGN)[:_SHORT]

    print(f"{path.name}: {len(short)} and {len(ids)} tokens")
    print("| form | divergence | same best token | perplexity |\n|---|---|---|---|")
    reference: NDArray[np.float32] | None = None
    for form, properties, name in (
        (OffsetForm.EXACT, EXACT, "exact, without dynamic quantization (`--exact`)"),
        (OffsetForm.SPLIT, EXACT, "split, without dynamic quantization"),
        (OffsetForm.SCALED, EXACT, "scaled, without dynamic quantization"),
        (OffsetForm.SCALED, _DEFAULT, "scaled"),
        (OffsetForm.SCALED, _SERVED, "scaled, cache in 8 bits, as it is served"),
        (OffsetForm.SPLIT, _DEFAULT, "split"),
        (OffsetForm.EXACT, _DEFAULT, "exact, with dynamic quantization"),
    ):
        with built(path, form) as model:
            paged = PagedModel(model, dict(properties), length=_CHUNK + 32)
            logits = paged.run(short)
            reference = logits if reference is None else reference

            def run(chunk: list[int], paged: PagedModel = paged) -> NDArray[np.float32]:
                paged.forget()
                return paged.run(chunk)

            result = divergence(reference, logits)
            print(f"| {name} | {result} | {perplexity(run, ids):.2f} |", flush=True)
    if with_peer:
        quiet()
        assert reference is not None
        result = divergence(reference, peer_logits(path, short))
        score = perplexity(lambda chunk: peer_logits(path, chunk), ids)
        print(f"| llama.cpp | {result} | {score:.2f} |")


def served(path: Path, source: Path, flags: Sequence[str]) -> None:
    """Print the perplexity by the log-probabilities that a server gives to a client."""
    ids = token_ids(path, source.read_text(encoding="utf-8")[:_CHARACTERS])
    with ServerProcess(path, *flags) as server:
        total, count = 0.0, 0
        for start in range(0, len(ids) - _CHUNK + 1, _CHUNK):
            body = {
                "model": path.stem,
                "prompt": ids[start : start + _CHUNK],
                "max_tokens": 0,
                "echo": True,
                "logprobs": 1,
            }
            request = urllib.request.Request(
                f"{server.url}/v3/completions",
                json.dumps(body).encode(),
                {"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=600) as answer:
                found = json.load(answer)["choices"][0]["logprobs"]["token_logprobs"]
            total -= sum(found[_CHUNK // 2 : _CHUNK])
            count += _CHUNK - _CHUNK // 2
    print(f"{path.name}, served: perplexity {math.exp(total / count):.2f} of {len(ids)} tokens")


def conversion(path: Path, form: str) -> None:
    """Print the most memory of the converting process, and its seconds."""
    source = read_source(path, form)

    async def run(folder: Path) -> int:
        work = asyncio.create_task(convert(source, folder, path.stem, LoadProgress()))
        most = 0
        while not work.done():
            most = max([most, *map(peak_bytes, children(os.getpid()))])
            await asyncio.wait({work}, timeout=0.02)
        await work
        return most

    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        most = asyncio.run(run(Path(folder)))
        seconds = time.perf_counter() - start
        weights = Path(folder, "openvino_model.bin").stat().st_size
    print(
        f"{path.name}, {source.form}: {seconds:.1f} s, most memory {most / 1e6:.0f} MB, weights "
        f"{weights / 1e6:.0f} MB (file {path.stat().st_size / 1e6:.0f} MB): "
        f"{most / weights:.2f} times the weights",
        flush=True,
    )


class _Round(NamedTuple):
    """A reading: seconds by the clock, and of the processor, until the first tokens and after."""

    first: float
    rest: float
    processor: float


def speed(
    paths: list[Path],
    forms: list[OffsetForm],
    streams: list[int],
    seconds: float,
    threads: int,
    *,
    with_peer: bool,
) -> None:
    """Print tokens per second, and milliseconds until the first token of a prompt.

    Args:
        seconds: of readings for each file; all sides take turns.
        threads: of each side.
    """
    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            runs = {
                f"graphrt, {form}": _pipeline_run(path, form, Path(folder), threads)
                for form in forms
            }
            if with_peer:
                quiet()
                peer = LlamaCppModel(path, max(streams), 640, threads=threads)
                runs["llama.cpp"] = peer.run
            _print_speed(path.name, _readings(runs, streams, seconds), streams)


_Run = Callable[[int, int, int], tuple[float, float]]
_Readings = dict[tuple[str, int, int], list[_Round]]


def _readings(runs: dict[str, _Run], streams: list[int], seconds: float) -> _Readings:
    loads = [(count, 16, _NEW) for count in streams] + [(1, prompt, 1) for prompt in _PROMPTS]
    found: _Readings = {}
    end = None
    while end is None or time.monotonic() < end:
        for count, prompt, new in loads:
            for name, run in runs.items():
                spent = time.process_time()
                first, rest = run(count, prompt, new)
                spent = time.process_time() - spent
                if end is not None:  # the first turn warms up
                    number = count if new > 1 else -prompt
                    found.setdefault((name, number, new), []).append(_Round(first, rest, spent))
        end = end or time.monotonic() + seconds
    return found


def _print_speed(name: str, found: _Readings, streams: list[int]) -> None:
    heads = [f"{count} stream{'s' * (count > 1)}, tokens/s" for count in streams]
    heads += ["ms per token, 1 stream", "of the processor"]
    heads += [f"prompt of {prompt}, ms" for prompt in _PROMPTS]
    rounds = min(len(each) for each in found.values())
    print(f"\n{name}, {rounds} turns: the best (the median)\n")
    print(f"| | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for side in dict.fromkeys(side for side, _, _ in found):
        cells = []
        for count in streams:
            rates = [count * _NEW / each.rest for each in found[side, count, _NEW]]
            cells.append(f"{max(rates):.0f} ({statistics.median(rates):.0f})")
        single, tokens = found[side, streams[0], _NEW], streams[0] * _NEW
        cells.append(_least([each.rest / tokens for each in single], 1))
        cells.append(_least([each.processor / tokens for each in single], 1))
        for prompt in _PROMPTS:
            firsts = [each.first for each in found[side, -prompt, 1]]
            cells.append(_least(firsts, 0))
        print(f"| {side} | {' | '.join(cells)} |", flush=True)


def _least(seconds: list[float], digits: int) -> str:
    least, middle = min(seconds) * 1e3, statistics.median(seconds) * 1e3
    return f"{least:.{digits}f} ({middle:.{digits}f})"


def _pipeline_run(path: Path, form: OffsetForm, folder: Path, threads: int) -> _Run:
    """Return what runs a file's model in openvino-genai, with the server's settings."""
    place = folder / form
    place.mkdir()
    with built(path, form) as model:
        ov.save_model(model, place / "openvino_model.xml", compress_to_fp16=False)
        del model
    config = {"model_type": "llama", "eos_token_id": 1, "max_position_embeddings": 8192}
    (place / "config.json").write_text(json.dumps(config))
    scheduler = genai.SchedulerConfig()
    scheduler.cache_size = 1
    scheduler.enable_prefix_caching = False
    # Threads are not pinned, as llama.cpp's are not.
    properties = {**_SERVED, "ENABLE_CPU_PINNING": False, "INFERENCE_NUM_THREADS": threads}
    pipeline = genai.ContinuousBatchingPipeline(str(place), scheduler, "CPU", properties)
    return lambda *numbers: _genai_run(pipeline, *numbers)


def _genai_run(pipeline: Any, sequences: int, prompt: int, new: int) -> tuple[float, float]:
    config = genai.GenerationConfig()
    config.max_new_tokens = new + 1
    config.ignore_eos = True
    ids = np.arange(100, 100 + prompt, dtype=np.int64)[np.newaxis]
    start = time.perf_counter()
    handles = [
        pipeline.add_request(number, ov.Tensor(ids + number), config) for number in range(sequences)
    ]
    read = 0.0
    while pipeline.has_non_finished_requests():
        pipeline.step()
        if not read and all(handle.can_read() for handle in handles):
            read = time.perf_counter()
    return read - start, time.perf_counter() - read


def products(rows: int = 2048, columns: int = 2048) -> None:
    """Print the least milliseconds of one product with 1, 8, 32 and 256 rows of inputs."""
    random = np.random.default_rng(0)
    counts = (1, 8, 32, 256)
    print("| codes | group | zero point | inputs rounded in groups of | 1 | 8 | 32 | 256 |")
    print("|---|---|---|---|---|---|---|---|")
    for kind, group, zero in (
        ("u8", 32, "u8"),
        ("i8", 32, ""),
        ("i4", 32, ""),
        ("u4", 32, "f32"),
        ("i8", 16, ""),
    ):
        for rounded in ("32", "16", "0"):
            tensor = ov.Tensor(getattr(ov.Type, kind), ov.Shape([rows, columns // group, group]))
            data = tensor.data.view(np.uint8).reshape(-1)
            data[:] = random.integers(0, 256, data.size, dtype=np.uint8)
            node = op.convert(op.constant(tensor), "f32")
            shape = (rows, columns // group, 1)
            if zero == "u8":
                whole = random.integers(0, 15, shape).astype(np.uint8)
                node = op.subtract(node, op.convert(op.constant(whole), "f32"))
            elif zero:
                node = op.subtract(node, op.constant(random.random(shape).astype(np.float32)))
            node = op.multiply(node, op.constant(random.random(shape).astype(np.float32) / 100))
            node = op.reshape(node, op.constant(np.array([rows, columns])), False)
            x = op.parameter([-1, columns], np.float32)
            request = (
                ov.Core()
                .compile_model(
                    ov.Model([op.matmul(x, node, False, True)], [x]),
                    "CPU",
                    {
                        "INFERENCE_PRECISION_HINT": "f32",
                        "DYNAMIC_QUANTIZATION_GROUP_SIZE": rounded,
                    },
                )
                .create_infer_request()
            )
            cells = []
            for count in counts:
                inputs = random.standard_normal((count, columns)).astype(np.float32)
                least = math.inf
                for _ in range(12):
                    start = time.perf_counter()
                    request.infer({0: inputs})
                    least = min(least, time.perf_counter() - start)
                cells.append(f"{least * 1e3:.2f}")
            shown = "none" if rounded == "0" else rounded
            print(f"| {kind} | {group} | {zero or 'none'} | {shown} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["exactness", "served", "conversion", "speed", "products"])
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--peer", action="store_true", help="llama.cpp too")
    parser.add_argument("--text", type=Path, default=_TEXT, help="default docs/serving.md")
    parser.add_argument("--flags", default="", help="of graphrt serve, for served")
    parser.add_argument("--forms", default="scaled,split")
    parser.add_argument("--streams", default="1,8,32")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="for speed")
    parser.add_argument("--seconds", type=float, default=120, help="of readings for each file")
    arguments = parser.parse_args()
    if arguments.what == "products":
        products()
    elif not arguments.files:
        parser.error("give a GGUF file")
    elif arguments.what == "exactness":
        exactness(arguments.files[0], arguments.text, with_peer=arguments.peer)
    elif arguments.what == "served":
        served(arguments.files[0], arguments.text, shlex.split(arguments.flags))
    elif arguments.what == "conversion":
        for each in arguments.forms.split(","):
            conversion(arguments.files[0], each)
    else:
        speed(
            arguments.files,
            [OffsetForm(each) for each in arguments.forms.split(",")],
            [int(each) for each in arguments.streams.split(",")],
            arguments.seconds,
            arguments.threads,
            with_peer=arguments.peer,
        )


if __name__ == "__main__":
    main()
