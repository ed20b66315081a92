"""The page at ``/docs``: complete, closed to other hosts, and open without a key."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from importlib.resources import as_file, files

import pytest

from servers.access import DOCS_ROUTES, Access, ApiKeys
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import FakeDataPlane
from tests.servers.fronts.http.http_client import ask, request_bytes, serving

_FOLDER = files("servers.fronts.http") / "docs_page_files"
PAGE = (_FOLDER / "viewer.html").read_text(encoding="utf-8")
SCRIPT = (_FOLDER / "viewer.js").read_text(encoding="utf-8")
STYLE = (_FOLDER / "viewer.css").read_text(encoding="utf-8")


class Elements(HTMLParser):
    """The elements of the page, with their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[tuple[str, dict[str, str | None]]] = []
        self.feed(PAGE)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.all.append((tag, dict(attrs)))


def test_the_page_and_its_files_are_served_without_a_key(run: Run) -> None:
    async def scenario() -> None:
        access = Access(ApiKeys.of_text("secret", "here"))
        async with serving(FakeDataPlane(), access=access) as front:
            types = {}
            for path in DOCS_ROUTES:
                reply = await ask(front, request_bytes("GET", path))
                assert reply.status == 200
                types[path] = reply.headers["content-type"]
                policy = reply.headers["content-security-policy"]
                assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
                assert "unsafe" not in policy
                assert "frame-ancestors 'none'" in policy
                assert reply.headers["x-content-type-options"] == "nosniff"
            assert types == {
                "/docs": "text/html; charset=utf-8",
                "/docs/viewer.js": "text/javascript; charset=utf-8",
                "/docs/viewer.css": "text/css; charset=utf-8",
            }
            # What it shows needs a key, for which the page asks.
            assert (await ask(front, request_bytes("GET", "/openapi.json"))).status == 401

    run(scenario())


def test_it_loads_nothing_that_its_policy_or_another_host_would_have_to_allow() -> None:
    loaded = {
        address
        for tag, attributes in Elements().all
        for name in ("src", "href")
        if tag in ("script", "link", "img", "iframe")
        and (address := attributes.get(name)) is not None
    }
    assert loaded == {"/docs/viewer.css", "/docs/viewer.js", "data:,"}
    assert not any(
        name == "style" or name.startswith("on") for _, each in Elements().all for name in each
    )
    for text in (PAGE, SCRIPT, STYLE):
        assert not re.search(r"https?:|//[a-z]+\.|@import|\burl\(", text)


def test_the_document_is_never_parsed_as_html() -> None:
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|srcdoc", SCRIPT
    )


def test_the_script_finds_every_element_that_it_looks_for() -> None:
    ids = {attributes["id"] for _, attributes in Elements().all if "id" in attributes}
    assert set(re.findall(r'byId\("([^"]+)"\)', SCRIPT)) <= ids


def test_every_control_has_a_label() -> None:
    elements = Elements().all
    labelled = {each.get("for") for tag, each in elements if tag == "label"}
    controls = {each["id"] for tag, each in elements if tag in ("input", "select", "textarea")}
    assert controls == labelled


def test_there_are_colours_for_dark_screens() -> None:
    light = set(re.findall(r"(--[a-z]+): #", STYLE.split("@media")[0]))
    dark = re.search(r"prefers-color-scheme: dark\) \{\s*:root \{(.*?)\}", STYLE, re.DOTALL)
    assert dark is not None
    assert set(re.findall(r"(--[a-z]+): #", dark[1])) == light


def test_the_script_is_javascript() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    with as_file(_FOLDER / "viewer.js") as path:
        done = subprocess.run(
            [node, "--input-type=module", "--check"],
            input=path.read_bytes(),
            capture_output=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, b"")
