"""`SpeechToTextCalculator`: from sound to text inside a graph."""

from __future__ import annotations

from typing import Any

from calculators.kit.tasks.node_resource import node_resource
from calculators.speech.audio.sound import Sound
from calculators.speech.audio.speech_recognizer import SpeechSettings
from calculators.speech.speech_to_text.placed_speech import AnySpeechToText
from calculators.speech.speech_to_text.spoken_text import SpokenText
from graph_runtime import Calculator, CalculatorContext, In, Out, SideIn


class SpeechToTextCalculator(Calculator):
    """Turns each sound into text with a speech model.

    Inputs: SOUND (`Sound`): of any sample rate.
    Outputs:
        PIECES (str), optional: text as it comes; the first piece at the sound's timestamp or
            later, each at least one microsecond after the one before.
        TEXT (str), optional: the whole text at the sound's timestamp, without blanks around it.
    Side packets:
        STT_NODE_RESOURCES: supplied by the server.
        LANGUAGE (str), optional: "en", "english"; by default the model finds out.
    Options (mediapipe.S2tCalculatorOptions): those of `S2tCalculator`.

    ::

        node {
          name: "Listener"
          calculator: "SpeechToTextCalculator"
          input_stream: "SOUND:sound"
          input_side_packet: "STT_NODE_RESOURCES:s2t_servable"
          output_stream: "PIECES:pieces"
          output_stream: "TEXT:text"
          node_options {
            [type.googleapis.com/mediapipe.S2tCalculatorOptions] { models_path: "./" }
          }
        }
    """

    sound = In[Sound]("SOUND")
    pieces = Out[str]("PIECES", optional=True)
    text = Out[str]("TEXT", optional=True)
    resources = SideIn[dict[str, Any]]("STT_NODE_RESOURCES")
    language = SideIn[str]("LANGUAGE", optional=True)
    timestamp_offset = None

    def open(self, cc: CalculatorContext) -> None:
        self._servable: AnySpeechToText = node_resource(cc, self.resources, "STT")
        self._settings = SpeechSettings(language=cc.side(self.language, ""))
        self._spoken: SpokenText | None = None
        self._next_time = 0

    async def process(self, cc: CalculatorContext) -> None:
        time = cc.time
        self._spoken = spoken = self._servable.recognize(cc.take(self.sound), self._settings)
        self._next_time = max(self._next_time, time)
        async for piece in spoken.pieces():
            if cc.is_connected(self.pieces):
                cc.emit(self.pieces, piece, at=self._next_time)
                cc.flush()
                self._next_time += 1
        cc.emit(self.text, (await spoken.transcript()).text.strip(), at=time)

    def close(self, cc: CalculatorContext) -> None:
        if self._spoken is not None:
            self._spoken.cancel()
