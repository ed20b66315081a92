"""Requests about what is kept: OpenAI's responses, conversations and stored chat completions.

`KeptRequests.begin` looks at a request that runs a model before its graph gets it. It puts in what
the request continues, so that a graph sees one complete request whatever its client has sent, and
keeps the answer. Responses in the background run in tasks of their own.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import web
from msgspec import structs

from calculators.kit.requests import fields
from calculators.kit.requests.http_answer import ResponsePacket
from calculators.kit.requests.http_payload import ClientConnection, Continued, RequestError
from calculators.kit.requests.members import BOOLEAN, Members, Value, honoured, read_members, table
from calculators.kit.requests.request_record import RequestRecord
from calculators.kit.tasks import ErrorForm
from graph_runtime import Code
from servers.batches.objects import StoreError, read_metadata, unix_seconds
from servers.fronts.http.answer_streams import DONE, EventStream
from servers.fronts.http.body import read_json
from servers.fronts.http.browser_guard import BrowserGuard
from servers.fronts.http.errors import HttpError, http_error
from servers.fronts.http.exchange import (
    Exchange,
    ListPage,
    answer_in_events,
    json_answer,
    object_answer,
    owner_of,
    query_of,
)
from servers.fronts.http.routes import Endpoint, Route
from servers.fronts.http.settings import HttpSettings
from servers.kept import items as kept_items
from servers.kept.desk import KeptDesk
from servers.kept.items import JsonObject
from servers.kept.store import KeptBounds, KeptKind, KeptObject, KeptStatus, ResponseStore
from servers.operations.request_log import RequestEnd, RequestJournal

_NOTHING: Final = Continued()
#: Members that are the front's business.
_STORE_MEMBERS: Final = table(
    *(honoured(name, Value()) for name in ("previous_response_id", "conversation")),
    *(honoured(name, BOOLEAN) for name in ("background", "store")),
)
_OF_STORE: Final = _STORE_MEMBERS.keys()
#: Responses that one server process makes in the background at a time.
MOST_IN_BACKGROUND: Final = 256
#: Seconds for which a request in the background waits for the first event, so that one that is
#: refused is answered so.
_REFUSED_SECONDS: Final = 1.0
_METADATA: Final = re.compile(r"metadata\[(.*)\]", re.DOTALL)
_LONGEST_ID: Final = 256

_RESPONSES: Final = "/responses"
_CHATS: Final = "/chat/completions"
_TRUTHS: Final = {"true": True, "1": True, "false": False, "0": False}

#: Runs the graph of a request for a client, with a record.
RunFor = Callable[
    [ClientConnection, RequestRecord, Callable[[ResponsePacket], None]], Awaitable[None]
]


class AnswerKeeper:
    """One request of which the answer is kept, or that continues what is kept.

    Attributes:
        body: the body for the graph.
        raw: the same as JSON; None: the client's own bytes are.
        continued: for the graph.
        is_background: the answer does not depend on its client.
    """

    def __init__(
        self,
        desk: KeptDesk,
        body: JsonObject,
        kept: KeptObject | None = None,
        *,
        continued: Continued = _NOTHING,
        raw: bytes | None = None,
        is_background: bool = False,
    ) -> None:
        """``kept``: what is kept, without the answer; None: nothing is."""
        self.body = body
        self.raw = raw
        self.continued = continued
        self.is_background = is_background
        self._desk = desk
        self._kept = kept
        #: Events of which the answer is made: of a chat all, of a response the last.
        self._events: list[bytes] = []
        self._held: list[str | bytes] = []

    def watch(self, packet: str | bytes) -> str | bytes:
        """Take a piece of a stream; return what may be sent at once.

        Where several processes share the store, the end waits until the answer is in it: the
        client's next request may reach another process.
        """
        kept = self._kept
        if self._held:
            self._held.append(packet)
            return b""
        if kept is None or not packet:
            return packet
        data = packet.encode("utf-8", "replace") if isinstance(packet, str) else packet
        is_chat = kept.kind is KeptKind.CHAT
        has_ended = DONE in data if is_chat else kept_items.ended_response(data) is not None
        if is_chat or has_ended:
            self._events.append(data)
        if not has_ended:
            return packet
        if self._desk.is_shared:
            self._held.append(packet)
            return b""
        self._keep_events(kept)
        return packet

    async def end(self, body: bytes | None, emit: Callable[[str | bytes], None]) -> None:
        """Keep the answer, which is complete, before its client gets the end of it.

        Args:
            body: of an answer that is whole.
            emit: sends the last pieces of a stream.
        """
        kept, waiting = self._kept, None
        if kept is not None and body is not None:
            waiting = self._desk.keep(kept, body)
        elif kept is not None and self._held:
            waiting = self._keep_events(kept)
        if waiting is not None and self._desk.is_shared:
            await asyncio.wrap_future(waiting)
        self.release(emit)

    def release(self, emit: Callable[[str | bytes], None]) -> None:
        """Send what was held back."""
        held, self._held = self._held, []
        for packet in held:
            emit(packet)

    def _keep_events(self, kept: KeptObject) -> Future[None]:
        self._kept = None
        make = kept_items.completion_of if kept.kind is KeptKind.CHAT else kept_items.ended_response
        return self._desk.keep(kept, b"".join(self._events), make)

    def in_background(self) -> KeptObject:
        """Return the response as it is before its graph has begun."""
        assert self._kept is not None
        names = ("model", "instructions", "metadata", "tools", "user")
        queued = {
            "id": self.continued.id,
            "object": "response",
            "created_at": unix_seconds(),
            "status": KeptStatus.QUEUED,
            "error": None,
            "incomplete_details": None,
            "output": [],
            "usage": None,
            **{name: self.body.get(name) for name in names},
            **self.continued.echo,
        }
        return structs.replace(self._kept, body=msgspec.json.encode(queued))


class KeptRequests:
    """Answers the requests of one front about what is kept."""

    def __init__(
        self, settings: HttpSettings, guard: BrowserGuard, journal: RequestJournal
    ) -> None:
        self._settings = settings
        self._guard = guard
        self._journal = journal
        store = settings.response_store
        self._desk = KeptDesk(
            KeptBounds(
                settings.max_stored_responses,
                settings.max_stored_response_bytes,
                int(settings.stored_response_minutes * 60),
            ),
            None if store is None else Path(store),
            is_shared=settings.shares_port,
        )

    async def open(self) -> None:
        """Open the store.

        Raises:
            StoreError: its directory cannot be used.
        """
        await self._desk.ask(lambda store: None)

    async def finish(self) -> None:
        """Wait for what is answered in the background."""
        await self._desk.finish()

    async def close(self) -> None:
        """End what is answered in the background, and close the store."""
        await self._desk.close()

    async def answer(self, exchange: Exchange, route: Route) -> web.StreamResponse:
        """Answer a request of `servers.fronts.http.routes.OF_KEPT`.

        Raises:
            Exception: nothing has been sent; the answer is `http_error` of it.
        """
        method = exchange.request.method
        if method == "DELETE":
            self._guard.check_page(exchange.request.headers)
        owner = owner_of(exchange.record, self._settings)
        try:
            match route.endpoint:
                case Endpoint.RESPONSE | Endpoint.RESPONSE_ITEMS | Endpoint.RESPONSE_CANCEL:
                    return await self._of_response(exchange, route, owner)
                case Endpoint.CHATS | Endpoint.CHAT | Endpoint.CHAT_MESSAGES:
                    return await self._of_chats(exchange, route, owner)
                case _:
                    return await self._of_conversation(exchange, route, owner)
        except StoreError as error:
            raise _store_error(error) from None

    # Requests that run a model --------------------------------------------------------------------

    async def begin(self, exchange: Exchange, body: JsonObject, raw: bytes) -> AnswerKeeper | None:
        """Look at a request before its graph gets it; None: it has nothing to do with the store.

        Of chat completions only the ones to store come here.

        Args:
            body: the parsed body, which is not changed.
            raw: its bytes, which are kept until the answer is complete.

        Raises:
            HttpError: a member about what is kept is wrong.
            RequestError: what it continues is not kept.
        """
        endpoint = exchange.endpoint
        path = "" if endpoint is None else endpoint.path
        owner = owner_of(exchange.record, self._settings)
        if path == _CHATS:
            if (metadata := body.get("metadata")) is not None:
                read_metadata(metadata, "metadata")
            kept = KeptObject(kind=KeptKind.CHAT, owner=owner, request=raw)
            return AnswerKeeper(self._desk, body, kept)
        try:
            return await self._begin_response(path, owner, body, raw)
        except StoreError as error:
            raise _store_error(error) from None

    async def _begin_response(
        self, path: str, owner: str, body: JsonObject, raw: bytes
    ) -> AnswerKeeper | None:
        # The graph does not see these members, and cannot check them.
        own = read_members({name: body[name] for name in body.keys() & _OF_STORE}, _STORE_MEMBERS)
        previous = _id_in(own.get("previous_response_id"), "previous_response_id")
        conversation = own.get("conversation")
        if isinstance(conversation, dict):
            conversation = _id_in(conversation.get("id", ""), "conversation.id")
        conversation = _id_in(conversation, "conversation")
        if previous and conversation:
            text = "a request has either previous_response_id or conversation, not both"
            raise HttpError(400, text, param="conversation")
        is_background = own.get("background", False)
        is_stored = path == _RESPONSES and own.get("store", True)
        if is_background and not is_stored:
            text = "a response in the background is read by its id, so it must be stored"
            raise HttpError(400, text, param="store")
        given = body.get("input")
        has_references = isinstance(given, list) and any(map(kept_items.is_reference, given))
        continues = bool(previous or conversation or has_references)
        if not (continues or is_stored):
            return None
        kept_request, earlier, encoded = raw, 0, None
        changed = {name: value for name, value in body.items() if name not in _OF_STORE}
        if continues:
            context = await self._desk.ask(
                lambda store: store.context(
                    owner,
                    body,
                    previous=previous,
                    conversation=conversation,
                    most_bytes=self._settings.max_body_bytes,
                )
            )
            kept_request, earlier = context.own, context.earlier
            if context.input:
                changed["input"] = context.input
            encoded = await asyncio.to_thread(msgspec.json.Encoder().encode, changed)
        if is_background:
            changed["stream"] = True
        echo: JsonObject = {"store": is_stored, "previous_response_id": previous or None}
        if conversation:
            echo["conversation"] = {"id": conversation}
        if is_background:
            echo["background"] = True
        kept = KeptObject(
            kind=KeptKind.RESPONSE,
            owner=owner,
            request=kept_request,
            previous=previous,
            conversation=conversation,
        )
        source = "conversation" if conversation else "previous_response_id"
        return AnswerKeeper(
            self._desk,
            changed,
            kept if is_stored else None,
            continued=Continued(_new_id(), earlier, source, echo),
            raw=encoded,
            is_background=is_background,
        )

    async def run(
        self, exchange: Exchange, answer: AnswerKeeper, run_for: RunFor, *, is_stream: bool
    ) -> web.StreamResponse:
        """Answer a request in the background: with the response as it is after a moment.

        ``is_stream``: its client wants its events, and may leave.

        Raises:
            Exception: the graph has refused the request.
        """
        if self._desk.running >= MOST_IN_BACKGROUND:
            text = f"{MOST_IN_BACKGROUND} responses are being made in the background"
            raise HttpError(429, text, headers={"Retry-After": "1"})
        hold = await exchange.hold.room.admit(exchange.hold.counted)
        headers, path = exchange.request.headers, exchange.request.raw_path.partition("?")[0]
        model, client = exchange.record.model, exchange.record.client
        records: list[RequestRecord] = []

        async def run(gone: ClientConnection, emit: Callable[[ResponsePacket], None]) -> None:
            # A record of its own: the tokens are not of the request that began it.
            record = self._journal.begin(exchange.request_id, headers.get)
            record.model, record.client = model, client
            records.append(record)
            status = 200
            try:
                async with asyncio.timeout(self._settings.request_seconds or None):
                    await run_for(gone, record, emit)
            except TimeoutError:
                status = 504
                text = f"the response was not complete within {self._settings.request_seconds:g} s"
                raise RequestError(text, code=Code.DEADLINE_EXCEEDED, detail=text) from None
            except asyncio.CancelledError:
                status = 499
                raise
            except Exception as error:
                status = http_error(error, exchange.request_id).status
                raise
            finally:
                hold.release()
                end = RequestEnd("http", "POST", path, path, status, is_failure=status >= 500)
                self._journal.end(record, end)

        response_id = answer.continued.id
        owner = owner_of(exchange.record, self._settings)
        # In a thread: its tools and instructions may be long.
        queued = await asyncio.to_thread(answer.in_background)
        begun = await self._desk.begin(queued, response_id, run)
        await begun.has_begun(_REFUSED_SECONDS)
        exchange.record.warnings = records[0].warnings if records else ()
        if begun.error is not None and not begun.has_events:
            await self._desk.ask(lambda store: store.delete(response_id, owner, KeptKind.RESPONSE))
            raise begun.error
        exchange.forget_deadline()
        if is_stream:
            return await self._follow(exchange, response_id, owner, -1)
        body, _ = await self._desk.ask(lambda store: store.response(response_id, owner))
        return json_answer(exchange, body)

    async def _follow(
        self, exchange: Exchange, response_id: str, owner: str, after: int
    ) -> web.StreamResponse:
        """Answer with the events of a response in the background, until it ends."""
        desk, client = self._desk, exchange.client

        async def run(stream: EventStream) -> None:
            last = after
            while True:
                found = desk.run_of(response_id)
                writes = 0 if found is None else found.writes
                pieces, is_over = await desk.ask(
                    partial(ResponseStore.events, response_id=response_id, owner=owner, after=last)
                )
                for number, event in (
                    pair for text in pieces for pair in kept_items.split_events(text)
                ):
                    if number is None or number <= last:
                        continue  # `[DONE]`, which the last piece has, and what is known
                    if not client.is_writable:
                        await client.writable()
                    stream.emit(event)
                    last = number
                if is_over:
                    break
                if not pieces:
                    await desk.wait_for_more(found, writes)
            stream.emit(await self._last_event(response_id, owner, last))

        return await answer_in_events(exchange, ErrorForm.OPENAI, run)

    async def _last_event(self, response_id: str, owner: str, last: int) -> bytes:
        """Return what ends the events of a response; one that broke off has no last event."""
        body, status = await self._desk.ask(lambda store: store.response(response_id, owner))
        if status is not KeptStatus.FAILED:
            return DONE
        return (
            b'event: response.failed\ndata: {"type":"response.failed","sequence_number":%d'
            b',"response":%b}\n\n%b' % (last + 1, body, DONE)
        )

    # Responses ------------------------------------------------------------------------------------

    async def _of_response(
        self, exchange: Exchange, route: Route, owner: str
    ) -> web.StreamResponse:
        desk, item = self._desk, _known_id(route.item, KeptKind.RESPONSE)
        if route.endpoint is Endpoint.RESPONSE_CANCEL:
            self._guard.check_page(exchange.request.headers)
            body = await desk.ask(lambda store: store.cancel(item, owner))
            if (run := desk.run_of(item)) is not None:
                run.stop()
            return json_answer(exchange, body)
        if exchange.request.method == "DELETE":
            await desk.ask(lambda store: store.delete(item, owner, KeptKind.RESPONSE))
            if (run := desk.run_of(item)) is not None:
                run.stop()
            return object_answer(exchange, {"id": item, "object": "response", "deleted": True})
        query = query_of(exchange.request)
        if route.endpoint is Endpoint.RESPONSE_ITEMS:
            page = ListPage.of(query)
            return await self._list(
                exchange, lambda store: page.cut(store.input_items(item, owner))
            )
        if not _truth(query, "stream"):
            body, _ = await desk.ask(lambda store: store.response(item, owner))
            return json_answer(exchange, body)
        after = query.get("starting_after", "")
        if after and not (after.isascii() and after.isdigit() and len(after) < 10):
            text = "starting_after must be the number of an event, from 0 on"
            raise HttpError(400, text, param="starting_after")
        if not await desk.ask(lambda store: store.has_events(item, owner)):
            text = "only a response with `background: true` keeps its events"
            raise HttpError(400, text, param="stream")
        return await self._follow(exchange, item, owner, int(after) if after else -1)

    # Conversations --------------------------------------------------------------------------------

    async def _of_conversation(
        self, exchange: Exchange, route: Route, owner: str
    ) -> web.StreamResponse:
        desk, method = self._desk, exchange.request.method
        if route.endpoint is Endpoint.CONVERSATIONS:
            asked = await self._read(exchange, kept_items.CONVERSATION_MEMBERS)
            made = f"conv_{os.urandom(16).hex()}"
            metadata, items = asked.get("metadata") or {}, asked.get("items") or []
            return await self._object(
                exchange, lambda store: store.add_conversation(made, owner, metadata, items)
            )
        known = _known_id(route.item, KeptKind.CONVERSATION)
        if route.endpoint is Endpoint.CONVERSATION:
            if method == "DELETE":
                await desk.ask(lambda store: store.delete(known, owner, KeptKind.CONVERSATION))
                gone = {"id": known, "object": "conversation.deleted", "deleted": True}
                return object_answer(exchange, gone)
            if method == "POST":
                await self._set_metadata(exchange, known, owner, KeptKind.CONVERSATION)
            return await self._object(exchange, lambda store: store.conversation(known, owner))
        if route.endpoint is Endpoint.CONVERSATION_ITEM:
            part = route.part
            if method == "DELETE":
                await desk.ask(lambda store: store.delete_item(known, owner, part))
                return await self._object(exchange, lambda store: store.conversation(known, owner))
            return await self._object(exchange, lambda store: store.item(known, owner, part))
        if method == "POST":
            asked = await self._read(exchange, kept_items.ADDED_ITEMS_MEMBERS)
            return await self._list(
                exchange, lambda store: (store.add_items(known, owner, asked["items"]), False)
            )
        page = ListPage.of(query_of(exchange.request))
        return await self._list(
            exchange,
            lambda store: store.items(
                known, owner, after=page.after, limit=page.limit, ascending=page.ascending
            ),
        )

    async def _object(
        self, exchange: Exchange, work: Callable[[ResponseStore], JsonObject]
    ) -> web.Response:
        """Answer with what ``work`` returns, encoded in the store's thread: it may be long."""
        body = await self._desk.ask(lambda store: msgspec.json.encode(work(store)))
        return json_answer(exchange, body)

    async def _list(
        self, exchange: Exchange, work: Callable[[ResponseStore], tuple[list[JsonObject], bool]]
    ) -> web.Response:
        """Answer with the page that ``work`` returns, and whether there are more."""

        def page(store: ResponseStore) -> JsonObject:
            data, has_more = work(store)
            return {"object": "list", **ListPage.members(data, has_more=has_more)}

        return await self._object(exchange, page)

    async def _read(self, exchange: Exchange, members: Members) -> JsonObject:
        """Return the checked members of a JSON body; without a body, none."""
        request = exchange.request
        if not request.body_exists and not any(each.is_required for each in members.values()):
            self._guard.check_page(request.headers)
            return {}
        _, body = await read_json(request, self._settings, exchange.hold)
        if not isinstance(body, dict):
            raise HttpError(400, "the body must be a JSON object")
        found = read_members(body, members)
        for name, member in members.items():
            if member.is_required and found.get(name) is None:
                raise fields.missing(name)
        return found

    async def _set_metadata(
        self, exchange: Exchange, item: str, owner: str, kind: KeptKind
    ) -> None:
        asked = await self._read(exchange, kept_items.METADATA_MEMBERS)
        metadata = asked["metadata"]
        await self._desk.ask(lambda store: store.set_metadata(item, owner, kind, metadata))

    # Chat completions -----------------------------------------------------------------------------

    async def _of_chats(self, exchange: Exchange, route: Route, owner: str) -> web.StreamResponse:
        desk, query = self._desk, query_of(exchange.request)
        if route.endpoint is Endpoint.CHATS:
            page = ListPage.of(query, order="asc")
            metadata = {
                found[1]: value
                for name, value in query.items()
                if (found := _METADATA.fullmatch(name)) is not None
            }
            return await self._list(
                exchange,
                lambda store: store.chats(
                    owner,
                    model=query.get("model"),
                    metadata=metadata,
                    after=page.after,
                    limit=page.limit,
                    ascending=page.ascending,
                ),
            )
        item = _known_id(route.item, KeptKind.CHAT)
        if route.endpoint is Endpoint.CHAT_MESSAGES:
            page = ListPage.of(query, order="asc")
            return await self._list(
                exchange, lambda store: page.cut(store.chat_messages(item, owner))
            )
        if exchange.request.method == "DELETE":
            await desk.ask(lambda store: store.delete(item, owner, KeptKind.CHAT))
            gone = {"id": item, "object": "chat.completion.deleted", "deleted": True}
            return object_answer(exchange, gone)
        if exchange.request.method == "POST":
            await self._set_metadata(exchange, item, owner, KeptKind.CHAT)
        return await self._object(exchange, lambda store: store.chat(item, owner))


def _new_id() -> str:
    """Return an id of 128 random bits; the time before them keeps new ids together in the store."""
    return f"resp_{unix_seconds():08x}{os.urandom(16).hex()}"


def _id_in(value: object, param: str) -> str:
    """Return an id of a body; "" if there is none.

    Raises:
        HttpError: 400, it is no text.
    """
    if value is None:
        return ""
    if not isinstance(value, str) or not value:
        raise HttpError(400, f"{param} must be an id, as a string", param=param)
    return value


def _known_id(item: str, kind: KeptKind) -> str:
    """Return an id of a path, unless nothing can have it.

    Raises:
        RequestError: NOT_FOUND.
    """
    if len(item) > _LONGEST_ID:
        raise kept_items.not_kept(kind, item)
    return item


def _truth(query: Mapping[str, str], name: str) -> bool:
    text = query.get(name, "false")
    truth = _TRUTHS.get(text.lower())
    if truth is None:
        raise HttpError(400, f"{name} must be true or false", param=name)
    return truth


def _store_error(error: StoreError) -> HttpError:
    return HttpError(503, error.message, cause=error.__cause__)
