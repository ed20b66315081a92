"""The joints of the voice assistant: small calculators between the models.

Each model is asked as its endpoint is, so that the nodes in between only write requests and read
answers.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from calculators.kit.requests.http_answer import HttpAnswer
from calculators.kit.requests.http_payload import HttpPayload, RequestError
from calculators.speech.audio.sound import Sound
from calculators.speech.audio.writing import FORMATS, SoundWriter
from graphrt import Calculator, CalculatorContext, In, Out, calculator

#: The system message. A voice cannot show lists, and a listener cannot skim.
MANNER = "You answer aloud: in a few short sentences, without lists and without markup."

#: The last event of a stream.
DONE = "data: [DONE]\n\n"


@calculator("voice.Listen")
class Listen(Calculator):
    """Turns a request with a recording into one for the node that writes speech down."""

    request = In[HttpPayload]("REQUEST")
    transcription = Out[HttpPayload]("TRANSCRIPTION")

    def process(self, cc: CalculatorContext) -> None:
        payload = cc.get(self.request)
        if payload.form is None:
            raise RequestError("send a form with model, and a recording as file", param="file")
        cc.emit(self.transcription, replace(payload, uri="/v3/audio/transcriptions"))


@calculator("voice.Ask")
class Ask(Calculator):
    """Asks the language model what the recording asks."""

    request = In[HttpPayload]("REQUEST")
    heard = In[Any]("HEARD")
    chat = Out[HttpPayload]("CHAT")

    def process(self, cc: CalculatorContext) -> None:
        heard = cc.get(self.heard)
        text = json.loads(heard.body if isinstance(heard, HttpAnswer) else heard)["text"].strip()
        if not text:
            raise RequestError("no words are in the recording", param="file")
        body = {
            "model": "assistant",
            "messages": [
                {"role": "system", "content": MANNER},
                {"role": "user", "content": text},
            ],
            "stream": True,
        }
        # The client comes along, so that the model stops when it leaves.
        payload = cc.get(self.request)
        chat = replace(payload, uri="/v3/chat/completions", form=None, parsed_json=body)
        cc.emit(self.chat, chat)


@calculator("voice.ReadAnswer")
class ReadAnswer(Calculator):
    """Takes the text out of the events of a streamed chat."""

    events = In[str]("EVENTS")
    text = Out[str]("TEXT")
    timestamp_offset = None  # not every event has text

    def process(self, cc: CalculatorContext) -> None:
        events = cc.get(self.events)
        if text := "".join(texts_of(events)):
            cc.emit(self.text, text)
        if events.endswith(DONE):
            # The language model's node is a loop, whose streams stay open until the graph ends.
            # Without an end here, the last sentence would wait for more.
            cc.close(self.text)


def texts_of(events: str) -> Iterator[str]:
    """Yield the text of each event of a streamed chat."""
    for event in events.split("\n\n"):
        data = event.removeprefix("data: ")
        if not data or data == "[DONE]":
            continue
        for choice in json.loads(data).get("choices", ()):
            yield choice["delta"].get("content") or ""


@calculator("voice.Play")
class Play(Calculator):
    """Sends the sound of each sentence to the client as soon as it comes."""

    sound = In[Sound]("SOUND")
    response = Out[HttpAnswer | bytes]("RESPONSE")
    timestamp_offset = None

    def open(self, cc: CalculatorContext) -> None:
        self.writer: SoundWriter | None = None
        self.time = 0

    def process(self, cc: CalculatorContext) -> None:
        sound = cc.get(self.sound)
        self.time = cc.time + 1
        if self.writer is None:
            self.writer = FORMATS["wav"].writer(sound.sample_rate)
            part = self.writer.write(sound.samples)
            cc.emit(self.response, HttpAnswer(part, "audio/wav", has_more=True))
        else:
            cc.emit(self.response, self.writer.write(sound.samples))

    def close(self, cc: CalculatorContext) -> None:
        if self.writer is not None and (rest := self.writer.finish()):
            cc.emit(self.response, rest, at=self.time)
