"""Models and graphs for the playground's tests, and a server of them."""

from __future__ import annotations

import io
import math
import struct
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from PIL import Image, ImageDraw

from tests.calculators.images.image_generation.image_models import make_model as make_image_model
from tests.calculators.speech.text_to_speech.tone_model import make_model as make_voice_model
from tests.calculators.speech.text_to_speech.tone_model import make_voice
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT

_MODELS: Final = ROOT / "examples" / "models"

#: A graph of an author that answers a chat with everything that a model must not bring about.
HOSTILE: Final = r'''
import json

from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import Calculator, CalculatorContext, In, Out, calculator

TEXT = """# Title

<script>alert(1)</script> <b>bold</b>
<img src="https://evil.example/pixel.png" onerror="alert(2)">

![secret](https://evil.example/leak.png) [a link](https://evil.example/page)
[bad](javascript:alert(3))

- **one**
- `two`

<form action="https://evil.example/"><input name="key"></form>

~~~python
first
  second
~~~
"""


@calculator
class Hostile(Calculator):
    """Answers with a hostile text."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")

    def process(self, cc: CalculatorContext) -> None:
        chunk = {"choices": [{"index": 0, "delta": {"content": TEXT}, "finish_reason": "stop"}]}
        thought = {"choices": [{"index": 0, "delta": {"reasoning_content": "<i>Let me see</i>"}}]}
        events = [f"data: {json.dumps(each)}\n\n" for each in (thought, chunk)]
        cc.emit(self.response, "".join(events) + "data: [DONE]\n\n")
'''
_GRAPH: Final = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  calculator: "Hostile"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
"""


@contextmanager
def serving_models(folder: Path) -> Iterator[Serving]:
    """Serve small models of all tasks, a graph of KServe, and the graph of `HOSTILE`."""
    (folder / "hostile.py").write_text(HOSTILE)
    (folder / "hostile").mkdir()
    (folder / "hostile" / "graph.pbtxt").write_text(_GRAPH)
    make_image_model(folder / "painter")
    make_voice_model(folder / "tones")
    make_voice(folder / "tones" / "voices" / "alloy.bin", 0.5)
    names = ("demo", "shapes_vlm", "docs_embedder", "docs_ranker", "guard", "counter")
    words = [str(_MODELS / name) for name in names]
    words += [str(ROOT / "examples" / "graphs" / "object_detection"), "painter", "tones", "hostile"]
    with Serving(folder, *words, calculators=("--calculators", "hostile.py")) as server:
        yield server.wait_until_serving()


def shapes() -> bytes:
    """Return a PNG with a red circle and a blue square."""
    picture = Image.new("RGB", (160, 120), (230, 230, 220))
    pen = ImageDraw.Draw(picture)
    pen.ellipse((20, 30, 70, 80), fill=(200, 40, 40))
    pen.rectangle((95, 40, 140, 85), fill=(40, 60, 200))
    data = io.BytesIO()
    picture.save(data, "PNG")
    return data.getvalue()


def tone(seconds: float = 1.0) -> bytes:
    """Return a WAV file with a tone."""
    data = io.BytesIO()
    with wave.open(data, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        samples = (int(8000 * math.sin(at / 10)) for at in range(int(seconds * 16_000)))
        file.writeframes(b"".join(struct.pack("<h", sample) for sample in samples))
    return data.getvalue()
