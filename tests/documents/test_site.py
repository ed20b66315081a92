"""The site of documents, built as `make docs` builds it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE
from website.repository_pages import site_path

for _package in ("mkdocs", "material", "mkdocstrings"):
    if importlib.util.find_spec(_package) is None:
        pytest.skip("the extra docs is not installed", allow_module_level=True)

#: Attributes that a browser loads by itself. A link is followed by a reader only.
LOADED = {
    "audio": "src",
    "embed": "src",
    "iframe": "src",
    "img": "src",
    "link": "href",
    "object": "data",
    "script": "src",
    "source": "src",
    "video": "src",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    pages, html = folder / "pages", folder / "html"
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    text = text.replace("build/site/pages", str(pages)).replace("build/site/html", str(html))
    text = text.replace("paths: [.]", f"paths: [{ROOT}]")
    config = folder / "mkdocs.yml"
    config.write_text(text, encoding="utf-8")
    run("website", str(pages))
    run("mkdocs", "build", "--strict", "--quiet", "--config-file", str(config))
    return html


def run(module: str, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr, done.stdout + done.stderr


class Loads(HTMLParser):
    """Collects the addresses that a page loads, and the classes of its elements."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.classes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name == LOADED.get(tag) and ("rel", "canonical") not in attrs:
                self.addresses.append(value)
            if value and name == "class":
                self.classes.update(value.split())


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 100
    for page in pages:
        loads = Loads()
        loads.feed(page.read_text(encoding="utf-8"))
        foreign = [each for each in loads.addresses if re.match(r"(?:\w+:)?//", each)]
        assert foreign == [], page.relative_to(site)
        # The theme would load the library that draws these from another host.
        assert "mermaid" not in loads.classes, page.relative_to(site)
    for sheet in site.rglob("*.css"):
        assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:\w+:)?//", sheet.read_text()) == []


@pytest.mark.parametrize(
    ("word", "location"),
    [
        ("RetrievalCalculator", "reference/calculators/language/"),
        ("request_queue_limit", "reference/server_options/"),
        ("continuous_usage_stats", "serving/"),
        ("CalculatorRunner", "reference/python/testing/"),
        ("chat/completions", "reference/http_api/"),
        ("bound", "how_a_packet_travels/"),
    ],
)
def test_the_search_finds_a_word_on_its_page(site: Path, word: str, location: str) -> None:
    index: Any = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {each["location"].partition("#")[0] for each in index["docs"] if word in str(each)}
    assert location in found


def test_every_page_of_the_documents_is_a_page_of_the_site(site: Path) -> None:
    for source in (ROOT / "docs").rglob("*.md"):
        place = Path(site_path(str(source.relative_to(ROOT))))
        folder = place.parent if place.stem in ("README", "index") else place.with_suffix("")
        assert (site / folder / "index.html").is_file(), source


def test_drawings_take_the_place_of_mermaid_blocks(site: Path) -> None:
    page = (site / "language_graphs" / "index.html").read_text(encoding="utf-8")
    drawings = re.findall(r'<img[^>]*src="([^"]+\.svg)"', page)
    assert len(drawings) > 5
    for drawing in drawings:
        assert (site / "language_graphs" / drawing).resolve().is_file()


def test_the_site_has_the_mark_of_the_page_and_a_switch_of_themes(site: Path) -> None:
    home = (site / "index.html").read_text(encoding="utf-8")
    mark = (ROOT / "page/src/look/favicon.svg").read_text(encoding="utf-8")
    assert (site / "assets/logo.svg").read_text(encoding="utf-8") == mark
    assert re.search(r'<link rel="icon" href="[^"]*assets/logo.svg">', home)
    assert re.search(r'<img src="[^"]*assets/logo.svg" alt="logo">', home)
    for title in ("change to light", "change to dark", "change to that of the system"):
        assert title in home


def test_its_first_screen_has_a_command_and_a_picture(site: Path) -> None:
    home = (site / "index.html").read_text(encoding="utf-8")
    first = home[home.index("<h1") : home.index("<h2")]
    assert "pip install graphrt" in re.sub(r"<[^>]+>", "", first)
    assert "page_graph_dark.png" in first
