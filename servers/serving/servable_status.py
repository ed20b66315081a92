"""States of servables as clients see them: in status answers and in errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from graph_runtime import UnavailableError
from servers.contract.data_plane import IndexEntry
from servers.contract.servable_states import SHOWN, ServableState
from servers.serving.loading import Loading

#: The note about a servable that the next request loads.
ON_DEMAND: Final = "available on demand: not loaded now, the next request loads it"

#: The repository's index has three states.
_INDEX_STATES: Final[dict[ServableState, str]] = {
    ServableState.START: "LOADING",
    ServableState.LOADING: "LOADING",
    ServableState.FAILED: "UNAVAILABLE",
    ServableState.AVAILABLE: "READY",
    ServableState.UNLOADING: "UNAVAILABLE",
    ServableState.END: "UNAVAILABLE",
    ServableState.ON_DEMAND: "READY",
}
_REASONS: Final[dict[ServableState, str]] = {
    ServableState.UNLOADING: "unloading",
    ServableState.END: "unloaded",
    ServableState.ON_DEMAND: ON_DEMAND,
}
#: The messages of `/v1/config` for states without a reason; the one of AVAILABLE is "OK".
_WORDS: Final[dict[ServableState, str]] = {
    ServableState.START: "not loaded yet",
    ServableState.LOADING: "loading",
    ServableState.UNLOADING: "unloading: no new requests; those in flight go on to their end",
    ServableState.END: "unloaded",
    ServableState.ON_DEMAND: ON_DEMAND,
}


def version_status(
    version: str,
    state: ServableState,
    reason: str = "",
    unavailable: str = "",
    note: str = "",
    loading: Loading | None = None,
) -> dict[str, object]:
    """Return one version for ``GET /v1/config``, as in OpenVINO Model Server, but with the reason.

    Args:
        reason: why the state is FAILED.
        unavailable: why the loaded servable cannot answer now: a resource is being made again.
        note: further text, for example that a newer version could not be loaded.
        loading: how far loading is, in a member that OpenVINO Model Server's answers do not have.
    """
    shown, code = SHOWN[state]
    reason = reason or _WORDS.get(state, "")
    if unavailable:
        shown, code, reason = "LOADING", "UNKNOWN", unavailable
    text = "; ".join(each for each in (reason, note) if each) or code
    found: dict[str, object] = {
        "version": version,
        "state": shown,
        "status": {"error_code": code, "error_message": text},
    }
    if loading is not None:
        found["loading"] = loading.as_json()
    return found


def index_entry(
    name: str, version: str, state: ServableState, reason: str = "", unavailable: str = ""
) -> IndexEntry:
    """Return one line of the repository's index; arguments as in `version_status`."""
    if unavailable:
        return IndexEntry(name, version, "UNAVAILABLE", unavailable)
    return IndexEntry(name, version, _INDEX_STATES[state], reason or _REASONS.get(state, ""))


def failure_of(versions: Iterable[tuple[str, str]]) -> str:
    """Return one text about the versions that failed, of their numbers and reasons; "" if none."""
    return "; ".join(f"version {number}: {reason}" for number, reason in versions)


def unavailable_error(what: str, state: ServableState, reason: str = "") -> UnavailableError:
    """Return the error for a call in a state other than AVAILABLE. ``what`` begins the sentence."""
    if state is ServableState.FAILED:
        return UnavailableError(f"{what} could not be loaded: {reason}")
    if state in (ServableState.START, ServableState.LOADING):
        return UnavailableError(f"{what} is still loading")
    return UnavailableError(f"{what} is not served any more")
