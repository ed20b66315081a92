"""How a state of what is served is told: to clients that ask for it, and to those it fails."""

from __future__ import annotations

from typing import Final

from graph_runtime import UnavailableError
from servers.data_plane import IndexEntry
from servers.servable_states import SHOWN, ServableState

#: The repository's index has three states.
_INDEX_STATES: Final[dict[ServableState, str]] = {
    ServableState.START: "LOADING",
    ServableState.LOADING: "LOADING",
    ServableState.FAILED: "UNAVAILABLE",
    ServableState.AVAILABLE: "READY",
    ServableState.UNLOADING: "UNAVAILABLE",
    ServableState.END: "UNAVAILABLE",
}
_REASONS: Final[dict[ServableState, str]] = {
    ServableState.UNLOADING: "unloading",
    ServableState.END: "unloaded",
}


def version_status(
    version: str, state: ServableState, reason: str = "", unavailable: str = ""
) -> dict[str, object]:
    """One version in ``GET /v1/config``, as OpenVINO Model Server has it, but with the reason.

    Args:
        unavailable: why what is loaded cannot answer now: what it needs is being made again.
    """
    shown, code = SHOWN[state]
    if unavailable:
        shown, code, reason = "LOADING", "UNKNOWN", unavailable
    return {
        "version": version,
        "state": shown,
        "status": {"error_code": code, "error_message": reason or code},
    }


def index_entry(
    name: str, version: str, state: ServableState, reason: str = "", unavailable: str = ""
) -> IndexEntry:
    """One line of the repository's index; arguments as of `version_status`."""
    if unavailable:
        return IndexEntry(name, version, "UNAVAILABLE", unavailable)
    return IndexEntry(name, version, _INDEX_STATES[state], reason or _REASONS.get(state, ""))


def unavailable_error(what: str, state: ServableState, reason: str = "") -> UnavailableError:
    """Why ``what``, the beginning of a sentence, does not answer in any state but AVAILABLE."""
    if state is ServableState.FAILED:
        return UnavailableError(f"{what} could not be loaded: {reason}")
    if state in (ServableState.START, ServableState.LOADING):
        return UnavailableError(f"{what} is still loading")
    return UnavailableError(f"{what} is not served any more")
