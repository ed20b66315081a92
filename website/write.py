"""All pages of the site, written into a folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import calculators
from graph_runtime import REGISTRY
from website.calculator_pages import calculator_pages
from website.drawings import draw_file
from website.http_api import http_api_page
from website.metric_page import metric_page
from website.python_api import python_pages
from website.repository_pages import RepositoryPages


def write_site(folder: Path) -> None:
    """Write the pages of the repository, and those made from the code."""
    calculators.register_all(REGISTRY)
    generated = {
        **calculator_pages(REGISTRY),
        **python_pages(),
        "reference/http_api.md": http_api_page(),
        "reference/metric_families.md": metric_page(),
    }
    written = RepositoryPages(lambda file: draw_file(file, REGISTRY)).write(folder)
    clashes = written & generated.keys()
    assert not clashes, f"pages of the repository have the names of made ones: {clashes}"
    for path, text in generated.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    shutil.copytree(Path(__file__).with_name("assets"), folder / "assets")
    # The site and the server's page have one mark.
    mark = Path(__file__).parents[1] / "page" / "src" / "look" / "favicon.svg"
    shutil.copy(mark, folder / "assets" / "logo.svg")
