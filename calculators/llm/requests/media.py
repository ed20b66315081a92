"""Images and sound in a request: does the model take them, and that many?"""

from __future__ import annotations

from calculators.llm.requests.request_limits import RequestLimits
from calculators.media.encoded_image import ImageReference
from calculators.requests import fields


class MediaCheck:
    """Gathers the media of one request.

    Attributes:
        images: in the order of the messages.
    """

    def __init__(self, limits: RequestLimits) -> None:
        self._limit = limits.max_images
        self.images: list[ImageReference] = []

    def image(self, path: str, url: str, member: str) -> None:
        """One more image.

        Args:
            path: where the part stands.
            url: what it says of the image.
            member: where in the part it says so, such as ``image_url.url``.

        Raises:
            RequestError: the model reads none, or not that many.
        """
        if not self._limit:
            raise fields.invalid(path, "this model does not read images")
        self.images.append(ImageReference(url, f"{path}.{member}"))
        if len(self.images) > self._limit:
            raise fields.invalid(path, f"only {self._limit} images are allowed")

    def audio(self, path: str) -> None:
        """Some sound.

        Raises:
            RequestError: always; no model hears yet.
        """
        raise fields.invalid(path, "this model does not read audio")
