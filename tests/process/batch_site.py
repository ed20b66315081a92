"""A graph that answers requests of batches, and records each that it computes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

PATH: Final = "/v1/work"

CALCULATORS: Final = '''\
import asyncio
import json
import os

from calculators.kit.requests.http_payload import HttpPayload, RequestError
from graph_runtime import Calculator, CalculatorContext, In, Out, calculator


@calculator
class Work(Calculator):
    """Answers after a while, and appends the number of the request to a file."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")

    async def process(self, cc: CalculatorContext) -> None:
        asked = cc.get(self.request).parsed_json
        if asked.get("wrong"):
            raise RequestError("this is wrong", param="wrong")
        if "kill" in asked:
            os.kill(os.getpid(), asked["kill"])
        await asyncio.sleep(asked.get("seconds", 0))
        while "until" in asked and not os.path.exists(asked["until"]):
            await asyncio.sleep(0.01)
        with open("computed", "a") as file:
            file.write(f"{asked['number']} {os.nice(0)}\\n")
        padding = "x" * asked.get("padding", 0)
        usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
        answer = {"number": asked["number"], "padding": padding, "usage": usage}
        cc.emit(self.response, json.dumps(answer))
'''

_GRAPH: Final = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  calculator: "Work"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
"""


def make_site(folder: Path) -> tuple[str, ...]:
    """Write graph and calculators; return the words that serve them from that folder."""
    (folder / "calcs.py").write_text(CALCULATORS)
    (folder / "work").mkdir()
    (folder / "work" / "graph.pbtxt").write_text(_GRAPH)
    return ("--calculators", "calcs.py", "work")


def line(number: int, **members: Any) -> dict[str, Any]:
    """Return a request. ``members`` are of its body: ``seconds`` that it takes, ``until`` names a
    file that it waits for, ``padding``: characters of its answer, ``wrong``, ``kill``: a signal for
    the process."""
    body = {"model": "work", "number": number, **members}
    return {"custom_id": f"r{number}", "method": "POST", "url": PATH, "body": body}


def content_of(requests: Iterable[Any]) -> bytes:
    """Return a file: objects as JSON, texts as they are."""
    texts = (each if isinstance(each, str) else json.dumps(each) for each in requests)
    return "".join(f"{text}\n" for text in texts).encode()


def computed(folder: Path) -> list[int]:
    """Return the numbers of all requests that were computed, in their order."""
    path = folder / "computed"
    return [int(each.split()[0]) for each in path.read_text().splitlines()] if path.exists() else []
