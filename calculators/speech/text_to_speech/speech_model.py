"""`VoiceModel`: from text to sound, in a process of its own."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any, Final

import numpy as np
import openvino as ov
import openvino_genai as genai

from calculators.kit.child_process.answering_process import Report
from calculators.kit.child_process.library_errors import library_reason
from calculators.kit.child_process.messages import LoadingPhase
from calculators.speech.text_to_speech.messages import Speak, Spoken, VoiceLoad, VoiceRefused

_log: Final = logging.getLogger("graphrt.child")


class VoiceError(Exception):
    """A voice cannot be used; the text names it."""


class VoiceModel:
    """A pipeline of OpenVINO GenAI and the voices of its node. One thread owns it."""

    def __init__(self, load: VoiceLoad, report: Report) -> None:
        """Read and compile; ``report`` gets the phases.

        Raises:
            RuntimeError: the library's.
            VoiceError: a voice is not of the model's form.
        """
        self._load = load
        report(LoadingPhase("compiling the model", 0.3, 0.9))
        self._pipeline: Any = self._make_pipeline()
        report(LoadingPhase("reading voices", 0.9, 1.0))
        shape = [int(each) for each in self._pipeline.get_speaker_embedding_shape()]
        # A tensor refers to the memory of its array: both must live as long as the model.
        self._arrays = {name: _read(name, file, shape) for name, file in load.voices.items()}
        self._voices = {name: ov.Tensor(array) for name, array in self._arrays.items()}

    def speak(self, question: Speak) -> Spoken | VoiceRefused:
        """Answer a question."""
        if self._pipeline is None:
            self._pipeline = self._make_pipeline()
        options: dict[str, Any] = {"speed": question.speed}
        if question.language:
            options["language"] = question.language
        try:
            result = self._pipeline.generate(
                question.text, self._voices.get(question.voice), **options
            )
            # The library's next call writes over this tensor.
            samples = np.array(result.speeches[0].data, np.float32, copy=True).reshape(-1)
        except RuntimeError as error:
            if self._load.keeps_state:
                self._pipeline = None
            _log.warning("the model cannot speak a text: %s", library_reason(error))
            return VoiceRefused("the model cannot speak a part of the input")
        return Spoken(samples.tobytes(), int(result.output_sample_rate))

    def _make_pipeline(self) -> Any:
        return genai.Text2SpeechPipeline(
            self._load.model_path, self._load.device, **self._load.properties
        )


def _read(name: str, file: str, shape: list[int]) -> Any:
    """Read the voice of that name: floats of the model's shape."""
    values = np.fromfile(file, np.float32)
    wanted = math.prod(shape)
    if len(values) != wanted:
        raise VoiceError(
            f'voice "{name}": {Path(file).name}: File must contain speaker embedding with '
            f"{wanted} 32-bit floats. Got: {len(values)}"
        )
    if not np.isfinite(values).all():
        raise VoiceError(f'voice "{name}": {Path(file).name} has values that are not numbers')
    return np.ascontiguousarray(values.reshape(shape))
