"""PDF files of requests, read in a real process."""

from __future__ import annotations

import asyncio
import base64
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pypdf")

from calculators.kit import installed_points
from calculators.kit.requests.http_payload import RequestError
from calculators.llm import pdf_files, pdf_messages
from calculators.llm.pdf_files import PdfFile, read_pdfs
from calculators.llm.pdf_process import MAX_PAGES, PdfError, html_text, pdf_pages
from tests.calculators.llm.made_pdfs import bomb, encrypted, pdf, pdf_of


def written(data: bytes) -> str:
    return base64.b64encode(data).decode()


def read(*files: bytes) -> list[str]:
    given = [PdfFile(written(data), f"messages[{i}]") for i, data in enumerate(files)]
    return asyncio.run(read_pdfs(given))


def children() -> set[str]:
    found = set()
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            stat, line = each.read_text(), (each.parent / "cmdline").read_text()
        except OSError:
            continue
        if int(stat.rpartition(")")[2].split()[1]) == os.getpid() and "llm.pdf_process" in line:
            found.add(each.parent.name)
    return found


def test_the_text_of_all_pages_is_read_and_the_process_ends() -> None:
    assert read(pdf("One", "Two"), pdf("Other")) == ["One\n\nTwo", "Other"]
    assert children() == set()


def test_a_file_that_unpacks_to_much_more_is_refused() -> None:
    with pytest.raises(RequestError) as raised:
        read(pdf("fine"), bomb())
    assert raised.value.param == "messages[1]"
    assert "the PDF unpacks to more than is read here" in str(raised.value)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"hello", "is not a PDF file"),
        (b"%PDF-1.7\n" + b"\0" * 100, "is broken"),
        (pdf("One")[:200], "is broken"),
        (pdf_of([b"0 0 m 10 10 l S"]), "has no text"),
        (encrypted("open", "RC4-128"), "is encrypted"),
        (encrypted("open", "AES-256"), "is encrypted"),
        (pdf_of([b""] * (MAX_PAGES + 1)), "1001 pages, which are more than the maximum 1000"),
    ],
)
def test_files_that_cannot_be_read_say_why(data: bytes, why: str) -> None:
    with pytest.raises(PdfError, match=why):
        pdf_pages(written(data))


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-128", "AES-256"])
def test_files_that_anyone_may_read_are_read(algorithm: str) -> None:
    assert pdf_pages(written(encrypted("", algorithm))) == ["Secret"]


def test_pages_have_a_limit_of_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calculators.llm.pdf_process.MAX_CHARACTERS", 8)
    assert pdf_pages(written(pdf("four", "four"))) == ["four", "four"]
    with pytest.raises(PdfError, match="more than the maximum of 8 characters"):
        pdf_pages(written(pdf("four", "five!")))


def test_what_is_no_base64_is_refused() -> None:
    with pytest.raises(PdfError, match="not written in Base64"):
        pdf_pages("JVBERi0*")


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed_points, "find_spec", lambda name: None)
    with pytest.raises(
        RequestError, match=r'extra "documents" \(pip install "graphrt\[documents\]"\)'
    ):
        read(pdf("One"))


def test_a_file_that_is_too_large_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf_messages, "MAX_BYTES", 9)
    with pytest.raises(RequestError, match="more than the maximum of 9 bytes"):
        read(pdf("One"))


def test_requests_wait_for_each_other_and_too_many_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pdf_files, "MOST_AT_A_TIME", 1)
    monkeypatch.setattr(pdf_files, "MOST_WAITING", 1)
    file = PdfFile(written(pdf("One")), "input")

    async def three() -> list[Any]:
        asked = (read_pdfs([file]) for _ in range(3))
        return await asyncio.gather(*asked, return_exceptions=True)

    answers = asyncio.run(three())
    assert answers[:2] == [["One"], ["One"]]
    assert isinstance(answers[2], RequestError)
    assert "too many PDF files wait" in str(answers[2])


PAGE = """<!DOCTYPE html><html><head><title>Not shown</title><style>p {}</style></head>
<body><h1>Geese &amp; ducks</h1><p>There are   <b>fourteen</b>
geese.</p><script>alert("no")</script><ul><li>grey</li><li>white</li></ul>
<table><tr><td>a</td><td>b</td></tr></table><pre>x  y
  z</pre></body></html>"""


def test_a_page_of_html_is_read_as_its_text() -> None:
    lines = [line for line in html_text(written(PAGE.encode())).splitlines() if line]
    assert lines == [
        "Geese & ducks",
        "There are fourteen geese.",
        "- grey",
        "- white",
        "\ta\tb",
        "x  y",
        "  z",
    ]


def test_a_page_that_is_no_text_is_refused() -> None:
    for content in (written(b"<html>\xff"), "*"):
        with pytest.raises(PdfError, match="is not text in UTF-8"):
            html_text(content)


def test_pages_need_no_library_and_share_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    file = PdfFile(written(PAGE.encode()), "messages[0]", is_html=True)
    monkeypatch.setattr(installed_points, "find_spec", lambda name: None)
    (text,) = asyncio.run(read_pdfs([file]))
    assert text.startswith("Geese & ducks")
    assert children() == set()
