"""`examples/graphs/stateful_vision`, served: a vision model, one request at a time."""

from __future__ import annotations

import base64
import json
from concurrent.futures import ThreadPoolExecutor

from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT

FOLDER = "examples/graphs/stateful_vision"
PICTURES = ROOT / "examples" / "models" / "shapes_vlm" / "pictures"
QUESTION = {"type": "text", "text": "What is in the picture?"}


def answer_to(server: Serving, picture: str) -> str:
    data = base64.b64encode((PICTURES / picture).read_bytes()).decode()
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    body = {
        "model": "stateful_vision",
        "messages": [{"role": "user", "content": [image, QUESTION]}],
        "temperature": 0,
    }
    with server.request("POST", "/v3/chat/completions", body) as response:
        content: str = json.loads(response.read())["choices"][0]["message"]["content"]
        return content


def test_the_command_of_the_comment_works() -> None:
    text = (ROOT / FOLDER / "graph.pbtxt").read_text(encoding="utf-8")
    assert f"#   graphrt serve {FOLDER}\n" in text
    assert "pipeline_type: VLM\n" in text


def test_pictures_of_concurrent_requests_are_told_apart(server: Serving) -> None:
    shown = {"red_circle.png": "A red circle.", "blue_square.png": "A blue square."}
    with ThreadPoolExecutor(4) as pool:
        asked = [*shown, *shown]
        answers = list(pool.map(lambda picture: answer_to(server, picture), asked))
    assert answers == [shown[picture] for picture in asked]
