"""One served graph: what the configuration says of it, and where it stands."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from typing import Final

from graph_runtime import GraphError, Registry, ValidationError
from graph_runtime.errors import reason_of
from graph_runtime.states import next_state
from servers.config import GraphEntry
from servers.graph_states import GRAPH_TRANSITIONS, SHOWN, GraphEvent, GraphState
from servers.loaded_graph import GraphSettings, LoadedGraph, load_graph

_log: Final = logging.getLogger(__name__)

#: The directories of an absolute path; no URL, and no ``type.googleapis.com/...``.
_DIRECTORIES: Final = re.compile(r"""(?<![\w.:/~-])(?:/[^\s/'"`,;:()]+)+/(?=[^\s/])""")


class GraphDefinition:
    """A graph by name, through loading, answering and retiring.

    Attributes:
        entry: its name and files.
        graph: what answers; None unless it is AVAILABLE.
        reason: why it could not be loaded, for clients: no paths of this machine; "" otherwise.
        created: when it was loaded, Unix time in seconds.
    """

    def __init__(self, entry: GraphEntry) -> None:
        self.entry = entry
        self.graph: LoadedGraph | None = None
        self.reason = ""
        self.created = 0
        self._state = GraphState.START

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def state(self) -> GraphState:
        return self._state

    async def load(self, registry: Registry, settings: GraphSettings | None = None) -> None:
        """Load it. A failure is logged and kept as `reason`, not raised."""
        self._move(GraphEvent.LOAD)
        self.reason = ""
        _log.info("%s: loading", self.name)
        start = time.monotonic()
        try:
            self.graph = await load_graph(self.entry, registry, settings)
        except Exception as error:
            self._fail(error)
            return
        except asyncio.CancelledError:
            self.reason = "its loading was interrupted"
            self._move(GraphEvent.LOAD_FAILED)
            raise
        for warning in self.graph.plan.warnings:
            _log.warning("%s: %s", self.name, warning)
        self.created = int(time.time())
        self._move(GraphEvent.LOADED)
        _log.info("%s: loaded in %.1f s", self.name, time.monotonic() - start)

    def _fail(self, error: Exception) -> None:
        text = _text_of(error)
        self.reason = without_directories(text, str(self.entry.directory))
        self._move(GraphEvent.LOAD_FAILED)
        # What graphrt reports says where and what; of the rest only the traceback tells.
        is_known = isinstance(error, GraphError) and not _log.isEnabledFor(logging.DEBUG)
        _log.error(
            "%s: could not be loaded: %s", self.name, text, exc_info=None if is_known else error
        )

    async def retire(self) -> None:
        """Take no new requests, wait for those in flight, close the resources."""
        if self._state in (GraphState.UNLOADING, GraphState.END):
            return
        graph, self.graph = self.graph, None
        self._move(GraphEvent.RETIRE)
        if graph is not None:
            try:
                await graph.close()
            except Exception:
                _log.exception("%s: its resources could not be closed", self.name)
        self._move(GraphEvent.UNLOADED)

    def status(self) -> dict[str, object]:
        """Its part of ``GET /v1/config``. Graphs have one version, as there."""
        state, code = SHOWN[self._state]
        message = self.reason or code
        unavailable = self.graph.unavailable_reason if self.graph is not None else ""
        if unavailable:
            # What its nodes need is being made again.
            state, code, message = "LOADING", "UNKNOWN", unavailable
        return {
            "model_version_status": [
                {
                    "version": "1",
                    "state": state,
                    "status": {"error_code": code, "error_message": message},
                }
            ]
        }

    def _move(self, event: GraphEvent) -> None:
        self._state = next_state(GRAPH_TRANSITIONS, self._state, event)


def without_directories(text: str, directory: str) -> str:
    """A text without absolute paths: of each, and of ``directory``, the last name is left.

    One line, for JSON and for logs of clients.
    """
    text = text.replace(directory + os.sep, "").replace(directory, os.path.basename(directory))
    return " ".join(_DIRECTORIES.sub("", text).split())


def _text_of(error: Exception) -> str:
    if isinstance(error, ValidationError):  # without the line above the findings
        return "\n".join(str(finding) for finding in error.findings)
    return reason_of(error)
