"""`TextToSpeechCalculator`: texts that arrive in pieces become sound, sentence by sentence."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import aclosing
from typing import Any

from calculators.kit.tasks.node_resource import node_resource
from calculators.speech.audio.sound import Sound
from calculators.speech.text_to_speech.sentences import SentenceSplitter
from calculators.speech.text_to_speech.servable import T2sServable
from graph_runtime import Calculator, CalculatorContext, In, Out, SideIn


class TextToSpeechCalculator(Calculator):
    """Speaks the text that its input packets make together, as in a stream of a language model.

    A sentence becomes one packet of sound, or several if it is long, as soon as the text shows that
    it has ended; empty lines end sentences too, and the end of the stream ends the last one. Behind
    a loop, such as that of a language model, a node must therefore close the stream when the text
    is complete. Packets have the timestamp of the piece that ended the sentence, or the next one.

    ::

        node {
          name: "Speak"
          calculator: "TextToSpeechCalculator"
          input_side_packet: "TTS_NODE_RESOURCES:t2s_servable"
          input_stream: "TEXT:pieces"
          output_stream: "SOUND:sounds"
          node_options {
            [type.googleapis.com/mediapipe.T2sCalculatorOptions] { models_path: "./" }
          }
        }

    The side packets ``VOICE``, ``LANGUAGE`` and ``SPEED`` are what the members of a request are
    for `T2sCalculator`.
    """

    text = In[str]("TEXT")
    sound = Out[Sound]("SOUND")
    resources = SideIn[dict[str, Any]]("TTS_NODE_RESOURCES")
    voice = SideIn[str]("VOICE", optional=True)
    language = SideIn[str]("LANGUAGE", optional=True)
    speed = SideIn[float]("SPEED", optional=True)
    timestamp_offset = None

    def open(self, cc: CalculatorContext) -> None:
        self._servable: T2sServable = node_resource(cc, self.resources, "T2S")
        self._style = self._servable.style(
            cc.side(self.voice, ""), cc.side(self.language, ""), cc.side(self.speed, 1.0)
        )
        self._splitter = SentenceSplitter()
        self._next_time = 0

    async def process(self, cc: CalculatorContext) -> None:
        self._next_time = max(self._next_time, cc.time)
        await self._speak(cc, self._splitter.add(cc.get(self.text)))

    async def close(self, cc: CalculatorContext) -> None:
        if cc.graph_status is None:
            await self._speak(cc, self._splitter.finish())

    async def _speak(self, cc: CalculatorContext, sentences: Iterable[str]) -> None:
        async with aclosing(self._servable.speak(sentences, self._style)) as sounds:
            async for sound in sounds:
                cc.emit(self.sound, sound, at=self._next_time)
                self._next_time += 1
                cc.flush()
