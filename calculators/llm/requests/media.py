"""`MediaCheck`: gathers the images of a request and refuses media that the model cannot read."""

from __future__ import annotations

from collections.abc import Sequence

from calculators.images.media.image import ImageReference
from calculators.kit.requests import fields
from calculators.llm.requests.request_limits import RequestLimits


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
        self.images.append(ImageReference(url, f"{path}.{member}"))
        _check_count(len(self.images), self._limit, path)

    def audio(self, path: str) -> None:
        """Refuse audio.

        Raises:
            RequestError: always; no model reads audio yet.
        """
        raise fields.invalid(path, "this model does not read audio")


def check_images(images: Sequence[ImageReference], limits: RequestLimits) -> None:
    """Refuse images that the model does not read, or more than it reads.

    Raises:
        RequestError: with the part of the first one as ``param``.
    """
    for count, image in enumerate(images, 1):
        place = image.param
        _check_count(count, limits.max_images, place[: place.rfind("]") + 1] or place)


def _check_count(count: int, limit: int, path: str) -> None:
    if not limit:
        raise fields.invalid(path, "this model does not read images")
    if count > limit:
        raise fields.invalid(path, f"only {limit} images are allowed")
