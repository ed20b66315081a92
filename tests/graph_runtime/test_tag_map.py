"""Names of streams: the grammar, the order of ports, and refusals."""

from __future__ import annotations

import pytest

from graph_runtime import Code, GraphConfigError
from graph_runtime.language.tag_map import (
    TagIndexName,
    TagMap,
    is_stream_name,
    parse_tag_index,
    parse_tag_index_name,
    port_label,
)


@pytest.mark.parametrize(
    ("text", "tag", "index", "name"),
    [
        ("video", "", -1, "video"),
        ("_v2", "", -1, "_v2"),
        ("VIDEO:video", "VIDEO", 0, "video"),
        ("VIDEO:0:video", "VIDEO", 0, "video"),
        ("A_B2:17:v", "A_B2", 17, "v"),
        ("_:x", "_", 0, "x"),
    ],
)
def test_entries_have_tag_index_and_name(text: str, tag: str, index: int, name: str) -> None:
    assert parse_tag_index_name(text) == TagIndexName(tag, index, name)


@pytest.mark.parametrize(
    "text",
    ["", "Video", "VIDEO:Video", "VIDEO:", ":v", "video:v", "V:01:v", "V:-1:v", "V:1:2:v", "2v",
     "a b", "v\n", " v", "é"],
)  # fmt: skip
def test_invalid_entries_are_refused(text: str) -> None:
    with pytest.raises(GraphConfigError, match="TAG:index:name is invalid") as caught:
        parse_tag_index_name(text)
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert f'"{text}"' in str(caught.value)


@pytest.mark.parametrize(
    ("text", "place"),
    [("", ("", 0)), (":3", ("", 3)), ("TAG", ("TAG", 0)), ("TAG:2", ("TAG", 2))],
)
def test_places_have_tag_and_index(text: str, place: tuple[str, int]) -> None:
    assert parse_tag_index(text) == place


@pytest.mark.parametrize("text", ["tag", "TAG:", "TAG:x", "TAG:01", "3", "TAG:name"])
def test_invalid_places_are_refused(text: str) -> None:
    with pytest.raises(GraphConfigError, match="TAG:index is invalid"):
        parse_tag_index(text)


@pytest.mark.parametrize("index", ["10001", "999999999999", "1" * 5000])
def test_huge_indexes_are_refused(index: str) -> None:
    for parse, text in ((parse_tag_index_name, f"TAG:{index}:v"), (parse_tag_index, f"T:{index}")):
        with pytest.raises(GraphConfigError, match="is too large"):
            parse(text)


def test_ports_are_sorted_by_tag_and_index() -> None:
    ports = TagMap(["B:b", "plain", "A:1:a1", "A:0:a0", "second"])

    assert list(ports) == [("", 0), ("", 1), ("A", 0), ("A", 1), ("B", 0)]
    assert ports.names == ("plain", "second", "a0", "a1", "b")
    assert ports.tags() == ["", "A", "B"]
    assert [ports.id_of("A", 1), ports.id_of("B"), ports.id_of("C")] == [3, 4, -1]
    assert [ports.name_of("A", 1), ports.name_of("A", 2)] == ["a1", None]
    assert [len(ports), ports.num_entries(""), ports.num_entries("A")] == [5, 2, 2]
    assert [ports.has_tag("A"), ports.has_tag("C")] == [True, False]


def test_canonical_entries_name_indexes_only_where_a_tag_has_several() -> None:
    assert TagMap(["B:0:b", "x", "A:1:a1", "A:a0"]).entries() == [
        "x", "A:0:a0", "A:1:a1", "B:b",
    ]  # fmt: skip


def test_a_place_given_twice_is_refused() -> None:
    with pytest.raises(
        GraphConfigError,
        match='tag "T" index 0 already had a name "a" but is being reassigned a name "b"',
    ) as caught:
        TagMap(["T:a", "T:0:b"])
    assert caught.value.code is Code.FAILED_PRECONDITION


def test_a_gap_in_the_indexes_is_refused() -> None:
    with pytest.raises(GraphConfigError) as caught:
        TagMap(["T:1:a"])
    assert str(caught.value) == (
        'Not all indexes were assigned names.  Tag "T" has the following:\n'
        'index 0 name <missing>\nindex 1 name "a"'
    )


def test_a_large_gap_is_reported_in_few_words() -> None:
    with pytest.raises(GraphConfigError, match="Not all indexes") as caught:
        TagMap(["T:10000:a"])
    assert len(str(caught.value)) < 4000


def test_ports_have_short_names_in_messages() -> None:
    assert [port_label("", 0), port_label("T", 0), port_label("T", 2)] == [":0", "T", "T:2"]


def test_bare_names_are_checked() -> None:
    assert is_stream_name("video_2")
    assert not is_stream_name("VIDEO:video")
    assert not is_stream_name("")
