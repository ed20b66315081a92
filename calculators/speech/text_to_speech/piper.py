"""`PiperVoice`: a voice of Piper, which is a VITS model as an ONNX file, and its phonemes.

A voice is two files, ``NAME.onnx`` and ``NAME.onnx.json``. The second one has the numbers of the
phonemes, and says by which language of espeak-ng a text becomes phonemes. That library is loaded
into the model's process only: out of the folder ``espeak-ng`` beside the voice, out of the package
espeakng-loader, or the system's.
"""

from __future__ import annotations

import ctypes
import logging
import os
import unicodedata
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from calculators.kit.child_process.answering_process import Report
from calculators.kit.child_process.library_errors import library_reason
from calculators.kit.child_process.messages import LoadingPhase
from calculators.speech.text_to_speech.messages import (
    BEGIN,
    END,
    PAD,
    PiperSettings,
    Speak,
    Spoken,
    VoiceLoad,
    VoiceRefused,
)
from graphrt_base.errors import ResourceError

_log: Final = logging.getLogger("graphrt.child")

#: Spoken once, for nobody.
_FIRST_WORDS: Final = "One, two, three, four, five."
#: Beside the voice: the library and its folder `_DATA`.
ESPEAK: Final = "espeak-ng"
_DATA: Final = "espeak-ng-data"
_LIBRARIES: Final = ("libespeak-ng.so.1", "libespeak-ng.so", "libespeak-ng.dylib")
_PACKAGE: Final = "espeakng_loader"
#: espeak-ng's constants: sound is not played, errors are returned, texts are UTF-8, phonemes IPA.
_SYNCHRONOUS: Final = 2
_DOES_NOT_EXIT: Final = 0x8000
_UTF8: Final = 1
_IPA: Final = 2
#: Marks that voices know as phonemes; a clause ends after them.
_MARKS: Final = ".,:;!?"


class PiperVoice:
    """A compiled voice. One thread owns it."""

    def __init__(self, load: VoiceLoad, settings: PiperSettings, report: Report) -> None:
        """Read and compile the model; ``report`` gets the phases.

        Raises:
            ResourceError: espeak-ng is missing, or has no such language.
            RuntimeError: OpenVINO's.
        """
        self._settings = settings
        self._phonemizer = None
        if settings.language:
            self._phonemizer = Espeak(settings.language, Path(settings.model).parent)
        report(LoadingPhase("compiling the model", 0.2, 0.9))
        compiled = ov.Core().compile_model(settings.model, load.device, load.properties)
        self._request = compiled.create_infer_request()
        report(LoadingPhase("trying the voice", 0.9, 1.0))
        # OpenVINO makes kernels at the first call, which would take seconds of a client's time.
        self._sound(_FIRST_WORDS, "", 1.0)

    def speak(self, question: Speak) -> Spoken | VoiceRefused:
        """Answer a question."""
        try:
            sound = self._sound(question.text, question.voice, question.speed)
        except RuntimeError as error:
            _log.warning("the voice cannot speak a text: %s", library_reason(error))
            return VoiceRefused("the model cannot speak a part of the input")
        return Spoken(sound.tobytes(), self._settings.rate)

    def _sound(self, text: str, speaker: str, speed: float) -> NDArray[np.float32]:
        """Return the sound of a text, shape [N]; empty if nothing in it is spoken."""
        phonemes = text.lower() if self._phonemizer is None else self._phonemizer.phonemes(text)
        numbers = self._numbers(phonemes)
        if not numbers:
            return np.zeros(0, np.float32)
        noise, length, noise_of_lengths = self._settings.scales
        inputs: dict[str, Any] = {
            "input": np.array([numbers], np.int64),
            "input_lengths": np.array([len(numbers)], np.int64),
            "scales": np.array([noise, length / speed, noise_of_lengths], np.float32),
        }
        if self._settings.has_speakers:
            inputs["sid"] = np.array([self._settings.speakers.get(speaker, 0)], np.int64)
        # The next call writes over this tensor.
        sound = np.array(self._request.infer(inputs)[0], np.float32).reshape(-1)
        return np.clip(sound, -1.0, 1.0, out=sound)

    def _numbers(self, phonemes: str) -> list[int]:
        ids = self._settings.ids
        # Voices know letters and their marks apart.
        known = [ids[each] for each in unicodedata.normalize("NFD", phonemes) if each in ids]
        if not known:
            return []
        pad = ids[PAD]
        between = [number for each in known for number in (*each, *pad)]
        return [*ids[BEGIN], *pad, *between, *ids[END]]


class Espeak:
    """espeak-ng in one language. The library has one state for all of a process."""

    def __init__(self, language: str, beside: Path) -> None:
        """Load the library: out of ``beside / ESPEAK``, a package, or the system's.

        Raises:
            ResourceError: there is none, or it does not know the language.
        """
        library, data = _library(beside)
        self._convert = library.espeak_TextToPhonemes
        self._convert.restype = ctypes.c_char_p
        self._convert.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, ctypes.c_int]
        path = None if data is None else os.fsencode(data)
        if library.espeak_Initialize(_SYNCHRONOUS, 0, path, _DOES_NOT_EXIT) <= 0:
            raise ResourceError("espeak-ng does not find its data")
        if library.espeak_SetVoiceByName(language.encode()) != 0:
            raise ResourceError(f'espeak-ng does not know the language "{language}"')

    def phonemes(self, sentence: str) -> str:
        """Return the phonemes of one sentence with its marks."""
        made = []
        for clause, phonemes in self._clauses(sentence):
            if phonemes:
                made.append(phonemes + _mark_of(clause, is_last=False))
        if not made:
            return ""
        end = _mark_of(sentence, is_last=True)
        return " ".join(made).rstrip(_MARKS + " ") + (end or ".")

    def _clauses(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield each clause, with the mark after it, and its phonemes."""
        data = text.encode()
        buffer = ctypes.create_string_buffer(data)
        begin = ctypes.addressof(buffer)
        place = ctypes.c_void_p(begin)
        done = 0
        while done < len(data):
            phonemes = self._convert(ctypes.byref(place), _UTF8, _IPA)
            read = (place.value or begin + len(data)) - begin
            yield data[done:read].decode(errors="replace"), (phonemes or b"").decode()
            done = read


def _mark_of(clause: str, *, is_last: bool) -> str:
    """Return the mark that ends a clause, or "".

    The library reads up to one letter more. A full stop inside of a sentence is an abbreviation's.
    """
    for letter in reversed(clause.rstrip() if is_last else clause[-6:]):
        if letter in _MARKS:
            return letter if is_last or letter != "." else ""
        if is_last and letter.isalnum():
            return ""
    return ""


def _library(beside: Path) -> tuple[Any, Path | None]:
    """Return the library, and the directory of its data; None: the library knows it."""
    spec = find_spec(_PACKAGE)
    packages = () if spec is None else spec.submodule_search_locations or ()
    for folder in (beside / ESPEAK, *map(Path, packages)):
        for name in _LIBRARIES:
            if (folder / name).is_file():
                return ctypes.CDLL(str(folder / name)), folder / _DATA
    for name in _LIBRARIES:
        try:
            return ctypes.CDLL(name), None
        except OSError:
            continue
    raise ResourceError(
        "a Piper voice needs espeak-ng for its phonemes, and there is none: "
        "pip install espeakng-loader, or apt-get install libespeak-ng1"
    )
