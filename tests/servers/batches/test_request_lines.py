"""Lines of input files: which are requests, and what is said of the others."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from servers.batches.batch_lines import (
    Findings,
    LineError,
    LineReader,
    check_lines,
    one_line,
    request_of,
)
from tests.servers.batches.samples import CHAT, line, lines_of


def checked(path: Path, content: bytes, *, most: int = 1000, endpoint: str = CHAT) -> Findings:
    path.write_bytes(content)
    with closing(LineReader(path, most_bytes=10_000)) as reader:
        return check_lines(reader, endpoint, most, lambda *_: True)


def test_lines_are_read_from_any_of_them_on(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\n   \n{"b": 2}\n{"c": 3}')
    with closing(LineReader(path, most_bytes=100)) as reader:
        found = list(reader)
    assert [(each.number, each.text) for each in found] == [
        (1, b'{"a": 1}'),
        (4, b'{"b": 2}'),
        (5, b'{"c": 3}'),
    ]
    with closing(LineReader(path, most_bytes=100, number=2, offset=found[0].end)) as reader:
        assert list(reader) == found[1:]


def test_a_line_that_is_too_long_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"1" * 100 + b"\n" + b"2" * 3_000_000 + b"\n{}\n" + b"3" * 101)
    with closing(LineReader(path, most_bytes=100)) as reader:
        found = list(reader)
    assert [(each.number, each.text) for each in found] == [
        (1, b"1" * 100),
        (2, None),
        (3, b"{}"),
        (4, None),
    ]
    with pytest.raises(LineError, match="line 2 is longer"):
        request_of(found[1], CHAT)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"custom_id": None}, "line 1 needs a `custom_id`"),
        ({"custom_id": 7}, "line 1 needs a `custom_id`"),
        ({"custom_id": ""}, "line 1 needs a `custom_id`"),
        ({"method": "GET"}, '`method` must be "POST"'),
        ({"url": 3}, "needs a `url`"),
        ({"url": "v1/x"}, "needs a `url`"),
        ({"url": "/v1/embeddings"}, "is not the endpoint of the batch, /v1/chat/completions"),
        ({"body": "text"}, "`body` must be a JSON object"),
        ({"body": {"stream": True}}, "`stream` must be false"),
    ],
)
def test_a_bad_line_is_explained(tmp_path: Path, changed: dict[str, Any], words: str) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(lines_of([line(1, **changed)]))
    with closing(LineReader(path, most_bytes=10_000)) as reader:
        (found,) = reader
    with pytest.raises(LineError, match=words):
        request_of(found, CHAT)


def test_an_endpoint_has_several_prefixes(tmp_path: Path) -> None:
    for url in ("/v1/chat/completions", "/v3/chat/completions", "/v3/v1/chat/completions"):
        assert not checked(tmp_path / "in", lines_of([line(1, url=url)])).errors


def test_bad_lines_do_not_fail_a_batch(tmp_path: Path) -> None:
    content = lines_of([line(1), "no json", "[]", line(2, body=None), line(3, method="PUT")])
    findings = checked(tmp_path / "in", content)
    assert (findings.total, findings.model, findings.errors) == (5, "demo", [])


@pytest.mark.parametrize(
    ("requests", "most", "expected"),
    [
        ([], 9, ("empty_file", None)),
        (["", "  "], 9, ("empty_file", None)),
        ([line(1), line(2), line(1)], 9, ("duplicate_custom_id", 3)),
        ([line(1), line(2, url="/v1/embeddings")], 9, ("invalid_url", 2)),
        ([line(1), line(2), line(3)], 2, ("too_many_requests", None)),
    ],
)
def test_a_batch_fails_as_a_whole(
    tmp_path: Path, requests: list[Any], most: int, expected: tuple[str, int | None]
) -> None:
    (error,) = checked(tmp_path / "in", lines_of(requests), most=most).errors
    assert (error.code, error.line) == expected


def test_without_an_endpoint_each_line_names_its_own(tmp_path: Path) -> None:
    content = lines_of([line(1), line(2, url="/v2/models/m/infer")])
    assert not checked(tmp_path / "in", content, endpoint="").errors


def test_a_check_ends_when_nobody_wants_it(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(lines_of(map(line, range(100))))
    with closing(LineReader(path, most_bytes=10_000)) as reader:
        assert check_lines(reader, CHAT, 10_000, lambda found, _: found.total < 70).total == 70


def test_an_answer_is_one_line() -> None:
    assert one_line(b' {"a": 1}\n') == b'{"a": 1}'
    found = one_line(b'{\n "a": "\xc3\xa4"\n}')
    assert found is not None
    assert b"\n" not in found
    assert json.loads(found) == {"a": "ä"}
    assert one_line(b"no json") is None
