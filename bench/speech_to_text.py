"""Speech to text through graphrt's server beside faster-whisper and transformers.

    python -m bench.speech_to_text --optimum-cli PATH [--faster-whisper PYTHON]
        [--transformers PYTHON] [--files N] [--repetitions N]
        [--write FILE]

All have the weights of Whisper tiny.en (`bench.downloads`) in 32 bits and in 8, decode greedily
and hear the same files. PYTHON are interpreters of other
environments, with ``faster_whisper`` and with ``transformers`` and ``torch``. Every
engine runs alone, in turns; the best of the repetitions counts, as the machine may be busy.

For transcripts and their word error rate, sentences are spoken by espeak-ng: the speech is the
same on every machine with the same version of espeak-ng, and needs no recordings.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import soundfile

from bench.downloads import ctranslate2_path, get_whisper, get_whisper_int8, transformers_path
from bench.machine import (
    JsonClient,
    ServerProcess,
    describe_machine,
    family_seconds,
    head,
    publish,
    report_parser,
    row,
)
from calculators.speech.audio.reading import read_sound

_PEER: Final = Path(__file__).with_name("other_python.py")
#: Sentences of a file, so that files are shorter than Whisper's window of 30 s.
_PER_FILE: Final = 4
_AT_ONCE: Final = 4
_BOUNDARY: Final = "speech-boundary"
_REPETITIONS: Final = 3
#: Plain sentences without names and numbers, which every model spells in the same way.
SENTENCES: Final = (
    "The weather was fine this morning, so we walked along the river to the old bridge.",
    "Please close the window before you leave the room, because it will rain in the afternoon.",
    "She opened the book, read the first page aloud, and then put it back on the shelf.",
    "A small boat came around the island while the sun was going down behind the mountains.",
    "My brother works in a hospital, and he often comes home late in the evening.",
    "The children played in the garden until their mother called them for dinner.",
    "We need more time to finish the work, but the most difficult part is already done.",
    "The train stopped between two stations, and nobody told us what had happened.",
    "He bought bread, milk and some apples, and forgot the coffee again.",
    "The teacher asked a question that nobody in the class could answer.",
    "In winter the lake freezes, and people walk across it to the other side.",
    "They built the house with their own hands, and it took them three years.",
    "The letter arrived too late, because somebody had written the wrong address on it.",
    "You can leave the car in front of the house, there is enough space for two.",
    "The doctor said that I should sleep more and drink less coffee.",
    "An old man sat on the bench and fed the birds with dry bread.",
)
_VOICE: Final = ("-v", "en-us", "-s", "150")


def can_speak() -> bool:
    """Return whether espeak-ng is installed."""
    return shutil.which("espeak-ng") is not None


def spoken(text: str) -> bytes:
    """Return a text as a WAV of 22,050 Hz.

    Raises:
        subprocess.CalledProcessError: espeak-ng fails.
    """
    command = ["espeak-ng", *_VOICE, "--stdout", text]
    return subprocess.run(command, check=True, capture_output=True).stdout


def joined(files: Sequence[bytes], pause: float = 0.6) -> bytes:
    """Return WAVs of one rate one after the other, with pauses in seconds."""
    parts: list[np.ndarray] = []
    rate = 0
    for file in files:
        samples, rate = soundfile.read(io.BytesIO(file), dtype="float32")
        parts += [samples, np.zeros(round(pause * rate), np.float32)]
    output = io.BytesIO()
    soundfile.write(output, np.concatenate(parts), rate, format="WAV", subtype="PCM_16")
    return output.getvalue()


def seconds_of(wav: bytes) -> float:
    """Return the duration of a WAV."""
    return float(soundfile.info(io.BytesIO(wav)).duration)


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without marks."""
    return re.findall(r"[a-z']+", text.lower())


def word_errors(said: str, heard: str) -> tuple[int, int]:
    """Return the fewest substitutions, deletions and insertions, and the number of words said."""
    wanted, found = words_of(said), words_of(heard)
    row = list(range(len(found) + 1))
    for place, word in enumerate(wanted, 1):
        before, row[0] = row[0], place
        for column, other in enumerate(found, 1):
            before, row[column] = (
                row[column],
                min(row[column] + 1, row[column - 1] + 1, before + (word != other)),
            )
    return row[-1], len(wanted)


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
    parser = report_parser(__doc__)
    parser.add_argument("--optimum-cli", type=Path, required=True, metavar="PATH")
    parser.add_argument("--faster-whisper", metavar="PYTHON")
    parser.add_argument("--transformers", metavar="PYTHON")
    parser.add_argument("--files", type=int, default=_AT_ONCE, metavar="N", help="a shorter run")
    parser.add_argument("--repetitions", type=int, default=_REPETITIONS, metavar="N")
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
        used = family_seconds(server.pids["server"])
        for file in files:
            began = time.perf_counter()
            texts.append(transcribe(file))
            alone.append(time.perf_counter() - began)
        used = family_seconds(server.pids["server"]) - used
        began = time.perf_counter()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(transcribe, files))
        return Result(texts, alone, used, time.perf_counter() - began)


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
    kind = f"multipart/form-data; boundary={_BOUNDARY}"
    with JsonClient(address) as client:
        return client.send("/v3/audio/transcriptions", body, kind)


def peer(
    python: str, name: str, model: Path, threads: int, workers: int, kind: str, files: list[Path]
) -> Result:
    """Transcribe files in another environment."""
    words = map(str, (_PEER, "speech", name, model, threads, workers, kind, *files))
    done = subprocess.run([python, *words], check=True, capture_output=True, text=True)
    return Result(**json.loads(done.stdout))


def report(runs: dict[str, list[Result]], said: list[str], durations: list[float]) -> str:
    """Return a table: real-time factors (work for a second of sound) and word errors."""
    total = sum(durations)
    at_once = min(_AT_ONCE, len(durations))
    columns = ("engine", "one file", "processor time", f"{at_once} files at once")
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
        *head(*columns, "word error rate"),
    ]
    for name, results in runs.items():
        alone = min(sum(each.alone) for each in results) / total
        together = min(each.together for each in results) / total
        errors = [word_errors(*pair) for pair in zip(said, results[0].texts, strict=True)]
        rate = sum(wrong for wrong, _ in errors) / sum(words for _, words in errors)
        all_files = f"{together:.4f}" if together else "-"
        processor = min(each.processor for each in results) / total
        lines.append(row(name, f"{alone:.4f}", f"{processor:.4f}", all_files, f"{100 * rate:.2f}%"))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
