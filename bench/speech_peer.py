"""faster-whisper or transformers over files of sound, in an environment of their own.

    PYTHON bench/speech_peer.py faster-whisper|transformers MODEL THREADS WORKERS KIND FILE...

Prints one JSON object: the texts, the seconds of each file alone, the processor seconds of these,
and the seconds of all files with WORKERS at once. KIND is CTranslate2's type of the weights.
Imports nothing of this repository.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import wave
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def faster_whisper(model: str, threads: int, workers: int, kind: str) -> Callable[[str], str]:
    library: Any = importlib.import_module("faster_whisper")
    whisper = library.WhisperModel(
        model, device="cpu", compute_type=kind, cpu_threads=threads, num_workers=workers
    )

    def transcribe(file: str) -> str:
        segments, _ = whisper.transcribe(
            file,
            language="en",
            beam_size=1,
            temperature=0.0,
            condition_on_previous_text=False,
            without_timestamps=True,
        )
        return "".join(each.text for each in segments)

    return transcribe


def transformers(model: str, threads: int, workers: int, kind: str) -> Callable[[str], str]:
    library: Any = importlib.import_module("transformers")
    torch: Any = importlib.import_module("torch")
    numpy: Any = importlib.import_module("numpy")
    torch.set_num_threads(threads)
    processor = library.WhisperProcessor.from_pretrained(model)
    whisper = library.WhisperForConditionalGeneration.from_pretrained(model).eval()

    def transcribe(file: str) -> str:
        with wave.open(file) as reader:
            rate, content = reader.getframerate(), reader.readframes(reader.getnframes())
        samples = numpy.frombuffer(content, "<i2").astype(numpy.float32) / 32768
        features = processor(samples, sampling_rate=rate, return_tensors="pt").input_features
        with torch.no_grad():
            ids = whisper.generate(features, num_beams=1, do_sample=False)
        return str(processor.batch_decode(ids, skip_special_tokens=True)[0])

    return transcribe


def main() -> None:
    name, model, threads, workers, kind, *files = sys.argv[1:]
    make = {"faster-whisper": faster_whisper, "transformers": transformers}[name]
    transcribe = make(model, int(threads), int(workers), kind)
    transcribe(files[0])
    alone, texts = [], []
    cpu = time.process_time()
    for file in files:
        began = time.perf_counter()
        texts.append(transcribe(file))
        alone.append(time.perf_counter() - began)
    processor = time.process_time() - cpu
    together = 0.0
    if int(workers) > 1:
        began = time.perf_counter()
        with ThreadPoolExecutor(int(workers)) as pool:
            list(pool.map(transcribe, files))
        together = time.perf_counter() - began
    result = {"texts": texts, "alone": alone, "processor": processor, "together": together}
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
