"""The files of the page: as they are shipped, to whom, and with which headers."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from servers.access import Access, ApiKeys
from servers.page.settings import STATIC, PageSettings
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import FakeDataPlane
from tests.servers.fronts.http.http_client import Reply, ask, connected, request_bytes, serving

INDEX = b"<!doctype html><script type=module src=./page/index-DY13-cC7.js></script>"
SCRIPT = b"console.log('page')\n" * 50
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8", "Accept-Encoding": "gzip, br"}


@pytest.fixture
def built(tmp_path: Path) -> PageSettings:
    folder = tmp_path / "static"
    folder.mkdir()
    (tmp_path / "secret.gz").write_bytes(gzip.compress(b"not of the page"))
    for name, content in {
        "index.html": INDEX,
        "index-DY13-cC7.js": SCRIPT,
        "inter-latin-Dx4kXJAl.woff2": b"font",
        "THIRD_PARTY_NOTICES.txt": b"MIT",
    }.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(content))
    return PageSettings(files=folder)


def get(
    run: Run,
    page: PageSettings,
    path: str,
    headers: Mapping[str, str] = BROWSER,
    *,
    method: str = "GET",
    access: Access | None = None,
) -> Reply:
    replies: list[Reply] = []

    async def scenario() -> None:
        async with serving(FakeDataPlane(), page=page, access=access or Access()) as front:
            replies.append(await ask(front, request_bytes(method, path, headers=headers)))

    run(scenario())
    return replies[0]


def test_the_page_is_at_the_root_and_may_load_nothing_from_elsewhere(
    run: Run, built: PageSettings
) -> None:
    reply = get(run, built, "/")
    assert reply.status == 200
    assert gzip.decompress(reply.body) == INDEX
    headers = reply.headers
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert headers["content-encoding"] == "gzip"
    assert headers["cache-control"] == "no-cache"
    policy = headers["content-security-policy"].split("; ")
    assert policy == [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "worker-src 'self'",
        "media-src 'self' data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types svelte-trusted-html dompurify graphrt",
    ]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["permissions-policy"] == "camera=(), geolocation=(), microphone=(self)"


@pytest.mark.parametrize(
    ("name", "kind", "caching"),
    [
        ("index-DY13-cC7.js", "text/javascript; charset=utf-8", "immutable"),
        ("inter-latin-Dx4kXJAl.woff2", "font/woff2", "immutable"),
        ("THIRD_PARTY_NOTICES.txt", "text/plain; charset=utf-8", "no-cache"),
    ],
)
def test_files_with_a_hash_in_their_name_are_kept_for_ever(
    run: Run, built: PageSettings, name: str, kind: str, caching: str
) -> None:
    reply = get(run, built, f"/page/{name}")
    assert (reply.status, reply.headers["content-type"]) == (200, kind)
    assert caching in reply.headers["cache-control"]


@pytest.mark.parametrize("accepted", ["", "br", "gzip;q=0", "gzip; q=0.0, br", "identity"])
def test_clients_without_gzip_get_files_inflated(
    run: Run, built: PageSettings, accepted: str
) -> None:
    reply = get(run, built, "/page/index-DY13-cC7.js", {"Accept-Encoding": accepted})
    assert reply.body == SCRIPT
    assert "content-encoding" not in reply.headers
    assert reply.headers["vary"] == "Accept-Encoding"


def test_an_unchanged_file_is_not_sent_again(run: Run, built: PageSettings) -> None:
    tags = []
    for encodings in ({"Accept-Encoding": "gzip"}, {"Accept-Encoding": "identity"}):
        tag = get(run, built, "/", encodings).headers["etag"]
        again = get(run, built, "/", {**encodings, "If-None-Match": f'"x", W/{tag}'})
        assert (again.status, again.body) == (304, b"")
        tags.append(tag)
    assert tags[0] != tags[1]  # other bytes


def test_head_has_the_headers_of_get(run: Run, built: PageSettings) -> None:
    sent = get(run, built, "/").headers

    async def scenario() -> None:
        async with (
            serving(FakeDataPlane(), page=built) as front,
            connected(front) as client,
        ):
            client.send(request_bytes("HEAD", "/", headers=BROWSER))
            status, headers = await client.head()
            assert status == 200
            assert headers["content-length"] == sent["content-length"]
            assert headers["etag"] == sent["etag"]
            # No body came in between: the next answer is read from its beginning.
            assert (await client.ask(request_bytes("GET", "/", headers=BROWSER))).status == 200

    run(scenario())


@pytest.mark.parametrize(
    "path",
    [
        "/page/",
        "/page/../secret",
        "/page/..%2fsecret",
        "/page/%2e%2e/secret",
        "/page/index-DY13-cC7.js.gz",
        "/page/nested/index.html",
        "/page//etc/passwd",
        "/page/C:%5Csecret",
    ],
)
def test_other_files_cannot_be_reached(run: Run, built: PageSettings, path: str) -> None:
    reply = get(run, built, path)
    assert reply.status == 404
    assert b"not of the page" not in reply.body


def test_files_need_no_key_and_data_does(run: Run, built: PageSettings) -> None:
    access = Access(ApiKeys.of_text("secret", "here"))
    assert get(run, built, "/", access=access).status == 200
    assert get(run, built, "/page/index-DY13-cC7.js", access=access).status == 200
    for path in ("/v1/live", "/v1/graphs/echo", "/v1/requests/x"):
        assert get(run, built, path, access=access).status == 401


@pytest.mark.parametrize("path", ["/page/index.html", "/page/index-DY13-cC7.js"])
def test_nothing_of_the_page_is_there_when_it_is_switched_off(
    run: Run, built: PageSettings, path: str
) -> None:
    reply = get(run, PageSettings(page=False, files=built.files), path)
    assert reply.status == 404
    assert reply.error["message"].startswith("nothing is served at this path")


def test_programs_that_ask_for_json_at_the_root_get_an_error_as_before(
    run: Run, built: PageSettings
) -> None:
    reply = get(run, built, "/", {"Accept": "application/json"})
    assert reply.status == 404
    assert reply.headers["content-type"] == "application/json"
    assert get(run, built, "/", {"Accept": "*/*"}).status == 200


def test_an_installation_without_built_files_says_so(run: Run, tmp_path: Path) -> None:
    reply = get(run, PageSettings(files=tmp_path), "/")
    assert reply.status == 404
    assert "npm run build" in reply.error["message"]


def test_what_is_shipped_is_compressed() -> None:
    assert all(path.suffix == ".gz" for path in STATIC.glob("*"))


@pytest.mark.skipif(not (STATIC / "index.html.gz").is_file(), reason="the page is not built")
def test_the_built_page_works_below_any_prefix_and_under_its_policy() -> None:
    index = gzip.decompress((STATIC / "index.html.gz").read_bytes()).decode()
    addresses = re.findall(r'(?:src|href)="([^"]*)"', index)
    assert addresses
    for address in addresses:
        assert address.startswith("./page/"), address
        assert (STATIC / f"{address.removeprefix('./page/')}.gz").is_file(), address
    # Neither inline scripts nor inline styles.
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=", index) == []
