"""API key files: their lines, their checks, and changes of the file."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from calculators.kit.requests.client_identity import ClientIdentity
from calculators.kit.requests.http_payload import RequestError
from graph_runtime import Code
from servers.access import Access, ApiKeys, KeyFileError
from tests.support.unprivileged import forbidden, modes_count

CANARY = "sk-CANARY-7f3a"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def test_every_line_is_a_key_except_comments_and_empty_lines(file: Path) -> None:
    file.write_text(f"# of the web shop\n{CANARY}  \r\n\n  second\n#third\n")
    keys = ApiKeys.of_file(file)
    assert len(keys) == 2
    assert [keys.accepts(key) for key in (CANARY, "second")] == [True, True]
    for other in (
        "",
        "#third",
        "third",
        f"{CANARY} ",
        CANARY[:-1],
        f"{CANARY}x",
        "sécond",
        "\udcff",
    ):
        assert not keys.accepts(other), other


def test_a_key_may_have_a_priority(file: Path) -> None:
    file.write_text("plain\nhigh\tpriority=100\n  low   priority=1\n")
    access = Access(ApiKeys.of_file(file))
    priorities = [
        access.client(ClientIdentity("", "1"), None, key).priority
        for key in ("plain", "high", "low", "none")
    ]
    assert priorities == [10, 100, 1, 10]
    assert not ApiKeys.of_file(file).accepts("priority=1")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "there is no key in it: write one per line"),
        (b"\n# nothing\n\n", "there is no key in it"),
        (f"good\ntwo {CANARY}\n".encode(), "line 2 is not a key: a key has 1 to 512 letters"),
        (CANARY.encode() + b"\xff\xfe", "this is not text"),
        (f"{CANARY}é".encode(), "line 1 is not a key"),
        (f"{CANARY} two".encode(), "line 1 is not a key"),
        (f"{CANARY} priority=".encode(), "line 1: priority= after a key takes one number from 1"),
        (f"a\n{CANARY} priority=0".encode(), "line 2: priority= after a key takes one number"),
        (f"{CANARY} priority=101".encode(), "from 1 to 100; keys without it have 10"),
        (f"{CANARY} priority=-3".encode(), "priority= after a key"),
        (f"{CANARY} priority=1 priority=2".encode(), "priority= after a key"),
        (CANARY.encode() * 50, "line 1 is not a key"),
        (b"x\n" * 1_000_000, "too large for a file of keys"),
    ],
)
def test_an_invalid_file_is_refused_and_no_key_is_shown(
    file: Path, content: bytes, message: str
) -> None:
    file.write_bytes(content)
    with pytest.raises(KeyFileError) as caught:
        ApiKeys.of_file(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert message in str(caught.value)
    assert "CANARY" not in repr(caught.value)


def test_a_missing_file_is_refused(file: Path) -> None:
    with pytest.raises(KeyFileError, match="no such file or directory"):
        ApiKeys.of_file(file)


def test_a_changed_file_is_read_again(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text("first\n")
    keys = ApiKeys.of_file(file)
    file.write_text(f"{CANARY}\nthird\n")
    with caplog.at_level(logging.DEBUG):
        keys.read_again()
        assert [keys.accepts(key) for key in ("first", CANARY, "third")] == [False, True, True]
    assert "read again: 2 keys" in caplog.text
    assert "CANARY" not in caplog.text


@pytest.mark.parametrize("content", [None, "", f"{CANARY} {CANARY}"])
def test_a_file_that_becomes_invalid_changes_nothing(
    file: Path, content: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    file.write_text("first\n")
    keys = ApiKeys.of_file(file)
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    keys.read_again()
    assert keys.accepts("first")
    assert not keys.accepts("")
    assert "the keys that were read before stay" in caplog.text
    assert "CANARY" not in caplog.text
    file.write_text("second\n")
    keys.read_again()
    assert (keys.accepts("first"), keys.accepts("second")) == (False, True)


def test_a_file_that_may_not_be_read_for_a_while_is_read_afterwards(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file.write_text("first\n")
    keys = ApiKeys.of_file(file)
    with modes_count():
        file.write_text("second\n")
        with forbidden(file):
            for _ in range(2):
                keys.read_again()
            assert keys.accepts("first")
        keys.read_again()
    assert keys.accepts("second")
    assert caplog.text.count("permission denied") == 1


def test_a_key_that_is_replaced_by_one_of_equal_size_and_time_counts(file: Path) -> None:
    file.write_text("first\n")
    keys = ApiKeys.of_file(file)
    before = file.stat()
    file.write_text("other\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    keys.read_again()
    assert (keys.accepts("first"), keys.accepts("other")) == (False, True)


def test_a_file_that_every_user_may_read_gives_a_warning(file: Path) -> None:
    file.write_text("key\n")
    file.chmod(0o640)
    assert not ApiKeys.of_file(file).is_open_to_others
    file.chmod(0o644)
    assert ApiKeys.of_file(file).is_open_to_others


def test_no_key_is_stored_or_shown() -> None:
    keys = ApiKeys.of_text(CANARY, "$API_KEY")
    assert "CANARY" not in repr(keys) + repr(vars(keys)) + repr(Access(keys))


GUARDED = Access(ApiKeys.of_text("key", "here"), open_routes=("/metrics", "/v3/models*"))


@pytest.mark.parametrize(
    ("authorization", "api_key"),
    [
        ("Bearer key", None),
        ("bearer  key", None),
        (None, "key"),
        ("Bearer sk-placeholder", "key"),
        ("Bearer key", "other"),
    ],
)
def test_a_key_is_accepted_in_either_header(authorization: str | None, api_key: str | None) -> None:
    GUARDED.check("/v3/chat/completions", authorization, api_key)


@pytest.mark.parametrize(
    ("authorization", "api_key", "message"),
    [
        (None, None, "no API key: send `Authorization: Bearer KEY`, or `x-api-key: KEY`"),
        ("", "", "no API key"),
        ("key", None, "no API key"),
        ("Basic key", None, "no API key"),
        ("Bearer", None, "no API key"),
        ("Bearer ", None, "no API key"),
        ("Bearer nokey", None, "the API key is not valid"),
        ("Bearer key key", None, "the API key is not valid"),
        ("Bearer KEY", None, "the API key is not valid"),
        (None, "nokey", "the API key is not valid"),
    ],
)
def test_a_request_without_a_valid_key_is_refused(
    authorization: str | None, api_key: str | None, message: str
) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        GUARDED.check("/v3/chat/completions", authorization, api_key)
    assert caught.value.code is Code.UNAUTHENTICATED


@pytest.mark.parametrize(
    ("path", "is_open"),
    [
        ("/v2/health/live", True),
        ("/v2/health/ready", True),
        ("/grpc.health.v1.Health/Check", True),
        ("/inference.GRPCInferenceService/ServerReady", True),
        ("/metrics", True),
        ("/v3/models", True),
        ("/v3/models/a", True),
        ("/v2", False),
        ("/v2/health/live/", False),
        ("/v2/health/../models/a", False),
        ("/metrics/", False),
        ("//metrics", False),
        ("/v1/models", False),
        ("/v1/config", False),
        ("/inference.GRPCInferenceService/ModelInfer", False),
    ],
)
def test_open_routes_are_health_and_the_named_ones(path: str, is_open: bool) -> None:
    if is_open:
        GUARDED.check(path, None, None)
    else:
        with pytest.raises(RequestError):
            GUARDED.check(path, None, None)


def test_control_needs_to_be_allowed() -> None:
    Access().check_control()
    with pytest.raises(RequestError, match="cannot be changed over the network") as caught:
        Access(allows_control=False).check_control()
    assert caught.value.code is Code.PERMISSION_DENIED
