"""`ImageReader`: the bytes of a request's images, from wherever they are."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Final

from calculators.images.media.data_uri import base64_of
from calculators.images.media.image import EncodedImage, ImageReference
from calculators.images.media.image_error import image_error
from calculators.images.media.limits import MAX_REQUEST_BYTES
from calculators.images.media.local_file import read_local_file
from calculators.images.media.media_rules import MediaRules

#: Number of images read at a time, over all requests to one model.
MAX_DOWNLOADS: Final = 16
_WEB: Final = re.compile(r"\s*(https?|ftp|sftp)://", re.IGNORECASE)


class ImageReader:
    """Reads images as far as the rules allow; one for each model."""

    def __init__(self, rules: MediaRules) -> None:
        self._rules = rules
        self._turn = asyncio.Semaphore(MAX_DOWNLOADS)

    async def read(self, references: Sequence[ImageReference]) -> list[EncodedImage]:
        """Fetch the images concurrently; the result has their order.

        Raises:
            RequestError: an image cannot be fetched; ``param`` is the place of the first such.
        """
        tasks = [asyncio.ensure_future(self._read(each)) for each in references]
        try:
            images = [await task for task in tasks]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        size = 0
        for image in images:
            size += len(image.data)
            if size > MAX_REQUEST_BYTES:
                raise image_error(
                    image.param, f"the images of one request may have {MAX_REQUEST_BYTES} bytes"
                )
        return images

    async def _read(self, reference: ImageReference) -> EncodedImage:
        url, param = reference
        try:
            inline = base64_of(url)
            if inline is not None:
                return EncodedImage(param, inline, is_base64=True)
            async with self._turn:
                if _WEB.match(url):
                    # Imported here: an HTTP client takes long to import, and few requests need it.
                    from calculators.images.media.download import download

                    return EncodedImage(param, await download(url.strip(), self._rules))
                directory = self._rules.allowed_local_media_path
                return EncodedImage(param, await asyncio.to_thread(read_local_file, url, directory))
        except ValueError as error:
            raise image_error(param, str(error)) from None
