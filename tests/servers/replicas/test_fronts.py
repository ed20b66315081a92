"""Which fronts of a cluster have a name, and which is the last to use an application."""

from __future__ import annotations

import pytest

from servers.replicas import cluster
from servers.replicas.cluster import ClusterFronts, ClusterStore


class OneTable(ClusterStore):
    """A table of this process instead of Ray's."""

    def __init__(self) -> None:
        self._table: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self._table.get(key)

    def put(self, key: str, value: bytes) -> None:
        self._table[key] = value

    def delete(self, key: str) -> None:
        self._table.pop(key, None)

    def keys(self, prefix: str) -> list[str]:
        return sorted(key for key in self._table if key.startswith(prefix))


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> OneTable:
    monkeypatch.setattr(cluster, "_living_jobs", lambda: {"01", "02", "03"})
    return OneTable()


def test_fronts_of_one_config_have_a_name_in_common(store: OneTable) -> None:
    assert ClusterFronts(store, "/a/config.json", "01").claim("chat") is None
    assert ClusterFronts(store, "/a/config.json", "02").claim("chat") is None


def test_a_front_of_another_config_is_refused(store: OneTable) -> None:
    first = ClusterFronts(store, "/a/config.json", "02")
    assert first.claim("chat") is None
    # Whichever job began first: the other one serves the name.
    for job in ("01", "03"):
        other = ClusterFronts(store, "/b/config.json", job)
        held = other.claim("chat")
        assert held is not None
        assert held["config"] == "/a/config.json"
    assert first.claim("chat") is None
    first.release("chat")
    assert ClusterFronts(store, "/b/config.json", "03").claim("chat") is None


def test_a_dead_front_does_not_count(store: OneTable) -> None:
    dead = ClusterFronts(store, "/a/config.json", "00")
    assert dead.claim("chat") is None
    dead.use("app")
    front = ClusterFronts(store, "/b/config.json", "01")
    assert front.claim("chat") is None
    front.use("app")
    assert front.leave("app")


def test_the_last_front_ends_an_application(store: OneTable) -> None:
    first, second = (ClusterFronts(store, "/a/config.json", job) for job in ("01", "02"))
    first.use("app")
    second.use("app")
    assert not first.leave("app")
    assert second.leave("app")


DAMAGED = [
    b"", b"\xff", b"{", b"[]", b"null", b"{}", b"[" * 5000, b'{"pid": 1, "host": "h"}',
    b'{"pid": "1", "host": "h", "config": 3}',
]  # fmt: skip


@pytest.mark.parametrize("value", DAMAGED, ids=range(len(DAMAGED)))
def test_a_claim_that_cannot_be_read_counts_as_none(store: OneTable, value: bytes) -> None:
    store.put("name:chat:02", value)
    assert ClusterFronts(store, "/a/config.json", "03").claim("chat") is None
    assert ClusterFronts(store, "/b/config.json", "01").claim("chat") is not None
