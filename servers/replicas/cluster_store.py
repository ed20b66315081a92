"""`ClusterStore`: small facts that all processes of a cluster share, in Ray's own table."""

from __future__ import annotations

import importlib
import json
import os
from typing import Any, Final

_NAMESPACE: Final = b"graphrt"


class ClusterStore:
    """Bytes by keys. They last as long as the cluster. All methods block: for threads."""

    def __init__(self) -> None:
        self._kv = importlib.import_module("ray.experimental.internal_kv")

    def get(self, key: str) -> bytes | None:
        found: bytes | None = self._kv._internal_kv_get(key, namespace=_NAMESPACE)
        return found

    def put(self, key: str, value: bytes) -> None:
        self._kv._internal_kv_put(key, value, overwrite=True, namespace=_NAMESPACE)

    def delete(self, key: str) -> None:
        self._kv._internal_kv_del(key, namespace=_NAMESPACE)

    def keys(self, prefix: str) -> list[str]:
        """Return the keys that begin with ``prefix``, in order."""
        found = self._kv._internal_kv_list(prefix, namespace=_NAMESPACE)
        return sorted(each.decode() for each in found)

    def items(self, prefix: str) -> dict[str, bytes]:
        """Return keys that begin with ``prefix``, without it, and their values."""
        found = {key.removeprefix(prefix): self.get(key) for key in self.keys(prefix)}
        return {key: value for key, value in found.items() if value is not None}


class Fronts:
    """The fronts of a cluster: which of them serve a name, and which use an application.

    A front is a job of Ray. Entries of a dead front do not count, and are removed. All methods
    block: for threads.
    """

    def __init__(self, store: ClusterStore, config: str, job: str) -> None:
        """``config``: what this front serves, for people; ``job``: Ray's id of this process."""
        self._store = store
        self._config = config
        self._job = job

    def claim(self, name: str) -> dict[str, Any] | None:
        """Serve a name beside fronts of the same config.

        Returns:
            The front of another config that has the name, with ``pid``, ``host`` and ``config``;
            None if there is none. Of two that claim at once, the one whose job began first wins.
        """
        me = {"pid": os.getpid(), "host": os.uname().nodename, "config": self._config}
        self._store.put(f"name:{name}:{self._job}", json.dumps(me).encode())
        other = self._other(name, served_too=True)
        if other is None:
            value = json.dumps({**me, "serves": True}).encode()
            self._store.put(f"name:{name}:{self._job}", value)
            other = self._other(name, served_too=False)
        if other is not None:
            self.release(name)
        return other

    def _other(self, name: str, *, served_too: bool) -> dict[str, Any] | None:
        """Return a front of another config that comes first: an earlier job, or one that serves."""
        for job, value in self._alive(f"name:{name}:").items():
            found = _claim_in(value)
            if found is None:
                continue
            is_first = job < self._job or (served_too and "serves" in found)
            if found["config"] != self._config and is_first:
                return found
        return None

    def release(self, name: str) -> None:
        """Give a name back."""
        self._store.delete(f"name:{name}:{self._job}")

    def use(self, application: str) -> None:
        """Note that this front uses an application."""
        self._store.put(f"use:{application}:{self._job}", b"1")

    def leave(self, application: str) -> bool:
        """Note that this front does not use an application any more. True: no front does."""
        self._store.delete(f"use:{application}:{self._job}")
        return not self._alive(f"use:{application}:")

    def _alive(self, prefix: str) -> dict[str, bytes]:
        """Return what other living fronts have put, by their jobs."""
        found = self._store.items(prefix)
        found.pop(self._job, None)
        if not found:
            return {}
        alive = _living_jobs()
        for job in found.keys() - alive:
            self._store.delete(prefix + job)
        return {job: value for job, value in found.items() if job in alive}


def _claim_in(value: bytes) -> dict[str, Any] | None:
    """Return what a front has put; None if it is damaged, or of another version."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return None
    needed = {"pid": int, "host": str, "config": str}
    if not isinstance(found, dict):
        return None
    is_whole = all(isinstance(found.get(name), kind) for name, kind in needed.items())
    return found if is_whole else None


def _living_jobs() -> set[str]:
    jobs = importlib.import_module("ray._private.state").jobs()
    return {each["JobID"] for each in jobs if not each.get("IsDead")}
