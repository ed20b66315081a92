"""Pulls from a hub on loopback: whole, interrupted, and lied to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.model_store.directory import ModelStore, read_origin
from servers.model_store.model_reference import ModelError, ModelReference
from servers.model_store.pull import Hub, PulledModel, pull
from tests.servers.model_store.loopback_hub import COMMIT, LoopbackHub
from tests.support.broken_files import INSTEAD

WEIGHTS = os.urandom(700_000)
FILES = {"model.gguf": WEIGHTS, "README.md": b"# A model\n", "LICENSE": b"free\n"}
REFERENCE = ModelReference("org/name")


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    with LoopbackHub({"org/name": dict(FILES)}) as started:
        yield started


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "models")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servers.model_store.pull.FIRST_PAUSE", 0.0)


def pulled(
    hub: LoopbackHub,
    store: ModelStore,
    reference: ModelReference = REFERENCE,
    *,
    overwrites: bool = False,
) -> PulledModel:
    store.directory.mkdir(exist_ok=True)
    return pull(reference, store, hub=Hub(hub.address), overwrites=overwrites)


def contents(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_a_model_is_whole_in_a_directory_of_its_name(hub: LoopbackHub, store: ModelStore) -> None:
    model = pulled(hub, store)
    assert model.is_new
    assert model.directory == store.directory / "org" / "name"
    here = contents(model.directory)
    assert here.pop("model.gguf") == WEIGHTS
    assert set(here) == {"graphrt_origin.json"}
    assert model.origin.commit == COMMIT
    assert model.origin.main_file == "model.gguf"
    assert read_origin(model.directory) == model.origin


def test_a_model_that_is_here_is_not_asked_for_again(hub: LoopbackHub, store: ModelStore) -> None:
    pulled(hub, store)
    hub.faults.status = 500
    assert not pulled(hub, store).is_new
    with pytest.raises(ModelError, match="answers 500"):
        pulled(hub, store, overwrites=True)


def test_a_name_that_is_taken_is_not_overwritten_unasked(
    hub: LoopbackHub, store: ModelStore
) -> None:
    hub.repositories["org/name"]["other.gguf"] = b"other"
    first = ModelReference("org/name", None, "model.gguf")
    second = ModelReference("org/name", None, "other.gguf")
    pulled(hub, store, first)
    with pytest.raises(ModelError, match=r"holds org/name@0123456789ab:model.gguf, not"):
        pulled(hub, store, second)
    model = pulled(hub, store, second, overwrites=True)
    assert contents(model.directory)["other.gguf"] == b"other"
    assert "model.gguf" not in contents(model.directory)


def test_a_connection_that_breaks_is_opened_again_where_it_broke(
    hub: LoopbackHub, store: ModelStore
) -> None:
    hub.faults.cut_after = 100_000
    model = pulled(hub, store)
    assert contents(model.directory)["model.gguf"] == WEIGHTS
    starts = [int(asked[6:-1]) if asked else 0 for _, asked in hub.reads]
    assert starts == sorted(set(starts))
    assert len(starts) >= 7


def test_a_hub_without_ranges_is_read_from_the_beginning(
    hub: LoopbackHub, store: ModelStore
) -> None:
    _interrupt(hub, store)
    hub.faults.has_ranges = False
    assert contents(pulled(hub, store).directory)["model.gguf"] == WEIGHTS


def test_an_interrupted_pull_leaves_no_model_and_goes_on_where_it_was(
    hub: LoopbackHub, store: ModelStore
) -> None:
    there = _interrupt(hub, store)
    assert not (store.directory / "org").exists()
    hub.reads.clear()
    assert contents(pulled(hub, store).directory)["model.gguf"] == WEIGHTS
    assert hub.reads == [("model.gguf", f"bytes={there}-")]
    assert not list((store.directory / ".downloads").glob("*/"))


def test_what_an_earlier_pull_left_wrong_is_read_again(hub: LoopbackHub, store: ModelStore) -> None:
    _interrupt(hub, store)
    (part,) = store.directory.rglob("*.part")
    part.write_bytes(b"\0" * part.stat().st_size)
    assert contents(pulled(hub, store).directory)["model.gguf"] == WEIGHTS


KINDS = [kind for kind in INSTEAD if kind != "forbidden"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_stands_in_the_place_of_an_earlier_pull_is_removed(
    hub: LoopbackHub, store: ModelStore, kind: str
) -> None:
    _interrupt(hub, store)
    (part,) = store.directory.rglob("*.part")
    INSTEAD[kind](part)
    assert contents(pulled(hub, store).directory)["model.gguf"] == WEIGHTS


def test_other_bytes_than_promised_are_refused(hub: LoopbackHub, store: ModelStore) -> None:
    hub.faults.content["model.gguf"] = os.urandom(len(WEIGHTS))
    with pytest.raises(ModelError, match="another checksum than the hub promises"):
        pulled(hub, store)
    assert not (store.directory / "org").exists()


@pytest.mark.parametrize(
    ("promised", "message"),
    [(800_000, "ends after 700000 of 800000 bytes"), (600_000, "is longer than the 600000 bytes")],
)
def test_sizes_that_are_lies_are_noticed(
    hub: LoopbackHub, store: ModelStore, promised: int, message: str
) -> None:
    hub.faults.promised["model.gguf"] = promised
    with pytest.raises(ModelError, match=message):
        pulled(hub, store)


def test_files_may_come_from_elsewhere(hub: LoopbackHub, store: ModelStore) -> None:
    hub.faults.redirects = True
    assert contents(pulled(hub, store).directory)["model.gguf"] == WEIGHTS


@pytest.mark.parametrize(
    ("status", "headers", "message", "hint"),
    [
        (401, {}, "has no model org/name for us", "HF_TOKEN"),
        (403, {"X-Error-Code": "GatedRepo"}, "org/name is gated", "ask for it at"),
        (404, {"X-Error-Code": "RepoNotFound"}, "has no model org/name for us", "name right"),
        (429, {"Retry-After": "7"}, "refuses further requests", "try again in 7 s"),
        (503, {}, "answers 503", "try again later"),
    ],
)
def test_a_hub_that_refuses_says_why(
    hub: LoopbackHub,
    store: ModelStore,
    status: int,
    headers: dict[str, str],
    message: str,
    hint: str,
) -> None:
    hub.faults.status, hub.faults.headers = status, headers
    with pytest.raises(ModelError, match=message) as info:
        pulled(hub, store)
    assert hint in str(info.value.hint)


def test_a_revision_that_is_not_there_is_named(hub: LoopbackHub, store: ModelStore) -> None:
    with pytest.raises(ModelError, match="org/name has no revision v9"):
        pulled(hub, store, ModelReference("org/name", "v9"))


def test_a_hub_that_is_down_is_named(hub: LoopbackHub, store: ModelStore) -> None:
    with LoopbackHub({}) as down:
        address = down.address
    with pytest.raises(ModelError, match=f"{address} does not answer"):
        pull(REFERENCE, store, hub=Hub(address))


def test_a_hub_that_never_answers_is_given_up(
    hub: LoopbackHub, store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servers.model_store.pull._TIMEOUT", 0.1)
    hub.faults.is_silent = True
    with pytest.raises(ModelError, match=r"does not answer \(ReadTimeout\)") as info:
        pulled(hub, store)
    assert "HTTPS_PROXY a proxy" in str(info.value.hint)


def test_a_hub_that_stands_still_is_given_up_and_its_bytes_are_kept(
    hub: LoopbackHub, store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servers.model_store.pull._TIMEOUT", 0.2)
    hub.faults.stalls_at = 300_000
    with pytest.raises(ModelError, match="does not answer"):
        pulled(hub, store)
    hub.faults.stalls_at = None
    monkeypatch.undo()
    monkeypatch.setattr("servers.model_store.pull.FIRST_PAUSE", 0.0)
    hub.reads.clear()
    assert contents(pulled(hub, store).directory)["model.gguf"] == WEIGHTS
    assert hub.reads == [("model.gguf", "bytes=300000-")]


def test_a_full_disk_is_noticed_before(
    hub: LoopbackHub, store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: _Usage(free=1000))
    with pytest.raises(ModelError, match=r"700.0 kB more are needed in .*, where 1.0 kB are free"):
        pulled(hub, store)
    assert not hub.reads


def test_two_pulls_at_once_do_not_meet(hub: LoopbackHub, store: ModelStore) -> None:
    refused: list[ModelError] = []

    class Meanwhile:
        weights = "int8"
        is_asked = False

        def check(self, size: int) -> int:
            return 0

        def prepare(self, files: Path, place: Path) -> tuple[Path, str]:
            with pytest.raises(ModelError, match="another process is downloading org/name") as info:
                pull(REFERENCE, store, hub=Hub(hub.address), preparation=self)
            refused.append(info.value)
            return files, ""

    hub.repositories["org/name"] = {"model.safetensors": WEIGHTS, "config.json": b"{}"}
    store.directory.mkdir()
    pull(REFERENCE, store, hub=Hub(hub.address), preparation=Meanwhile())
    assert refused


def test_the_client_of_older_libraries_reads_files_too(
    hub: LoopbackHub, store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = pytest.importorskip("requests", reason="the client of huggingface-hub before 1.0")
    utils = pytest.importorskip("huggingface_hub.utils")
    library = Hub(hub.address)
    listing = library.list_files(REFERENCE)
    with requests.Session() as session:
        monkeypatch.setattr(utils, "get_session", lambda: session)
        monkeypatch.setattr(utils, "hf_raise_for_status", lambda answer: answer.raise_for_status())
        for start in (0, 100_000):
            with library.open(REFERENCE, listing.commit, "model.gguf", start) as (begins, pieces):
                assert begins == start
                assert b"".join(pieces) == WEIGHTS[start:]


def test_a_key_is_sent_to_the_hub(
    hub: LoopbackHub, store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    pulled(hub, store)
    assert set(hub.authorizations) == {"Bearer hf_secret"}


class _Usage:
    def __init__(self, free: int) -> None:
        self.free = free


def _interrupt(hub: LoopbackHub, store: ModelStore) -> int:
    """Begin a pull that fails half-way; the bytes that are here then."""
    hub.faults.stuck_at = 400_000
    with pytest.raises(ModelError, match="breaks off its answers"):
        pulled(hub, store)
    hub.faults.stuck_at = None
    (part,) = store.directory.rglob("*.part")
    return part.stat().st_size
