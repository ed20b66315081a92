"""Speech to text through graphrt's server beside faster-whisper and transformers.

    python -m bench.speech_to_text --optimum-cli PATH [--faster-whisper PYTHON]
        [--transformers PYTHON] [--files N] [--repetitions N]
        [--write FILE]

All have the weights of Whisper tiny.en (`bench.whisper_tiny`) in 32 bits and in 8, decode greedily
and hear the same files of espeak-ng (`bench.whisper_tiny`). PYTHON are interpreters of other
environments, with ``faster_whisper`` and with ``transformers`` and ``torch``. Every
engine runs alone, in turns; the best of the repetitions counts, as the machine may be busy.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

import soundfile

from bench.machine import ServerProcess, add_write, children, cpu_seconds, describe_machine, publish
from bench.whisper_tiny import (
    SENTENCES,
    ctranslate2_path,
    get_whisper,
    get_whisper_int8,
    joined,
    seconds_of,
    spoken,
    transformers_path,
    word_errors,
)
from calculators.speech.audio.reading import read_sound

_PEER: Final = Path(__file__).with_name("speech_peer.py")
#: Sentences of a file, so that files are shorter than Whisper's window of 30 s.
_PER_FILE: Final = 4
_AT_ONCE: Final = 4
_BOUNDARY: Final = "speech-boundary"
_REPETITIONS: Final = 3


@dataclass
class Result:
    """One engine's run: texts, seconds of each file alone, and of all at once (0: not run).

    ``processor``: seconds of all cores for the files one by one.
    """

    texts: list[str]
    alone: list[float]
    processor: float
    together: float


def main() -> None:
    parser = argparse.ArgumentParser(description="Speech to text beside other servers.")
    parser.add_argument("--optimum-cli", type=Path, required=True, metavar="PATH")
    parser.add_argument("--faster-whisper", metavar="PYTHON")
    parser.add_argument("--transformers", metavar="PYTHON")
    parser.add_argument("--files", type=int, default=_AT_ONCE, metavar="N", help="a shorter run")
    parser.add_argument("--repetitions", type=int, default=_REPETITIONS, metavar="N")
    add_write(parser)
    arguments = parser.parse_args()
    whisper = get_whisper(arguments.optimum_cli)
    small = get_whisper_int8(arguments.optimum_cli)
    with tempfile.TemporaryDirectory() as folder:
        files = write_files(Path(folder))[: arguments.files]
        said = [
            " ".join(SENTENCES[begin : begin + _PER_FILE])
            for begin in range(0, len(SENTENCES), _PER_FILE)
        ]
        del said[len(files) :]
        durations = [seconds_of(file.read_bytes()) for file in files]
        ways: dict[str, Callable[[], Result]] = {
            "graphrt, 32 bits": partial(graphrt, whisper, files, 1),
            "graphrt, 32 bits, two pipelines": partial(graphrt, whisper, files, 2),
            "graphrt, weights of 8 bits": partial(graphrt, small, files, 1),
            "graphrt, weights of 8 bits, two pipelines": partial(graphrt, small, files, 2),
        }
        cores = os.cpu_count() or 1
        if python := arguments.faster_whisper:
            for kind, name in (("float32", "32 bits"), ("int8", "8 bits")):
                ways[f"faster-whisper, {name}"] = partial(
                    peer, python, "faster-whisper", ctranslate2_path(), cores, _AT_ONCE, kind, files
                )
        if other := arguments.transformers:
            ways["transformers, 32 bits"] = partial(
                peer, other, "transformers", transformers_path(), cores, 1, "float32", files
            )
        runs: dict[str, list[Result]] = {name: [] for name in ways}
        for _ in range(arguments.repetitions):
            for name, run in ways.items():
                runs[name].append(run())
        text = report(runs, said, durations)
    publish(text, arguments.write)


def write_files(folder: Path) -> list[Path]:
    """Write the sentences as WAVs of 16 kHz, a few in each."""
    files = []
    for begin in range(0, len(SENTENCES), _PER_FILE):
        wav = joined([spoken(text) for text in SENTENCES[begin : begin + _PER_FILE]])
        sound = read_sound(wav, sample_rate=16_000, max_seconds=60)
        files.append(folder / f"{begin}.wav")
        soundfile.write(files[-1], sound.samples, sound.sample_rate, subtype="PCM_16")
    return files


def graphrt(model: Path, files: list[Path], pipelines: int) -> Result:
    """Transcribe files through a server."""
    streams = json.dumps({"NUM_STREAMS": str(pipelines)})
    with ServerProcess(model, "--task", "speech2text", "--plugin_config", streams) as server:

        def transcribe(file: Path) -> str:
            answer = json.loads(ask(server.address, server.model, file.read_bytes()))
            return str(answer["text"])

        transcribe(files[0])
        alone, texts = [], []
        used = processor_seconds(server.pids["server"])
        for file in files:
            began = time.perf_counter()
            texts.append(transcribe(file))
            alone.append(time.perf_counter() - began)
        used = processor_seconds(server.pids["server"]) - used
        began = time.perf_counter()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(transcribe, files))
        return Result(texts, alone, used, time.perf_counter() - began)


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process and its children so far."""
    return sum(map(cpu_seconds, (pid, *children(pid))))


