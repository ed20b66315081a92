"""Graphs that draw with the tiny models in their real processes, and their answers as pictures."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from calculators.images.image_generation.messages import DrawingProgress
from calculators.images.image_generation.servable import ImageGenServable
from calculators.kit.requests.http_payload import FormFile, HttpPayload, MultipartForm
from graph_runtime import REGISTRY
from servers.config import find_graph
from servers.serving.loaded_graph import GraphSettings, LoadedGraph, load_graph
from tests.calculators.graph_answers import packets_of
from tests.support.patience import PATIENCE

Pixels = NDArray[np.uint8]


class Drawn:
    """A served graph."""

    def __init__(self, loaded: LoadedGraph) -> None:
        self.loaded = loaded

    @property
    def servable(self) -> ImageGenServable:
        (servable,) = self.loaded._resources.resources
        assert isinstance(servable, ImageGenServable)
        return servable

    async def until_a_step(self) -> DrawingProgress:
        """Return the progress of the drawing under way, or of the last one, when it has begun."""
        while (progress := self.servable.progress) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        return progress

    async def generate(self, **body: Any) -> dict[str, Any]:
        """Return the answer to a request in JSON."""
        payload = HttpPayload("/v3/images/generations", {}, b"", {"model": "m", **body})
        return _whole(await self.packets(payload))

    async def events(self, **body: Any) -> list[dict[str, Any]]:
        """Return the events of an answer."""
        body = {"model": "m", "stream": True, **body}
        payload = HttpPayload("/v3/images/generations", {}, b"", body)
        return events_in(await self.packets(payload))

    async def edit(
        self, image: bytes, mask: bytes | None = None, path: str = "edits", **fields: Any
    ) -> dict[str, Any]:
        """Return the answer to a form."""
        return _whole(await self.packets(edit_payload(image, mask, path, **fields)))

    async def packets(self, payload: HttpPayload) -> list[bytes]:
        """Return all packets of an answer; raise the calculator's own error."""
        return await packets_of(self.loaded, payload)


def edit_payload(
    image: bytes, mask: bytes | None = None, path: str = "edits", **fields: Any
) -> HttpPayload:
    """Return a request with a form."""
    files = {"image": [FormFile("image.png", "image/png", image)]}
    if mask is not None:
        files["mask"] = [FormFile("mask.png", "image/png", mask)]
    texts = {name: [str(value)] for name, value in {"model": "m", **fields}.items()}
    return HttpPayload(f"/v1/images/{path}", {}, b"", form=MultipartForm(texts, files))


def served(
    directory: Path,
    scenario: Callable[[Drawn], Awaitable[None]],
    settings: GraphSettings | None = None,
) -> None:
    """Run a scenario with the graph of a directory."""

    async def run() -> None:
        loaded = await load_graph(find_graph(directory), REGISTRY, settings or GraphSettings())
        try:
            await scenario(Drawn(loaded))
        finally:
            await loaded.close()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


def _whole(packets: list[bytes]) -> dict[str, Any]:
    (packet,) = packets
    answer: dict[str, Any] = json.loads(packet)
    return answer


def events_in(packets: Iterable[bytes]) -> list[dict[str, Any]]:
    """Return the JSON of events, whose names are the types in it."""
    found: list[dict[str, Any]] = []
    for text in b"".join(packets).decode().removesuffix("\n\n").split("\n\n"):
        name, data = text.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def pixels(part: dict[str, Any], kind: str = "PNG") -> Pixels:
    """Return the picture of a part of an answer, or of an event: [height, width, 3]."""
    file = io.BytesIO(base64.b64decode(part["b64_json"]))
    with Image.open(file) as image:
        assert image.format == kind
        return np.asarray(image.convert("RGB"), np.uint8)


def pictures(answer: dict[str, Any]) -> list[Pixels]:
    """Return the pictures of an answer."""
    return [pixels(part) for part in answer["data"]]


def same(first: Pixels, second: Pixels) -> bool:
    return np.array_equal(first, second)
