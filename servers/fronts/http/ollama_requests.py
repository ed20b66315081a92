"""Requests of Ollama's API that no graph answers: the models that are served, and changes of them.

Source: Ollama's documentation (``docs/api.md``) and its server (``api/types.go``).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from aiohttp import web

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.keep_alive import KEEP_ALIVE
from calculators.kit.requests.members import leave_out
from calculators.kit.tasks import ErrorForm, StreamForm, find_task
from graph_runtime import Code
from servers import version
from servers.contract.data_plane import DataPlane, ModelChanges, ModelDescription, PullProgress
from servers.contract.failure import clean
from servers.fronts.http.answer_streams import EventStream
from servers.fronts.http.body import read_json
from servers.fronts.http.browser_guard import BrowserGuard
from servers.fronts.http.errors import HttpError
from servers.fronts.http.exchange import Exchange, answer_in_events, object_answer
from servers.fronts.http.settings import HttpSettings

#: The tag that a name without one has.
_LATEST: Final = ":latest"
_NO_CHANGES: Final = (
    "clients may not download and remove models of this server; its operator can allow it with "
    "--allow_model_pulls and a config.json"
)
RUNNING: Final = "Ollama is running"
#: The end of what Ollama's clients take for "never".
_NEVER: Final = "9999-12-31T23:59:59Z"
_REFUSED: Final = {
    "copy": "models are not copied here: a config.json may serve one under several names",
    "create": "models are not created here: serve a directory or a GGUF file, with a graph of its "
    "own for prompts and defaults",
    "push": "models are not published from here",
    "blobs": "models are not created here from uploaded files",
}


def names_of(model: str) -> Iterator[str]:
    """Yield the names by which a model may be served that a client of Ollama's names so."""
    yield model
    if model.endswith(_LATEST):
        yield model.removesuffix(_LATEST)
    elif ":" not in model.rpartition("/")[2]:
        yield model + _LATEST


def no_model(name: str) -> HttpError:
    """Return the error for a model that is not served, in words that clients look for."""
    text = f"model '{clean(name)}' not found; /api/tags lists what is served"
    return HttpError(404, text, param="model", code="model_not_found")


def check_sender(request: web.BaseRequest, guard: BrowserGuard) -> None:
    """Check a request whose body may have any Content-Type, as with Ollama.

    Browsers let a page of any site send all but JSON without asking first.

    Raises:
        HttpError: 403, a page of another site sends it.
    """
    if request.headers.get("Content-Type", "") != "application/json":
        guard.check_page(request.headers)


def served_model(name: str, data_plane: DataPlane) -> ModelDescription:
    """Return the model that a client of Ollama's names so.

    Raises:
        HttpError: 404, there is none.
    """
    known = {each.name: each for each in data_plane.models()}
    for each in names_of(name):
        if each in known:
            return known[each]
    raise no_model(name)


def released_model(
    members: Mapping[str, Any], data_plane: DataPlane, settings: HttpSettings, *, is_all: bool
) -> str:
    """Return the model that is to be unloaded after a request, as its ``keep_alive`` asks; or "".

    A client may ask for that only where clients may unload models. A model that does not load on
    demand would be gone for others. Then the answer has a warning, or there is none if that
    ``is_all`` that the request asks for.

    Raises:
        RequestError: ``keep_alive`` is wrong, or the model stays.
        HttpError: 404, there is no such model.
    """
    keeps = members.get(KEEP_ALIVE.name)
    if keeps is None or KEEP_ALIVE.read(keeps, KEEP_ALIVE.name) != 0:
        return ""
    model = served_model(members["model"], data_plane)
    if not settings.access.allows_control:
        why = "clients may not unload models of this server"
    elif model.idle_seconds is None:
        why = "the model stays: it does not load on demand, and others may need it"
    else:
        return model.parent or model.name
    error = RequestError(f"keep_alive: {why}", param=KEEP_ALIVE.name, code=Code.PERMISSION_DENIED)
    if is_all:
        raise error
    leave_out(error)
    return ""


