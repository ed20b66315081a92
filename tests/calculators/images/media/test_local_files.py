"""Local files in requests: only those inside the one directory, however they are named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from calculators.images.media import reader
from calculators.images.media.reader import read_local_file


@pytest.fixture
def allowed(tmp_path: Path) -> Path:
    """Make a directory with a picture, a secret beside it, and links to it."""
    directory = tmp_path / "allowed"
    (directory / "inner").mkdir(parents=True)
    (tmp_path / "secret.png").write_bytes(b"secret")
    (tmp_path / "allowed_too").mkdir()
    (tmp_path / "allowed_too" / "x.png").write_bytes(b"secret")
    (directory / "a b.png").write_bytes(b"picture")
    (directory / "inner" / "b.png").write_bytes(b"inner")
    (directory / "link.png").symlink_to(tmp_path / "secret.png")
    (directory / "up").symlink_to(tmp_path)
    (directory / "same").symlink_to(directory / "inner")
    (directory / "circle").symlink_to(directory / "circle")
    os.mkfifo(directory / "pipe")
    return directory


def refused(url: str, directory: Path | str, **more: Any) -> str:
    with pytest.raises(ValueError, match=r"^.+$") as caught:
        read_local_file(url, str(directory), **more)
    return str(caught.value)


def test_paths_and_file_urls_are_read(allowed: Path) -> None:
    for url in (
        f"{allowed}/a b.png",
        "a b.png",
        f"file://{allowed}/a%20b.png",
        f"FILE://localhost{allowed}/a%20b.png",
    ):
        assert read_local_file(url, str(allowed)) == b"picture"
    assert read_local_file("inner/b.png", str(allowed)) == b"inner"


def test_links_inside_the_directory_and_to_it_are_followed(allowed: Path) -> None:
    assert read_local_file("same/b.png", str(allowed)) == b"inner"
    link = allowed.parent / "link"
    link.symlink_to(allowed)
    assert read_local_file(f"{link}/a b.png", str(link)) == b"picture"
    assert read_local_file(f"{allowed}/a b.png", str(link)) == b"picture"


@pytest.mark.parametrize(
    "url",
    [
        "/etc/passwd",
        "file:///etc/passwd",
        "{outside}/secret.png",
        "{outside}/allowed_too/x.png",
        "link.png",
        "up/secret.png",
        "{outside}/allowed/up/allowed_too/x.png",
        "{outside}/is_not_there.png",
        "circle",
    ],
)
def test_files_outside_are_neither_read_nor_revealed(allowed: Path, url: str) -> None:
    shown = refused(url.format(outside=allowed.parent), allowed)
    assert shown in (
        "the file is not in the directory that --allowed_local_media_path allows",
        "there is no such file, or it cannot be read",
    )
    if url != "circle":
        assert "not in the directory" in shown


@pytest.mark.parametrize(
    "url", ["../secret.png", "inner/../../secret.png", "inner/../a b.png", "file:///x/%2e%2e/y"]
)
def test_dots_are_refused_even_where_they_stay_inside(allowed: Path, url: str) -> None:
    assert refused(url, allowed) == 'a path with ".." is not allowed'


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("nothing.png", "there is no such file"),
        ("inner", "it is not a file"),
        (".", "it is not a file"),
        ("pipe", "it is not a file"),
        ("", "expected a data URI"),
        ("a\0b", "expected a data URI"),
        ("x" * 5000, "expected a data URI"),
        ("file://elsewhere/x.png", "a file: URL has no host"),
        ("file://[/x.png", "not a URL"),
        ("javascript:alert(1)", "there is no such file"),
    ],
)
def test_paths_that_are_not_files_are_refused(allowed: Path, url: str, reason: str) -> None:
    assert reason in refused(url, allowed)


def test_without_the_flag_no_file_is_read(allowed: Path) -> None:
    assert "--allowed_local_media_path" in refused(f"{allowed}/a b.png", "")


def test_a_link_created_after_the_check_is_not_followed(
    allowed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_inside = reader._open_inside

    def replaced(root: Path, path: Path) -> int:
        (allowed / "inner").rename(allowed / "was")
        (allowed / "inner").symlink_to(allowed.parent / "allowed_too")
        return open_inside(root, path)

    (allowed.parent / "allowed_too" / "b.png").write_bytes(b"secret")
    monkeypatch.setattr(reader, "_open_inside", replaced)
    assert "no such file" in refused("inner/b.png", allowed)


def test_a_file_has_a_limit(allowed: Path) -> None:
    assert refused("a b.png", allowed, most=3) == "the file is larger than 3 bytes"
