"""The page is small: all that a browser can ever load of it."""

from __future__ import annotations

import gzip
import re
from typing import Final

from tests.support.checkout import ROOT

SHIPPED: Final = ROOT / "servers" / "page" / "static"
MOST_BYTES: Final = 300_000
#: The licences of what is in the page; no view loads them.
NOTICES: Final = "THIRD_PARTY_NOTICES.txt.gz"


def test_the_whole_page_is_below_its_limit() -> None:
    sizes = {path.name: path.stat().st_size for path in SHIPPED.glob("*.gz")}
    del sizes[NOTICES]
    assert "index.html.gz" in sizes
    assert sum(sizes.values()) < MOST_BYTES, sorted(sizes.items(), key=lambda item: -item[1])[:8]


def test_the_page_loads_nothing_from_elsewhere() -> None:
    for path in SHIPPED.glob("*.gz"):
        if path.name == NOTICES or not path.name.endswith((".css.gz", ".html.gz")):
            continue
        text = gzip.decompress(path.read_bytes()).decode()
        assert not re.findall(r"(?:src|href)=[\"']?(?:https?:)?//|url\((?:https?:)?//", text), path


def test_the_notices_beside_the_sources_are_those_that_are_served() -> None:
    beside = ROOT / "page" / "THIRD_PARTY_NOTICES.txt"
    assert gzip.decompress((SHIPPED / NOTICES).read_bytes()) == beside.read_bytes()
