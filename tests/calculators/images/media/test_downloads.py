"""Downloads of images: only from listed hosts, by whatever route they are reached."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from ipaddress import ip_address
from typing import Any

import pytest

from calculators.images.media.download import download, is_public
from calculators.images.media.media_rules import MediaRules
from tests.calculators.images.media.picture_server import PICTURE, PictureServer, picture_server
from tests.support.patience import PATIENCE

HERE = MediaRules(("127.0.0.1",))


def with_server(test: Callable[[PictureServer], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE), picture_server() as pictures:
            await test(pictures)

    asyncio.run(run())


async def refused(url: str, rules: MediaRules, **more: Any) -> str:
    with pytest.raises(ValueError, match=r"^.+$") as caught:
        await download(url, rules, **more)
    return str(caught.value)


def test_an_image_is_fetched_with_few_headers() -> None:
    async def test(pictures: PictureServer) -> None:
        assert await download(f"http://127.0.0.1:{pictures.port}/a.png?b", HERE) == PICTURE
        (headers,) = pictures.headers
        assert "cookie" not in headers
        assert "authorization" not in headers
        assert headers["accept-encoding"] == "identity"

    with_server(test)


@pytest.mark.parametrize(
    ("url", "rules", "reason"),
    [
        ("http://127.0.0.1:{port}/", MediaRules(), "images from the web are off"),
        ("http://127.0.0.1:{port}/", MediaRules(("example.com",)), 'host "127.0.0.1" is not one'),
        ("http://127.0.0.1:{port}/", MediaRules(("127.0.0",)), "is not one of"),
        ("http://127.0.0.1:{port}/", MediaRules(("all",)), "only ports 80 and 443"),
        ("http://127.0.0.1/", MediaRules(("all",)), "private address"),
        ("http://169.254.169.254/latest/meta-data/", MediaRules(("all",)), "private address"),
        ("http://10.0.0.1/x.png", MediaRules(("all",)), "private address"),
        ("http://[::1]/x.png", MediaRules(("all",)), "private address"),
        ("http://[::ffff:127.0.0.1]/x.png", MediaRules(("all",)), "private address"),
        ("http://[64:ff9b::7f00:1]/x.png", MediaRules(("all",)), "private address"),
        ("http://localhost/x.png", MediaRules(("all",)), "private address"),
        ("http://2130706433/x.png", MediaRules(("all",)), "private address"),
        ("http://2130706433:{port}/x.png", MediaRules(("2130706433",)), "private address"),
        ("http://127.1:{port}/x.png", MediaRules(("127.1",)), "private address"),
        ("http://0177.0.0.1:{port}/x.png", MediaRules(("0177.0.0.1",)), "private address"),
        ("http://0x7f.1/x.png", MediaRules(("all",)), "private address|be reached"),
        ("http://localhost:{port}/", MediaRules(("localhost",)), "private address"),
        ("http://all/", MediaRules(("example.com", "all.example")), "is not one of"),
        ("http://me:word@127.0.0.1:{port}/", HERE, "a user or a password"),
        ("http://127.0.0.1\\@10.0.0.1/", HERE, "not a URL|starts with http"),
        ("http://127.0.0.1:{port}\\@10.0.0.1/", HERE, "not a URL|starts with http"),
        ("http://127.0.0.1:99999/", HERE, "not a URL"),
        ("ftp://127.0.0.1/x.png", HERE, "starts with http"),
        ("http:///x.png", HERE, "not a URL|starts with http"),
    ],
)
def test_other_addresses_are_not_connected_to(url: str, rules: MediaRules, reason: str) -> None:
    async def test(pictures: PictureServer) -> None:
        shown = await refused(url.format(port=pictures.port), rules)
        assert any(each in shown for each in reason.split("|")), shown
        assert pictures.asked == []

    with_server(test)


def test_a_name_may_have_a_private_address_where_the_list_has_that_too() -> None:
    async def test(pictures: PictureServer) -> None:
        rules = MediaRules(("LOCALHOST", "127.0.0.1"))
        assert await download(f"http://localhost:{pictures.port}/", rules) == PICTURE

    with_server(test)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("http://localhost:{port}/secret", 'the host "localhost" is not one of'),
        ("http://127.0.0.2:{port}/secret", 'the host "127.0.0.2" is not one of'),
        ("//[::1]:{port}/secret", 'the host "::1" is not one of'),
        ("file:///etc/passwd", "starts with http"),
        ("http://a:b@127.0.0.1:{port}/secret", "a user or a password"),
    ],
)
def test_a_redirection_is_checked_like_the_first_address(target: str, reason: str) -> None:
    async def test(pictures: PictureServer) -> None:
        to = target.format(port=pictures.port)
        assert reason in await refused(f"http://127.0.0.1:{pictures.port}/redirect?to={to}", HERE)
        assert pictures.asked == ["/redirect"]

    with_server(test)


def test_a_redirection_to_a_host_of_the_list_that_is_private_is_not_followed() -> None:
    async def test(pictures: PictureServer) -> None:
        async with picture_server("127.0.0.2") as other:
            # The list has the name, but not the address to which it resolves.
            rules = MediaRules(("127.0.0.2", "localhost"))
            url = f"http://127.0.0.2:{other.port}/redirect?to=http://localhost:{pictures.port}/"
            assert "private address" in await refused(url, rules)
        assert pictures.asked == []

    with_server(test)


def test_the_number_of_redirections_is_limited() -> None:
    async def test(pictures: PictureServer) -> None:
        here = f"http://127.0.0.1:{pictures.port}"
        assert await download(f"{here}/redirect?to=/a.png", HERE) == PICTURE
        assert pictures.asked == ["/redirect", "/a.png"]
        assert "more than 3 times" in await refused(f"{here}/circle", HERE)
        assert len(pictures.asked) == 2 + 4

    with_server(test)


def test_failures_of_the_image_server_are_reported() -> None:
    async def test(pictures: PictureServer) -> None:
        here = f"http://127.0.0.1:{pictures.port}"
        assert await refused(f"{here}/missing", HERE) == "its server answered with status 404"
        assert "within 0.1 seconds" in await refused(f"{here}/slow", HERE, seconds=0.1)
        pictures.end()
        assert await refused("http://127.0.0.1:1/", HERE) == "its server cannot be reached"

    with_server(test)


def test_an_endless_image_is_cut_off() -> None:
    async def test(pictures: PictureServer) -> None:
        shown = await refused(f"http://127.0.0.1:{pictures.port}/endless", HERE, most=100_000)
        assert shown == "the image is larger than 100000 bytes"

    with_server(test)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("93.184.215.14", True),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", True),
        ("127.0.0.1", False),
        ("0.0.0.0", False),
        ("10.1.2.3", False),
        ("100.64.0.1", False),
        ("169.254.169.254", False),
        ("192.168.1.1", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::", False),
        ("::1", False),
        ("::ffff:10.0.0.1", False),
        ("::ffff:93.184.215.14", True),
        ("64:ff9b::a00:1", False),
        ("2002:7f00:1::", False),
        ("2001:0:53aa:64c:0:0:80ff:fffe", False),
        ("fe80::1", False),
        ("fec0::1", False),
        ("fd00::1", False),
        ("ff02::1", False),
    ],
)
def test_only_public_addresses_are_allowed(address: str, expected: bool) -> None:
    assert is_public(ip_address(address)) is expected
