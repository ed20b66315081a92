"""Answers to requests for images, in the form of OpenAI's images API.

Images come as base64 text, which is put between constant parts without being encoded again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any, Final

from calculators.images.image_generation.drawing import Drawing, DrawnImage
from calculators.images.image_generation.kind import Kind

#: The only value of OpenAI's member that is true of these images.
_BACKGROUND: Final = "opaque"
_QUALITY: Final = "auto"


class AnswerWriter:
    """Writes the answer to one drawing, whole or in events."""

    def __init__(self, drawing: Drawing) -> None:
        self._drawing = drawing
        self._created = int(time.time())
        is_new = drawing.request.kind is Kind.TEXT_TO_IMAGE
        self._object = "image_generation" if is_new else "image_edit"

    def whole(self, images: Sequence[DrawnImage]) -> bytes:
        """Return the JSON object with all finished images, in their order."""
        request = self._drawing.request
        seed = b"%d" % request.seed
        data = b",".join(
            b'{"b64_json":"%b","seed":%b}' % (image.data, seed)
            for image in sorted(images, key=lambda each: each.place)
        )
        rest = {
            "background": _BACKGROUND,
            "output_format": request.output_format,
            "quality": _QUALITY,
            "size": self._size(),
            "usage": self._usage(),
        }
        return b'{"created":%d,"data":[%b],%b}\n' % (
            self._created,
            data,
            json.dumps(rest).encode()[1:-1],
        )

    def event(self, image: DrawnImage) -> bytes:
        """Return the event of one image."""
        request = self._drawing.request
        rest: dict[str, Any] = {
            "background": _BACKGROUND,
            "created_at": self._created,
            "index": image.place,
            "output_format": request.output_format,
            "quality": _QUALITY,
            "seed": request.seed,
            "size": self._size(),
        }
        if image.partial is None:
            name = f"{self._object}.completed"
            rest["usage"] = self._usage()
        else:
            name = f"{self._object}.partial_image"
            rest["partial_image_index"] = image.partial
        kind = name.encode()
        return b'event: %b\ndata: {"type":"%b","b64_json":"%b",%b}\n\n' % (
            kind,
            kind,
            image.data,
            json.dumps(rest).encode()[1:-1],
        )

    def _size(self) -> str:
        begun = self._drawing.begun
        assert begun is not None
        return f"{begun.width}x{begun.height}"

    def _usage(self) -> dict[str, Any]:
        """Return the usage: tokens of the prompt that the model reads; images have none here."""
        begun = self._drawing.begun
        assert begun is not None
        tokens = begun.prompt_tokens
        return {
            "input_tokens": tokens,
            "input_tokens_details": {"image_tokens": 0, "text_tokens": tokens},
            "output_tokens": 0,
            "output_tokens_details": {"image_tokens": 0, "text_tokens": 0},
            "total_tokens": tokens,
        }
