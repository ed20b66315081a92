"""Images of a request, wherever each is stored."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from calculators.images.media import reader
from calculators.images.media.image import EncodedImage, ImageReference
from calculators.images.media.media_rules import MediaRules
from calculators.images.media.reader import ImageReader
from calculators.kit.requests.http_payload import RequestError
from tests.calculators.images.media.picture_server import PICTURE, picture_server
from tests.calculators.images.media.pictures import data_uri


def read(*urls: str, rules: MediaRules | None = None) -> list[EncodedImage]:
    async def run() -> list[EncodedImage]:
        references = [ImageReference(url, f"input[{place}]") for place, url in enumerate(urls)]
        return await ImageReader(rules or MediaRules()).read(references)

    return asyncio.run(run())


@pytest.mark.parametrize(
    "url",
    ["data:image/png;base64,YWJj", "DATA:;BASE64,YWJj", "base64,YWJj",
     "data:image/jpeg;charset=utf-8;base64,YWJj", " data:x;base64,YWJj"],
)  # fmt: skip
def test_a_data_uri_needs_no_permission(url: str) -> None:
    assert read(url) == [EncodedImage("input[0]", b"YWJj", is_base64=True)]


def test_images_keep_their_order(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"file")

    async def run() -> list[EncodedImage]:
        async with picture_server() as pictures:
            rules = MediaRules(("127.0.0.1",), str(tmp_path))
            web = f"http://127.0.0.1:{pictures.port}/x"
            references = [ImageReference(url, "p") for url in (web, "a.png", data_uri(b"abc"))]
            return await ImageReader(rules).read(references)

    assert [image.data for image in asyncio.run(run())] == [PICTURE, b"file", b"YWJj"]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("data:image/png,abc", "a data URI has to look like"),
        ("http://example.com/?base64,YWJj", "--allowed_media_domains"),
        ("ftp://example.com/x", "--allowed_media_domains"),
        ("x.png", "--allowed_local_media_path"),
        ("iVBORw0KGgo=", "--allowed_local_media_path"),
    ],
)
def test_the_first_image_that_cannot_be_read_is_named(url: str, reason: str) -> None:
    with pytest.raises(RequestError, match=reason) as caught:
        read(data_uri(b"abc"), url, "/etc/passwd")
    assert caught.value.param == "input[1]"
    assert str(caught.value).startswith("input[1]: ")


def test_the_images_of_a_request_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_REQUEST_BYTES", 10)
    with pytest.raises(RequestError, match="the images of one request") as caught:
        read(*[data_uri(b"abc")] * 3)
    assert caught.value.param == "input[2]"
