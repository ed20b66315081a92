"""Error texts for clients: one short line without the server's internals."""

from __future__ import annotations

import pytest

from servers.contract.failure import MAX_CHARS, clean


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text stays", "plain text stays"),
        ("two\r\nlines\x1b[31m", "two lines [31m"),
        ("cannot open /srv/models/tiny/model.xml now", "cannot open <path> now"),
        ('File "/usr/lib/python3/x.py", line 3', 'File "<path>", line 3'),
        (r"cannot open C:\models\tiny\a.xml", "cannot open <path>"),
        ("object at 0x7f3a2b1c0d00 died", "object at <address> died"),
        ("Exception from src/core/infer.cpp:109: Check failed", "Check failed"),
        ("see https://example.com/a/b/c", "see https://example.com/a/b/c"),
        ("it answers /v3/chat/completions", "it answers /v3/chat/completions"),
        ("; /v3/chat/completions has it, /v3/completions does not",) * 2,
        ("model org/name is loading", "model org/name is loading"),
        ("schema at #/properties/a", "schema at #/properties/a"),
        ("lone \ud800 surrogate", "lone ? surrogate"),
        ("right\u202eleft", "right left"),
    ],
)
def test_an_error_text_is_clean(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_a_long_text_is_cut() -> None:
    cut = clean("x" * 100_000)
    assert len(cut) == MAX_CHARS
    assert cut.endswith("...")
