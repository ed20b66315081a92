"""The browser of the tests of the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # Where there is no browser, the tests have been skipped.
    from tests.page.browsing import chromium

    with chromium() as started:
        yield started
