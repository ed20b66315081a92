"""Pages that run from top to bottom, as a reader follows them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.documents.page_run import check_output, follow
from tests.documents.site_pages import FOLLOWED
from tests.support.markdown import text_of


@pytest.mark.parametrize("page", FOLLOWED)
def test_every_command_of_the_page_prints_what_it_shows(page: str, tmp_path: Path) -> None:
    if "curl" in text_of(page) and shutil.which("curl") is None:
        pytest.skip("there is no curl here")
    follow(page, tmp_path)


def test_three_dots_stand_for_any_text_and_nothing_else_does() -> None:
    check_output("x", "one\ntwo\nthree\n", "one\n...\nthree\n")
    with pytest.raises(AssertionError, match="the page shows"):
        check_output("x", "one\ntwo\n", "one\nthree\n")
