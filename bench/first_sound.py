"""First sound of the voice graph, beside the times of the parts that it has to wait for.

    python -m bench.first_sound [--requests N] [--write FILE]

`examples/graphs/voice_assistant` with the example model, a listener that always hears the same
question and a speaker of tones (those of the tests: they take no time that matters, so what is
measured is the graph). The same question is asked of the language model alone, as a stream: the
first sentence cannot be spoken before the model has written it. Then the graph gets a recording,
and the time to the first bytes of sound is taken, and to the last.
"""

from __future__ import annotations

import argparse
import http.client
import json
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

from bench.machine import WrittenReport, describe_machine
from bench.server_process import ServerProcess
from calculators.speech.text_to_speech.sentences import SentenceSplitter
from tests.examples.voice_graph import HEARD, MODELS, put_graph, recording, system_message

_PATIENCE: Final = 600


def text_times(address: str, model: str) -> tuple[float, float, float]:
    """Return the seconds to the first text, to the end of the first sentence, and to the last."""
    messages = [
        {"role": "system", "content": system_message()},
        {"role": "user", "content": HEARD},
    ]
    body = json.dumps({"model": model, "messages": messages, "stream": True})
    connection = http.client.HTTPConnection(address, timeout=_PATIENCE)
    connection.connect()
    begun = perf_counter()
    fields = {"Content-Type": "application/json"}
    connection.request("POST", "/v3/chat/completions", body, fields)
    answer = connection.getresponse()
    splitter = SentenceSplitter()
    first = sentence = 0.0
    for line in answer:
        text = line.removeprefix(b"data: ")
        if text == line or text.startswith(b"[DONE]"):
            continue
        choices = json.loads(text)["choices"]
        content = choices[0]["delta"].get("content") if choices else None
        if content:
            first = first or perf_counter() - begun
            if any(splitter.add(content)):
                sentence = sentence or perf_counter() - begun
    ended = perf_counter() - begun
    connection.close()
    return first, sentence or ended, ended


def sound_times(address: str, model: str) -> tuple[float, float]:
    """Return the seconds to the first sound, and to the last."""
    mark = uuid.uuid4().hex
    form = b"".join(
        (
            f'--{mark}\r\nContent-Disposition: form-data; name="model"\r\n\r\n{model}\r\n'.encode(),
            f'--{mark}\r\nContent-Disposition: form-data; name="file"; '
            f'filename="a.wav"\r\n\r\n'.encode(),
            recording(),
            f"\r\n--{mark}--\r\n".encode(),
        )
    )
    connection = http.client.HTTPConnection(address, timeout=_PATIENCE)
    connection.connect()
    begun = perf_counter()
    fields = {"Content-Type": f"multipart/form-data; boundary={mark}"}
    connection.request("POST", "/v3/voice", form, fields)
    answer = connection.getresponse()
    if answer.status != 200:
        raise RuntimeError(f"{answer.status}: {answer.read()[:200]!r}")
    answer.read(1)
    first = perf_counter() - begun
    answer.read()
    ended = perf_counter() - begun
    connection.close()
    return first, ended


def report(requests: int, write: Callable[[str], object]) -> None:
    """Measure in turns, and write the table."""
    write("# First sound of the voice graph\n")
    write(f"`python -m bench.first_sound` on {describe_machine()}.")
    write(f"Milliseconds, medians of {requests} requests in turns; the question has ten words.\n")
    with tempfile.TemporaryDirectory() as folder:
        place = put_graph(Path(folder))
        words = ("--calculators", str(place / "assistant.py"))
        with (
            ServerProcess(place, *words) as voice,
            ServerProcess(MODELS / "demo") as alone,
        ):
            for _ in range(2):
                text_times(alone.address, alone.model)
                sound_times(voice.address, voice.model)
            texts, sounds = [], []
            for _ in range(requests):
                texts.append(text_times(alone.address, alone.model))
                sounds.append(sound_times(voice.address, voice.model))
    first, sentence, said = (median(each) * 1e3 for each in zip(*texts, strict=True))
    heard, ended = (median(each) * 1e3 for each in zip(*sounds, strict=True))
    write("| the language model alone: first text | first sentence | whole answer |")
    write("|---|---|---|")
    write(f"| {first:.1f} | {sentence:.1f} | {said:.1f} |\n")
    write(
        "| the graph, from a recording: first sound | more than the first sentence | last sound |"
    )
    write("|---|---|---|")
    write(f"| {heard:.1f} | {heard - sentence:.1f} | {ended:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=20)
    parser.add_argument("--write", type=Path, help="also write the tables to this file")
    words = parser.parse_args()
    write = WrittenReport()
    report(words.requests, write)
    write.keep(words.write)


if __name__ == "__main__":
    main()
