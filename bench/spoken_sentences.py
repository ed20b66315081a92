"""Sentences spoken by espeak-ng, and the word error rate of their transcripts.

The speech is the same on every machine with the same version of espeak-ng, and needs no recordings.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from collections.abc import Sequence
from typing import Final

import numpy as np
import soundfile

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
