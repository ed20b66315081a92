"""Images and sound in a request: does the model take them, and that many?"""

from __future__ import annotations

from calculators.llm.openai import fields
from calculators.llm.openai.request_limits import RequestLimits


class MediaCheck:
    """Counts the media of one request; ``path`` is where the part stands."""

    def __init__(self, limits: RequestLimits) -> None:
        self._limit = limits.max_images
        self._images = 0

    def image(self, path: str) -> None:
        """One more image.

        Raises:
            RequestError: the model reads none, or not that many.
        """
        if not self._limit:
            raise fields.invalid(path, "this model does not read images")
        self._images += 1
        if self._images > self._limit:
            raise fields.invalid(path, f"only {self._limit} images are allowed")

    def audio(self, path: str) -> None:
        """Some sound.

        Raises:
            RequestError: always; no model hears yet.
        """
        raise fields.invalid(path, "this model does not read audio")