def ask(address: str, model: str, wav: bytes, **fields: str) -> bytes:
    """Send a file to a server; return the body of the answer.

    Raises:
        RuntimeError: the answer is an error.
    """
    texts = {"model": model, **fields}
    body = "".join(
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n'
        for name, text in texts.items()
    ).encode()
    body += (
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n'
        "Content-Type: audio/wav\r\n\r\n"
    ).encode()
    body += wav + f"\r\n--{_BOUNDARY}--\r\n".encode()
    connection = HTTPConnection(address, timeout=600)
    headers = {"Content-Type": f"multipart/form-data; boundary={_BOUNDARY}"}
    connection.request("POST", "/v3/audio/transcriptions", body, headers)
    response = connection.getresponse()
    content = response.read()
    connection.close()
    if response.status != 200:
        raise RuntimeError(f"status {response.status}: {content!r}")
    return content


def peer(
    python: str, name: str, model: Path, threads: int, workers: int, kind: str, files: list[Path]
) -> Result:
    """Transcribe files in another environment."""
    words = [str(_PEER), name, str(model), str(threads), str(workers), kind, *map(str, files)]
    done = subprocess.run([python, *words], check=True, capture_output=True, text=True)
    return Result(**json.loads(done.stdout))


def report(runs: dict[str, list[Result]], said: list[str], durations: list[float]) -> str:
    """Return a table: real-time factors (work for a second of sound) and word errors."""
    total = sum(durations)
    at_once = min(_AT_ONCE, len(durations))
    lines = [
        "# Speech to text",
        "",
        f"`python -m bench.speech_to_text` on {describe_machine()}.",
        "",
        f"Whisper tiny.en, {len(durations)} files of {min(durations):.0f} to "
        f"{max(durations):.0f} s spoken by espeak-ng, {len(said) * _PER_FILE} sentences; greedy. "
        "A real-time factor is the time for a second of sound, less is better; processor time is "
        "that of all cores for a second of sound. "
        f"The best of {len(next(iter(runs.values())))} repetitions in turns.",
        "",
        f"| engine | one file | processor time | {at_once} files at once | word error rate |",
        "|---|---|---|---|---|",
    ]
    for name, results in runs.items():
        alone = min(sum(each.alone) for each in results) / total
        together = min(each.together for each in results) / total
        errors = [word_errors(*pair) for pair in zip(said, results[0].texts, strict=True)]
        rate = sum(wrong for wrong, _ in errors) / sum(words for _, words in errors)
        all_files = f"{together:.4f}" if together else "-"
        processor = min(each.processor for each in results) / total
        lines.append(
            f"| {name} | {alone:.4f} | {processor:.4f} | {all_files} | {100 * rate:.2f}% |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
