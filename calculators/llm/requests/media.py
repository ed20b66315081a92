"""`MediaCheck`: gathers the images of a request and refuses media that the model cannot read."""

from __future__ import annotations

from calculators.llm.requests.request_limits import RequestLimits
from calculators.media.image import ImageReference
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
        """Add an image.

        Args:
            path: of the part, such as ``messages[0].content[1]``.
            url: of the image, maybe a ``data:`` URL.
            member: path of the URL inside the part, such as ``image_url.url``.

        Raises:
            RequestError: the model reads no images, or not as many.
        """
        if not self._limit:
            raise fields.invalid(path, "this model does not read images")
        self.images.append(ImageReference(url, f"{path}.{member}"))
        if len(self.images) > self._limit:
            raise fields.invalid(path, f"only {self._limit} images are allowed")

    def audio(self, path: str) -> None:
        """Refuse audio.

        Raises:
            RequestError: always; no model reads audio yet.
        """
        raise fields.invalid(path, "this model does not read audio")