class OllamaRequests:
    """Answers requests about models."""

    def __init__(self, data_plane: DataPlane, settings: HttpSettings, guard: BrowserGuard) -> None:
        self._data_plane = data_plane
        self._settings = settings
        self._guard = guard

    async def answer(self, exchange: Exchange, action: str) -> web.StreamResponse:
        """Answer a request; ``action`` is the part of the path after ``/api/``.

        Raises:
            HttpError: the model is not served, or the action is none of this server's.
        """
        match action:
            case "version":
                return object_answer(exchange, {"version": version()})
            case "tags":
                return object_answer(
                    exchange, {"models": [*map(_listed, self._data_plane.models())]}
                )
            case "ps":
                models = (each for each in self._data_plane.models() if each.is_loaded)
                loaded = [_running(each) for each in models if not each.parent]
                return object_answer(exchange, {"models": loaded})
            case "show":
                return object_answer(exchange, _shown(self._named(await self._body(exchange))))
            case "pull" | "delete":
                self._settings.access.check_control()
                if (changes := self._settings.model_changes) is None:
                    raise HttpError(403, _NO_CHANGES)
                # Here and not by the keys alone: a page of another site has none, but may ask.
                self._guard.check_page(exchange.request.headers)
                body = await self._body(exchange)
                if action == "delete":
                    return await self._delete(exchange, changes, body)
                return await self._pull(exchange, changes, body)
            case _:
                raise HttpError(403, _REFUSED[action])

    async def _pull(
        self, exchange: Exchange, changes: ModelChanges, body: Mapping[str, Any]
    ) -> web.StreamResponse:
        name = _name_in(body)

        async def pull(emit: Callable[[str], object]) -> None:
            async with aclosing(changes.pull(name)) as progress:
                async for each in progress:
                    emit(_progress(each))
            await self._data_plane.reload()
            emit(_progress(PullProgress("success")))

        if body.get("stream") is False:
            await pull(lambda line: None)
            return object_answer(exchange, {"status": "success"})

        async def run(stream: EventStream) -> None:
            await pull(stream.emit)

        return await answer_in_events(exchange, ErrorForm.OLLAMA, run, StreamForm.LINES)

    async def _delete(
        self, exchange: Exchange, changes: ModelChanges, body: Mapping[str, Any]
    ) -> web.StreamResponse:
        model = self._named(body)
        if model.parent:
            raise HttpError(400, f"{clean(model.name)} is an adapter of {clean(model.parent)}")
        await changes.remove(model.name)
        await self._data_plane.reload()
        await changes.forget(model.name)
        return web.Response(headers=exchange.headers)

    async def _body(self, exchange: Exchange) -> dict[str, Any]:
        check_sender(exchange.request, self._guard)
        _, body = await read_json(exchange.request, self._settings, exchange.hold, types=None)
        if not isinstance(body, dict):
            raise HttpError(400, "the body must be a JSON object")
        return body

    def _named(self, body: Mapping[str, Any]) -> ModelDescription:
        """Return the model that a body names, as ``model`` or by the former name of that."""
        return served_model(_name_in(body), self._data_plane)


def _name_in(body: Mapping[str, Any]) -> str:
    """Return the model that a body names, as ``model`` or by the former name of that."""
    former = body.get("name")
    name = former if (named := body.get("model")) in (None, "") else named
    if not isinstance(name, str) or not isinstance(former, str | None):
        raise HttpError(400, "model must be the name of a model, as a string", param="model")
    return name


def _progress(progress: PullProgress) -> str:
    """Return a line of a download; its last member is a text, as no answer's last line has it."""
    counts = {"total": progress.total, "completed": progress.completed} if progress.total else {}
    return json.dumps({**counts, "status": progress.status}, separators=(",", ":")) + "\n"


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _details(model: ModelDescription) -> dict[str, Any]:
    card = model.card
    return {
        "parent_model": model.parent,
        "format": card.format,
        "family": card.architecture,
        "families": [card.architecture] if card.architecture else [],
        "parameter_size": str(card.facts.get("general.size_label", "")),
        "quantization_level": card.quantization,
    }


def _identity(model: ModelDescription) -> dict[str, Any]:
    # Ollama's digest is of a model's files. This one changes when the model is loaded again.
    seen = f"{model.name} {model.created} {model.card.size}"
    return {
        "name": model.name,
        "model": model.name,
        "size": model.card.size,
        "digest": sha256(seen.encode()).hexdigest(),
        "details": _details(model),
    }


def _listed(model: ModelDescription) -> dict[str, Any]:
    """Return a model as ``/api/tags`` lists it."""
    return {
        **_identity(model),
        "modified_at": _time(model.created),
        "capabilities": capabilities_of(model),
    }


def _running(model: ModelDescription) -> dict[str, Any]:
    """Return a model as ``/api/ps`` lists it: one in memory."""
    expires = _NEVER
    if model.idle_seconds is not None and model.idle_seconds != math.inf:
        expires = _time(time.time() + model.idle_seconds)
    length = model.facts.get("max_model_len")
    return {
        **_identity(model),
        "expires_at": expires,
        # Memory of a GPU is not told apart.
        "size_vram": 0,
        **({} if length is None else {"context_length": length}),
    }


def capabilities_of(model: ModelDescription) -> list[str]:
    """Return Ollama's words for what a model does; before it is loaded its task says it."""
    task = find_task(model.task)
    return list(model.card.capabilities or (() if task is None else task.capabilities))


def _shown(model: ModelDescription) -> dict[str, Any]:
    """Return a model as ``/api/show`` describes it."""
    card = model.card
    facts = dict(card.facts)
    if (length := model.facts.get("max_model_len")) is not None:
        facts[f"{card.architecture or 'model'}.context_length"] = length
    lines = [
        f"{name} {json.dumps(value)}"
        for name, values in card.defaults.items()
        for value in (values if isinstance(values, list) else [values])
    ]
    return {
        "modelfile": f"FROM {model.name}",
        "parameters": "\n".join(lines),
        "template": card.template,
        "details": _details(model),
        "model_info": facts,
        "capabilities": capabilities_of(model),
        "modified_at": _time(model.created),
    }
