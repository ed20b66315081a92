"""`ImageReader`: the bytes of a request's images, from wherever they are."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import stat
from collections.abc import Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

from calculators.images.media.data_uri import base64_of, image_error
from calculators.images.media.image import (
    MAX_IMAGE_BYTES,
    MAX_REQUEST_BYTES,
    MAX_VIDEO_BYTES,
    EncodedImage,
    ImageReference,
)
from calculators.images.media.media_rules import MediaRules
from graphrt_base.regular_file import raise_if_exhausted

_DISABLED: Final = (
    "{}s from files are off on this server; it allows a directory with --allowed_local_media_path"
)
_OUTSIDE: Final = "the file is not in the directory that --allowed_local_media_path allows"


def read_local_file(
    url: str, directory: str, *, what: str = "image", most: int = MAX_IMAGE_BYTES
) -> bytes:
    """Read the bytes of an image file.

    Args:
        url: a path, absolute or relative to ``directory``; or a ``file:`` URL.
        directory: the directory that the file must be in, links followed; "" is none.
        what: the kind of file, for errors.
        most: bytes of the largest file.

    Raises:
        DescriptorsExhaustedError: no file can be opened now.
        ValueError: the file may not or cannot be read; the text is for the client.
    """
    if not directory:
        raise ValueError(_DISABLED.format(what))
    if os.open not in os.supports_dir_fd:
        raise ValueError(f"{what}s from files are not served on this operating system")
    path = _path(url)
    if ".." in path.parts:
        raise ValueError('a path with ".." is not allowed')
    try:
        root = Path(directory).resolve(strict=True)
        real = (root / path).resolve()
    except (OSError, RuntimeError):
        raise ValueError(_OUTSIDE) from None
    if not real.is_relative_to(root):
        raise ValueError(_OUTSIDE)
    try:
        descriptor = _open_inside(root, real.relative_to(root))
    except OSError as error:
        raise_if_exhausted(error)
        raise ValueError("there is no such file, or it cannot be read") from None
    # By the open file, not by its name, which may mean another one by now.
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("it is not a file")
    with open(descriptor, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"the file is larger than {most} bytes")
    return data


def _path(url: str) -> PurePosixPath:
    text = url
    if url[:5].casefold() == "file:":
        try:
            parts = urlsplit(url)
        except ValueError:
            raise ValueError("the address is not a URL") from None
        if parts.netloc not in ("", "localhost"):
            raise ValueError("a file: URL has no host: file:///directory/picture.png")
        text = unquote(parts.path)
    if not text or "\0" in text or len(text) > 4096:
        raise ValueError("expected a data URI, an http(s) URL, or the path of a file")
    return PurePosixPath(text)


def _open_inside(root: Path, path: Path) -> int:
    """Open step by step without following links, because checked parts may have been replaced."""
    nothing_followed = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.ExitStack() as opened:
        at = os.open(root, nothing_followed | os.O_DIRECTORY)
        opened.callback(os.close, at)
        for name in path.parts[:-1]:
            at = os.open(name, nothing_followed | os.O_DIRECTORY, dir_fd=at)
            opened.callback(os.close, at)
        # Opening a pipe would wait for a writer.
        return os.open(path.name or ".", nothing_followed | os.O_NONBLOCK, dir_fd=at)


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
            size += image.size
            if size > MAX_REQUEST_BYTES:
                raise image_error(
                    image.param, f"the images of one request may have {MAX_REQUEST_BYTES} bytes"
                )
        return images

    async def _read(self, reference: ImageReference) -> EncodedImage:
        url, param, video, frames = reference
        if frames:
            pictures = [ImageReference(url, f"{param}[{i}]") for i, url in enumerate(frames)]
            read = await self.read(pictures)
            return EncodedImage(param, b"", video=video, frames=tuple(read))
        try:
            inline = base64_of(url)
            if inline is not None:
                return EncodedImage(param, inline, is_base64=True, video=video)
            return EncodedImage(param, await self._fetched(url, is_video=bool(video)), video=video)
        except ValueError as error:
            raise image_error(param, str(error)) from None

    async def _fetched(self, url: str, *, is_video: bool) -> bytes:
        most = MAX_VIDEO_BYTES if is_video else MAX_IMAGE_BYTES
        what: Literal["video", "image"] = "video" if is_video else "image"
        async with self._turn:
            if _WEB.match(url):
                # Imported here: an HTTP client takes long to import, and few requests need it.
                from calculators.images.media.download import download

                return await download(url.strip(), self._rules, what=what, most=most)
            directory = self._rules.allowed_local_media_path
            read = partial(read_local_file, url, directory, what=what, most=most)
            return await asyncio.to_thread(read)
