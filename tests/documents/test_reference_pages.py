"""The pages that the site makes from the code, and the pictures of the documents."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

import calculators
from graph_runtime import REGISTRY
from servers.fronts.http.settings import HttpSettings
from servers.fronts.openapi.document import describe
from servers.operations.metrics.server_metrics import ServerMetrics
from tests.support.markdown import text_of
from website.calculator_pages import calculator_pages
from website.http_api import http_api_page
from website.model_tables import PAGE as MODELS_PAGE
from website.model_tables import with_tables
from website.pictures import FOLDER, pictures
from website.repository_pages import RepositoryPages


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    calculators.register_all(REGISTRY)
    return calculator_pages(REGISTRY)


def test_every_calculator_has_its_section_its_drawing_and_its_line(pages: dict[str, str]) -> None:
    sections = "\n".join(text for path, text in pages.items() if path.endswith(".md"))
    for name in (*calculators_of_graphrt(), *REGISTRY.subgraphs()):
        assert f"## {name}\n" in sections
        drawing = ElementTree.fromstring(pages[f"reference/calculators/{name}.svg"])
        assert drawing.tag.endswith("svg")
        assert f"[{name}](" in pages["reference/calculators/index.md"]


def calculators_of_graphrt() -> list[str]:
    return [
        name
        for name, each in REGISTRY.calculators().items()
        if each.__module__.startswith("calculators.")
    ]


def test_a_calculators_ports_and_options_are_listed(pages: dict[str, str]) -> None:
    page = pages["reference/calculators/language.md"]
    assert "| input | `REQUEST` | `GenerationRequest` |" in page
    assert "| `min_score` | `float` | `0.0` |" in page


def test_every_operation_of_the_server_is_described() -> None:
    page = http_api_page()
    for path, methods in describe(HttpSettings(), "demo", has_batches=True)["paths"].items():
        for method in methods.keys() & {"get", "post", "put", "delete"}:
            assert f"### `{method.upper()} {path}`" in page or f"`{path}`" in page


def test_the_page_about_metrics_names_every_family() -> None:
    page = text_of("docs/metrics.md")
    assert [each.name for each in ServerMetrics().families if f"`{each.name}`" not in page] == []


def test_the_pictures_are_those_of_the_graphs() -> None:
    for name, svg in pictures().items():
        assert (FOLDER / name).read_text(encoding="utf-8") == svg, (
            f"`python -m website.pictures` makes {name} anew"
        )


def test_links_of_a_page_lead_to_their_places_in_the_site() -> None:
    guard = "examples/graphs/guard/graph.pbtxt"
    text = f"See [limits](limits.md#a--b), [the guard](../{guard}) and:\n- one\n"
    adapted = RepositoryPages(lambda file: "").adapted(text, "docs/serving.md")
    assert adapted == (
        f"See [limits](limits.md#a-b), [the guard](source/{guard}.md) and:\n\n- one\n"
    )


def test_tables_of_models_are_those_of_the_declarations() -> None:
    page = MODELS_PAGE.read_text(encoding="utf-8")
    assert with_tables(page) == page, "run python -m website.model_tables"
