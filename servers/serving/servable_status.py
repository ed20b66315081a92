"""How a state of what is served is told: to clients that ask for it, and to those it fails."""

from __future__ import annotations

from typing import Final

from graph_runtime import UnavailableError
from servers.contract.data_plane import IndexEntry
from servers.contract.servable_states import SHOWN, ServableState

#: Said of what the next request loads.
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
#: What `/v1/config` says of states that say nothing else; of AVAILABLE it says "OK".
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
) -> dict[str, object]:
    """One version in ``GET /v1/config``, as OpenVINO Model Server has it, but with the reason.

    Args:
        reason: why it is FAILED.
        unavailable: why what is loaded cannot answer now: what it needs is being made again.
        note: what else there is to know, such as that a newer one could not be loaded.
    """
    shown, code = SHOWN[state]
    reason = reason or _WORDS.get(state, "")
    if unavailable:
        shown, code, reason = "LOADING", "UNKNOWN", unavailable
    text = "; ".join(each for each in (reason, note) if each) or code
    return {
        "version": version,
        "state": shown,
        "status": {"error_code": code, "error_message": text},
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
