"""`ResponseStore`: what is kept for clients, in SQLite: in memory or in a directory.

::

    objects     a response, chat completion or conversation: one row, with its owner
    outputs     the ids of items of answers that do not tell the answer (see `stem_of`)
    entries     the items of conversations
    events      the events of responses that are made in the background

A response has its own input and its answer only, and names the one that it continues: a
conversation of n turns takes room for n turns, not for n * n. What continues another object counts
as a use of it, so that a conversation that goes on does not lose its beginning.

There is one bound on objects and one on bytes. Beyond them the client that has the most loses what
it has not used for the longest time: nobody is pushed out by others as long as he has less. Each
process counts what the clients have; a table of it would be a page more to write with each answer.

Several processes may use one directory. The methods block, and one thread at a time may call them.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from calculators.kit.requests.http_payload import RequestError, stem_of
from graph_runtime import Code
from servers.batches.objects import (
    StorageFullError,
    StoreError,
    storage_errors,
    unix_seconds,
    write_ahead,
)
from servers.kept import items
from servers.kept.items import JsonObject, KeptHead, items_of, read_head

_BUSY_SECONDS: Final = 20.0
#: Seconds between two searches for what is too old.
_SWEEP_SECONDS: Final = 30
#: A response in the background whose process has not said for so many seconds that it works on it
#: is not worked on any more.
LOST_SECONDS: Final = 30
#: Bytes that SQLite takes for an object beside its content, about.
_OBJECT_BYTES: Final = 512
#: Bytes that it takes for an item beside its content, about.
_ENTRY_BYTES: Final = 64
_AT_A_TIME: Final = 64
#: Bytes after which a page of a list ends.
PAGE_BYTES: Final = 1 << 20
#: Where a bound is exceeded, so much of it is made free: a 64th.
_SPARE: Final = 64
#: The tables with parts of an object, and the columns with its number; the object is the last.
_PARTS: Final = (
    ("events", "object"),
    ("outputs", "object"),
    ("entries", "conversation"),
    ("objects", "number"),
)
#: Responses of one conversation. A bound for a store that somebody else has written.
_LONGEST_CHAIN: Final = 10_000
_VERSION: Final = 2
_TABLES: Final = """
create table objects (
    number integer primary key,
    id text not null unique,
    kind text not null,
    owner text not null,
    secret text not null,
    model text not null,
    status text not null,
    created_at integer not null,
    used_at integer not null,
    previous text not null,
    conversation text not null,
    metadata text not null,
    size integer not null,
    input blob not null,
    body blob not null
);
create index objects_by_use on objects (owner, used_at, number, size);
create table outputs (id text not null, object integer not null, primary key (id, object))
    without rowid;
create index outputs_by_object on outputs (object);
create table entries (
    number integer primary key,
    id text not null,
    conversation integer not null,
    body blob not null
);
create index entries_by_conversation on entries (conversation, number);
create index entries_by_id on entries (id);
create table events (object integer not null, last integer not null, text text not null,
    primary key (object, last)) without rowid;
"""
#: What makes the first version the second.
_CHANGES: Final = """
drop table owners;
drop index objects_by_use;
create index objects_by_use on objects (owner, used_at, number, size);
create index outputs_by_object on outputs (object);
"""


class KeptKind(StrEnum):
    """The kinds of objects, by the words of OpenAI's errors."""

    RESPONSE = "response"
    CHAT = "chat completion"
    CONVERSATION = "conversation"


class KeptStatus(StrEnum):
    """The states of a response: the first two change, the others are final."""

    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        return self not in (KeptStatus.QUEUED, KeptStatus.IN_PROGRESS)


class KeptBounds(msgspec.Struct, frozen=True):
    """How much is kept: objects, their bytes, and seconds since an object was made or continued."""

    objects: int = 10_000
    size: int = 128 << 20
    seconds: int = 24 * 3600


class KeptObject(msgspec.Struct, frozen=True, kw_only=True):
    """An answer to keep, or one that is begun in the background.

    Attributes:
        request: the body with the ``input`` or ``messages`` that are its own, as JSON.
        body: the answer, as JSON; an event's or a whole one.
        previous, conversation: the ids of what it continues; "": nothing.
    """

    kind: KeptKind
    owner: str
    request: bytes
    body: bytes = b""
    previous: str = ""
    conversation: str = ""


class KeptContext(msgspec.Struct, frozen=True):
    """A request with what it refers to.

    Attributes:
        input: all items; the first ``earlier`` come from earlier responses.
        own: the request's own items as JSON, in an object as in `KeptObject.request`.
    """

    input: list[Any]
    earlier: int
    own: bytes


class _KeptRequest(msgspec.Struct):
    input: msgspec.Raw = msgspec.Raw(b"null")
    messages: msgspec.Raw = msgspec.Raw(b"null")
    metadata: Any = None


class _Answer(msgspec.Struct):
    output: list[msgspec.Raw] = []


_read_request: Final = msgspec.json.Decoder(_KeptRequest).decode
_read_answer: Final = msgspec.json.Decoder(_Answer).decode
_encode: Final = msgspec.json.Encoder().encode


class ResponseStoreError(StoreError):
    """The store of responses cannot be used."""

    option: ClassVar[str] = "response_store"


@contextmanager
def _store_errors() -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise _store_error(error) from error


def _store_error(error: Exception) -> ResponseStoreError:
    try:
        with storage_errors():
            raise error
    except StorageFullError:
        return ResponseStoreError("the store of responses is full")
    except StoreError:
        return ResponseStoreError("the store of responses cannot be read or written")


class _Shares:
    """The objects and bytes that each client has.

    Objects are counted as they come, also from other processes. What another process has removed,
    or added to one, is seen when all are counted again.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._version = _data_version(connection)
        self._of: dict[str, list[int]] = {}
        self.objects = self.bytes = 0
        #: The largest number that is counted.
        self._last = 0
        for owner, objects, size, last in connection.execute(
            "select owner, count(*), sum(size), max(number) from objects group by owner"
        ):
            self._add(owner, objects, size)
            self._last = max(self._last, last)

    def is_old(self, connection: sqlite3.Connection) -> bool:
        """Return True if another process has written since all were counted."""
        return _data_version(connection) != self._version

    def _add(self, owner: str, objects: int, size: int) -> None:
        share = self._of.setdefault(owner, [0, 0])
        share[0] += objects
        share[1] += size
        self.objects += objects
        self.bytes += size
        if share[0] <= 0:
            del self._of[owner]

    def add(self, connection: sqlite3.Connection, number: int, owner: str, size: int) -> None:
        """Count an object that was added, after those that others have added before it."""
        if number != self._last + 1:
            for _, other, its_size in connection.execute(
                "select number, owner, size from objects where number > ? and number < ?",
                (self._last, number),
            ):
                self._add(other, 1, its_size)
        self._add(owner, 1, size)
        self._last = number

    def grow(self, number: int, owner: str, size: int) -> None:
        """Count what was added to an object."""
        if number <= self._last:
            self._add(owner, 0, size)

    def remove(
        self, connection: sqlite3.Connection, objects: Sequence[tuple[int, str, int]]
    ) -> None:
        """Count what was removed: numbers, owners and sizes."""
        for number, owner, size in objects:
            if number <= self._last:
                self._add(owner, -1, -size)
        # The number of a last object is given again.
        (last,) = connection.execute("select max(number) from objects").fetchone()
        self._last = min(self._last, last or 0)

    def largest(self, column: int) -> tuple[str, int, int]:
        """Return who has most objects (``column`` 0) or bytes (1), how many, and the second's."""
        most = max(self._of, key=lambda owner: self._of[owner][column])
        others = (share[column] for owner, share in self._of.items() if owner != most)
        return most, self._of[most][column], max(others, default=0)


def _data_version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("pragma data_version").fetchone()
    return int(version)


class ResponseStore:
    """The store; ``directory`` None: in memory.

    Raises:
        StoreError: the constructor and every method; `StorageFullError` if the disk is full.
    """

    def __init__(self, bounds: KeptBounds, directory: Path | None = None) -> None:
        self.bounds = bounds
        self._swept_at = 0
        #: None: they have to be counted.
        self._shares: _Shares | None = None
        with _store_errors():
            if directory is not None:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                # Before SQLite makes it with the rights that others have by default.
                os.close(os.open(directory / "responses.sqlite", os.O_CREAT | os.O_RDWR, 0o600))
            self._connection = sqlite3.connect(
                ":memory:" if directory is None else directory / "responses.sqlite",
                timeout=_BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=256,
            )
            run = self._connection.execute
            if directory is not None:
                write_ahead(self._connection, _BUSY_SECONDS)
                # A commit survives the process, and not always the machine: waiting for the disk
                # would cost milliseconds for each response.
                run("pragma synchronous = normal")
                # What is deleted is overwritten: prompts must not be left in free pages.
                run("pragma secure_delete = on")
            with self._transaction():
                self._make_tables()

    def _make_tables(self) -> None:
        run = self._connection.execute
        (version,) = run("pragma user_version").fetchone()
        if version > _VERSION:
            raise ResponseStoreError(
                "the store of responses was written by a newer version of graphrt"
            )
        if version < _VERSION:
            for statement in (_CHANGES if version else _TABLES).split(";"):
                run(statement)
            run(f"pragma user_version = {_VERSION}")

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        run = self._connection.execute
        changes = self._connection.total_changes
        try:
            run("begin immediate")
            try:
                yield
                run("commit")
            except BaseException:
                if self._connection.total_changes != changes:
                    self._shares = None
                if self._connection.in_transaction:
                    run("rollback")
                raise
        except (OSError, sqlite3.Error) as error:
            raise _store_error(error) from error

    def _rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(statement, values).fetchall()
        except (OSError, sqlite3.Error) as error:
            raise _store_error(error) from error

    # What is kept ---------------------------------------------------------------------------------

    def add(self, new: KeptObject) -> bool:
        """Keep an answer. Return False if it has no id, or is larger than all that may be kept.

        An answer of a conversation that was deleted meanwhile is kept without it.
        """
        return self.add_all([new])[0]

    def add_all(self, new: Sequence[KeptObject]) -> list[bool]:
        """Keep answers, each as `add` does, in one transaction, which costs less."""
        now = unix_seconds()
        with self._transaction():
            kept = [self._insert(each, now) for each in new]
            self._make_room(now)
        return kept

    def _insert(self, new: KeptObject, now: int) -> bool:
        request = _read_request(new.request)
        head = read_head(new.body)
        own = request.messages if new.kind is KeptKind.CHAT else request.input
        stem = stem_of(head.id)
        # The other part of a random id: new bits cost as much as a statement.
        digits = items.SECRET_DIGITS
        secret = head.id[-digits:] if stem else os.urandom(digits // 2).hex()
        size = _OBJECT_BYTES + len(own) + len(new.body)
        if not head.id or size > self.bounds.size:
            return False
        cursor = self._connection.execute(
            "insert into objects (id, kind, owner, secret, model, status, created_at, used_at,"
            " previous, conversation, metadata, size, input, body)"
            " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing",
            (
                *(head.id, new.kind.value, new.owner, secret, head.model, head.status),
                *(head.created_at or head.created or now, now),
                *(new.previous, new.conversation, _metadata_text(request.metadata)),
                *(size, bytes(own), new.body),
            ),
        )
        number = cursor.lastrowid
        if cursor.rowcount != 1 or number is None:
            return False
        if self._shares is not None:
            self._shares.add(self._connection, number, new.owner, size)
        self._note_outputs(number, stem, head)
        if new.conversation and head.status != KeptStatus.QUEUED:
            listed = _own_items(own, number, secret)
            self._extend(new.owner, new.conversation, listed, new.body)
        return True

    def _note_outputs(self, number: int, stem: str, head: KeptHead) -> None:
        """Note the items of an answer that its id does not tell, such as items of another one."""
        strangers = [each.id for each in head.output if not stem or stem_of(each.id) != stem]
        if strangers:
            self._connection.executemany(
                "insert or ignore into outputs values (?, ?)",
                [(stranger, number) for stranger in strangers if stranger],
            )

    def _extend(
        self, owner: str, conversation: str, items: Sequence[Mapping[str, Any]], body: bytes
    ) -> None:
        """Add the input and the output of a response to its conversation."""
        row = self._find(conversation, owner, KeptKind.CONVERSATION)
        if row is not None:
            bodies = [(str(each["id"]), _encode(each)) for each in items]
            answer = _read_answer(body).output
            ids = (each.id for each in read_head(body).output)
            bodies += [(made, bytes(raw)) for made, raw in zip(ids, answer, strict=True)]
            self._add_entries(row[0], owner, bodies)

    def _add_entries(self, number: int, owner: str, bodies: Sequence[tuple[str, bytes]]) -> None:
        run = self._connection.execute
        size = 0
        for item_id, body in bodies:
            run(
                "insert into entries (id, conversation, body) values (?, ?, ?)",
                (item_id, number, body),
            )
            size += len(body) + _ENTRY_BYTES
        self._grow(number, owner, size)

    def _grow(self, number: int, owner: str, size: int) -> None:
        """Note that an object has been used, and has become larger."""
        self._connection.execute(
            "update objects set used_at = ?, size = size + ? where number = ?",
            (unix_seconds(), size, number),
        )
        if self._shares is not None:
            self._shares.grow(number, owner, size)

    def _counted(self, *, again: bool = False) -> _Shares:
        """Return what the clients have now; ``again``: without what others have removed."""
        if self._shares is None or (again and self._shares.is_old(self._connection)):
            self._shares = _Shares(self._connection)
        return self._shares

    def _make_room(self, now: int) -> None:
        """Remove what is too old, and what is too much."""
        is_due = now - self._swept_at >= _SWEEP_SECONDS
        shares = self._counted(again=is_due)
        if is_due:
            self._swept_at = now
            # The index has all three, and the table has large rows.
            too_old = self._connection.execute(
                "select number, owner, size from objects indexed by objects_by_use"
                " where used_at <= ?",
                (now - self.bounds.seconds,),
            )
            self._remove(too_old.fetchall())
        if shares.objects > self.bounds.objects:
            self._remove_oldest(0, self.bounds.objects)
        if shares.bytes > self.bounds.size:
            self._remove_oldest(1, self.bounds.size)

    def _remove_oldest(self, column: int, bound: int) -> None:
        """Remove what has not been used for the longest time, of the client that has the most.

        A little more than what is above the ``bound`` goes, so that not every answer removes
        another one. ``column``: 0: the bound is one of objects; 1: of bytes.
        """
        shares = self._counted(again=True)
        over = (shares.bytes if column else shares.objects) - bound
        if over <= 0:
            return
        over += bound // _SPARE
        while over > 0 and shares.objects > 0:
            owner, most, next_most = shares.largest(column)
            # Not more than makes the client equal to the next one, except one object.
            most_taken = max(1, min(over, most - next_most))
            victims, taken = [], 0
            for victim in self._connection.execute(
                "select number, owner, size from objects where owner = ?"
                " order by used_at, number limit ?",
                (owner, _AT_A_TIME),
            ):
                victims.append(victim)
                taken += victim[2] if column else 1
                if taken >= most_taken:
                    break
            if not victims:
                return
            self._remove(victims)
            over -= taken

    def _remove(self, objects: Sequence[tuple[int, str, int]]) -> None:
        run = self._connection.execute
        numbers = json.dumps([number for number, _, _ in objects])
        for table, column in _PARTS:
            run(
                f"delete from {table} where {column} in (select value from json_each(?))",
                (numbers,),
            )
        if self._shares is not None:
            self._shares.remove(self._connection, objects)

    def _find(self, object_id: str, owner: str, kind: KeptKind) -> tuple[int, ...] | None:
        found = self._rows(
            "select number from objects where id = ? and owner = ? and kind = ? and used_at > ?",
            *(object_id, owner, kind, unix_seconds() - self.bounds.seconds),
        )
        return found[0] if found else None

    def _number(self, object_id: str, owner: str, kind: KeptKind) -> int:
        found = self._find(object_id, owner, kind)
        if found is None:
            raise items.not_kept(kind, object_id)
        return found[0]

    def _shown(self, object_id: str, owner: str, kind: KeptKind) -> JsonObject:
        number = self._number(object_id, owner, kind)
        found = self._rows("select body, metadata from objects where number = ?", number)
        return _with_metadata(*found[0])

    def delete(self, object_id: str, owner: str, kind: KeptKind) -> None:
        """Delete a client's object; of a conversation, its items too.

        Raises:
            RequestError: NOT_FOUND, there is none.
        """
        with self._transaction():
            number = self._number(object_id, owner, kind)
            self._remove(
                self._connection.execute(
                    "select number, owner, size from objects where number = ?", (number,)
                ).fetchall()
            )

    def set_metadata(
        self, object_id: str, owner: str, kind: KeptKind, metadata: Mapping[str, str]
    ) -> None:
        """Replace the metadata of a client's object.

        Raises:
            RequestError: NOT_FOUND, there is none.
        """
        with self._transaction():
            number = self._number(object_id, owner, kind)
            self._connection.execute(
                "update objects set metadata = ? where number = ?",
                (_metadata_text(metadata), number),
            )

    # Responses ------------------------------------------------------------------------------------

    def cancel(self, response_id: str, owner: str) -> bytes:
        """End a response that is made in the background, and return it as it is then.

        Raises:
            RequestError: there is none, or it was not made in the background.
        """
        body, status = self.response(response_id, owner)
        if status.is_over and not self.has_events(response_id, owner):
            text = "only a response with `background: true` can be cancelled"
            raise RequestError(text, detail=text)
        return self.end(response_id, KeptStatus.CANCELLED) or body

    def response(self, response_id: str, owner: str) -> tuple[bytes, KeptStatus]:
        """Return a response as JSON, and its status.

        Raises:
            RequestError: NOT_FOUND, there is none.
        """
        number = self._number(response_id, owner, KeptKind.RESPONSE)
        body, status, used_at = self._rows(
            "select body, status, used_at from objects where number = ?", number
        )[0]
        state = KeptStatus(status)
        if not state.is_over and used_at < unix_seconds() - LOST_SECONDS:
            lost = {"code": "server_error", "message": "the server stopped before it was complete"}
            body = self.end(response_id, KeptStatus.FAILED, lost) or body
            state = KeptStatus.FAILED
        return body, state

    def end(
        self, response_id: str, status: KeptStatus, error: Mapping[str, str] | None = None
    ) -> bytes | None:
        """End a response in the background whose answer will not come, and return it.

        Return None if it has ended or is gone.
        """
        with self._transaction():
            found = self._connection.execute(
                "select number, body from objects where id = ? and status in (?, ?)",
                (response_id, KeptStatus.QUEUED, KeptStatus.IN_PROGRESS),
            ).fetchone()
            if found is None:
                return None
            number, body = found
            ended = json.dumps({**json.loads(body), "status": status, "error": error}).encode()
            self._connection.execute(
                "update objects set status = ?, body = ? where number = ?", (status, ended, number)
            )
        return ended

    def go_on(self, response_id: str, events: str, body: bytes | None) -> bool:
        """Add events to a response in the background.

        Args:
            body: the response as the last of them shows it; None: they show none.

        Return False if it was cancelled or deleted: nothing is added.
        """
        head = None if body is None else read_head(body)
        numbers = [number for number, _ in items.split_events(events) if number is not None]
        with self._transaction():
            run = self._connection.execute
            found = run(
                "select number, owner, secret, conversation, input from objects"
                " where id = ? and status in (?, ?)",
                (response_id, KeptStatus.QUEUED, KeptStatus.IN_PROGRESS),
            ).fetchone()
            if found is None:
                return False
            number, owner, secret, conversation, own = found
            size = (len(events) if numbers else 0) + len(body or b"")
            if numbers:
                run(
                    "insert or replace into events values (?, ?, ?)",
                    (number, numbers[-1], events),
                )
            self._grow(number, owner, size)
            if head is not None:
                run(
                    "update objects set status = ?, body = ? where number = ?",
                    (head.status, body, number),
                )
                self._note_outputs(number, stem_of(head.id), head)
            is_over = head is not None and KeptStatus(head.status).is_over
            if is_over and conversation:
                listed = _own_items(own, number, secret)
                self._extend(owner, conversation, listed, body or b"")
            self._make_room(unix_seconds())
        return True

    def events(self, response_id: str, owner: str, after: int) -> tuple[list[str], bool]:
        """Return pieces of events of which the last has a number above ``after``.

        True as second: the response has ended, and these are all.

        Raises:
            RequestError: NOT_FOUND, there is no such response.
        """
        _, status = self.response(response_id, owner)
        number = self._number(response_id, owner, KeptKind.RESPONSE)
        found = self._rows(
            "select text from events where object = ? and last > ? order by last limit ?",
            *(number, after, _AT_A_TIME),
        )
        return [text for (text,) in found], status.is_over and len(found) < _AT_A_TIME

    def has_events(self, response_id: str, owner: str) -> bool:
        """Return whether a response was made in the background, so that its events are kept.

        Raises:
            RequestError: NOT_FOUND, there is no such response.
        """
        _, status = self.response(response_id, owner)
        number = self._number(response_id, owner, KeptKind.RESPONSE)
        found = self._rows("select 1 from events where object = ? limit 1", number)
        return bool(found) or not status.is_over

    def input_items(self, response_id: str, owner: str) -> list[JsonObject]:
        """Return all items that a response was made of, the earlier ones first.

        Raises:
            RequestError: NOT_FOUND, there is no such response.
        """
        number = self._number(response_id, owner, KeptKind.RESPONSE)
        secret, own, previous = self._rows(
            "select secret, input, previous from objects where number = ?", number
        )[0]
        earlier = self._chain(previous, owner, None)[0] if previous else []
        return [*earlier, *_own_items(own, number, secret)]

    def _chain(
        self, response_id: str, owner: str, most_bytes: int | None
    ) -> tuple[list[JsonObject], list[int]]:
        """Return the items of a response and of all that it continues, and their numbers.

        ``most_bytes``: of them; None: a part of the chain that is gone is left out.

        Raises:
            RequestError: the chain is too long, or a part of it is gone.
        """
        turns: list[list[JsonObject]] = []
        numbers: list[int] = []
        size, wanted = 0, response_id
        while wanted:
            found = self._find(wanted, owner, KeptKind.RESPONSE)
            if found is None:
                if most_bytes is None:
                    break
                raise _previous_is_gone(response_id, wanted)
            secret, own, body, previous, status = self._rows(
                "select secret, input, body, previous, status from objects where number = ?",
                found[0],
            )[0]
            if most_bytes is not None and not KeptStatus(status).is_over:
                text = f"the response {items.quoted_id(wanted)} is not complete yet"
                raise RequestError(text, param="previous_response_id")
            size += len(own) + len(body)
            if found[0] in numbers or len(numbers) == _LONGEST_CHAIN:
                text = "the responses that it continues form a circle, or are too many"
                raise RequestError(text, param="previous_response_id")
            if most_bytes is not None and size > most_bytes:
                raise _too_long("previous_response_id", most_bytes)
            numbers.append(found[0])
            turns.append([*_own_items(own, found[0], secret), *_outputs(body)])
            wanted = previous
        return [item for turn in reversed(turns) for item in turn], numbers

    def context(
        self,
        owner: str,
        request: Mapping[str, Any],
        *,
        previous: str,
        conversation: str,
        most_bytes: int,
    ) -> KeptContext:
        """Return a request's input with the items that it continues and names.

        Raises:
            RequestError: what it names is not kept, is not complete, or is too long.
        """
        earlier: list[JsonObject] = []
        with self._transaction():
            numbers: list[int] = []
            if previous:
                earlier, numbers = self._chain(previous, owner, most_bytes)
            if conversation:
                row = self._find(conversation, owner, KeptKind.CONVERSATION)
                if row is None:
                    raise items.not_kept(
                        KeptKind.CONVERSATION, conversation, param=KeptKind.CONVERSATION
                    )
                [number] = row
                numbers.append(number)
                found = self._rows(
                    "select body from entries where conversation = ? order by number", number
                )
                if sum(len(body) for (body,) in found) > most_bytes:
                    raise _too_long("conversation", most_bytes)
                earlier = [_decoded(body) for (body,) in found]
            own = request.get("input")
            if isinstance(own, str):
                own = [{"role": "user", "content": own}]
            elif isinstance(own, list):
                own = [
                    self._named(item, owner, f"input[{place}]")
                    if items.is_reference(item)
                    else item
                    for place, item in enumerate(own)
                ]
            self._connection.executemany(
                "update objects set used_at = ? where number = ?",
                [(unix_seconds(), number) for number in numbers],
            )
        kept = {"input": own, "metadata": request.get("metadata")}
        listed = own if isinstance(own, list) else []
        return KeptContext([*earlier, *listed], len(earlier), _encode(kept))

    def _named(self, reference: Mapping[str, Any], owner: str, path: str) -> JsonObject:
        """Return the item that a reference names.

        Raises:
            RequestError: it is not kept for this client.
        """
        item_id = reference.get("id")
        if not isinstance(item_id, str):
            raise RequestError(f"{path}.id: expected the id of an item", param=f"{path}.id")
        since = unix_seconds() - self.bounds.seconds
        found = self._rows(
            "select objects.body from outputs join objects on objects.number = outputs.object"
            " where outputs.id = ? and owner = ? and used_at > ? limit 1",
            *(item_id, owner, since),
        )
        if stem := stem_of(item_id):
            # "g" comes after all digits. The index is that of ids: a client may have many objects.
            found += self._rows(
                "select body from objects where id > ? and id < ? and +owner = ? and +used_at > ?",
                *(f"resp_{stem}", f"resp_{stem}g", owner, since),
            )
        for (body,) in found:
            for item in _outputs(body):
                if item.get("id") == item_id:
                    return item
        found = self._rows(
            "select entries.body from entries join objects on objects.number = entries.conversation"
            " where entries.id = ? and owner = ? and used_at > ? limit 1",
            *(item_id, owner, since),
        )
        for (body,) in found:
            entry: JsonObject = _decoded(body)
            return entry
        if (place := items.place_of(item_id)) is not None:
            number, secret = place
            found = self._rows(
                "select input from objects where number = ? and secret = ? and owner = ?"
                " and used_at > ?",
                *(number, secret, owner, since),
            )
            for (own,) in found:
                for item in _own_items(own, number, secret):
                    if item["id"] == item_id:
                        return item
        raise RequestError(
            f"{path}: there is no item {items.quoted_id(item_id)}: it was not stored "
            "(`store: false`), is too old, or belongs to another client; send the item itself",
            param=path,
            code=Code.NOT_FOUND,
            detail="an item that is not kept",
        )

    # Conversations --------------------------------------------------------------------------------

    def add_conversation(
        self,
        conversation_id: str,
        owner: str,
        metadata: Mapping[str, str],
        items: Sequence[Any],
    ) -> JsonObject:
        """Make a conversation with items, and return it.

        Raises:
            RequestError: an item names another one that is not kept, or the items are larger than
                all that may be kept.
        """
        now = unix_seconds()
        body = {"id": conversation_id, "object": "conversation", "created_at": now}
        encoded = _encode(body)
        size = _OBJECT_BYTES + len(encoded)
        with self._transaction():
            number = self._connection.execute(
                "insert into objects (id, kind, owner, secret, model, status, created_at, used_at,"
                " previous, conversation, metadata, size, input, body)"
                " values (?, ?, ?, '', '', '', ?, ?, '', '', ?, ?, 'null', ?)",
                (
                    *(conversation_id, KeptKind.CONVERSATION, owner, now, now),
                    *(_metadata_text(metadata), size, encoded),
                ),
            ).lastrowid
            if self._shares is not None and number is not None:
                self._shares.add(self._connection, number, owner, size)
            if items:
                self._add_items(conversation_id, owner, items)
            self._make_room(now)
        return {**body, "metadata": dict(metadata)}

    def conversation(self, conversation_id: str, owner: str) -> JsonObject:
        """Return a conversation.

        Raises:
            RequestError: NOT_FOUND, there is none.
        """
        return self._shown(conversation_id, owner, KeptKind.CONVERSATION)

    def add_items(self, conversation_id: str, owner: str, items: Sequence[Any]) -> list[JsonObject]:
        """Add items to a conversation, and return them with their ids.

        Raises:
            RequestError: NOT_FOUND, there is no such conversation, or no item that one names; the
                conversation would be larger than all that may be kept.
        """
        with self._transaction():
            added = self._add_items(conversation_id, owner, items)
            self._make_room(unix_seconds())
        return added

    def _add_items(self, conversation_id: str, owner: str, new: Sequence[Any]) -> list[JsonObject]:
        number = self._number(conversation_id, owner, KeptKind.CONVERSATION)
        named = [
            self._named(item, owner, f"items[{place}]") if items.is_reference(item) else item
            for place, item in enumerate(new)
        ]
        added = items_of(named, items.key_of(0, os.urandom(items.SECRET_DIGITS // 2).hex()))
        self._add_entries(number, owner, [(str(each["id"]), _encode(each)) for each in added])
        [(size,)] = self._rows("select size from objects where number = ?", number)
        if size > self.bounds.size:
            text = f"the conversation would have {size} bytes, of {self.bounds.size} that are kept"
            raise RequestError(f"items: {text} in all", param="items", detail=text)
        return added

    def items(
        self, conversation_id: str, owner: str, *, after: str, limit: int, ascending: bool
    ) -> tuple[list[JsonObject], bool]:
        """Return a page of a conversation's items, and True if there are more.

        Raises:
            RequestError: NOT_FOUND, there is no such conversation, or no item ``after``.
        """
        number = self._number(conversation_id, owner, KeptKind.CONVERSATION)
        found, has_more = self._page(
            "select body from entries where conversation = ?",
            number,
            after=self._entry(number, after)[0] if after else None,
            limit=limit,
            ascending=ascending,
        )
        return [_decoded(body) for (body,) in found], has_more

    def _page(
        self, statement: str, *values: Any, after: int | None, limit: int, ascending: bool
    ) -> tuple[list[tuple[Any, ...]], bool]:
        """Return the first rows beyond the number ``after``, and True if there are more.

        They are ``limit`` at most, and end where their bodies, the first column, have many bytes.
        """
        if after is not None:
            statement += f" and number {'>' if ascending else '<'} ?"
            values = (*values, after)
        statement += f" order by number {'asc' if ascending else 'desc'} limit ?"
        found: list[tuple[Any, ...]] = []
        size = 0
        with _store_errors():
            for row in self._connection.execute(statement, (*values, limit + 1)):
                size += len(row[0])
                if len(found) == limit or (found and size > PAGE_BYTES):
                    return found, True
                found.append(row)
        return found, False

    def _entry(self, number: int, item_id: str) -> tuple[int, bytes]:
        found = self._rows(
            "select number, body from entries where conversation = ? and id = ?", number, item_id
        )
        if not found:
            raise _no_item(item_id)
        entry, body = found[0]
        return entry, body

    def item(self, conversation_id: str, owner: str, item_id: str) -> JsonObject:
        """Return an item of a conversation.

        Raises:
            RequestError: NOT_FOUND, there is none.
        """
        number = self._number(conversation_id, owner, KeptKind.CONVERSATION)
        found: JsonObject = _decoded(self._entry(number, item_id)[1])
        return found

    def delete_item(self, conversation_id: str, owner: str, item_id: str) -> None:
        """Delete an item of a conversation.

        Raises:
            RequestError: NOT_FOUND, there is none.
        """
        with self._transaction():
            number = self._number(conversation_id, owner, KeptKind.CONVERSATION)
            entry, body = self._entry(number, item_id)
            self._connection.execute("delete from entries where number = ?", (entry,))
            self._grow(number, owner, -len(body) - _ENTRY_BYTES)

    # Chat completions -----------------------------------------------------------------------------

    def chat(self, chat_id: str, owner: str) -> JsonObject:
        """Return a chat completion with its metadata.

        Raises:
            RequestError: NOT_FOUND, there is none.
        """
        return self._shown(chat_id, owner, KeptKind.CHAT)

    def chats(
        self,
        owner: str,
        *,
        model: str | None,
        metadata: Mapping[str, str],
        after: str,
        limit: int,
        ascending: bool,
    ) -> tuple[list[JsonObject], bool]:
        """Return a page of a client's chat completions, and True if there are more.

        ``model``, ``metadata``: only those that have them.

        Raises:
            RequestError: NOT_FOUND, there is none ``after``.
        """
        where = "owner = ? and kind = ? and used_at > ?"
        values: list[Any] = [owner, KeptKind.CHAT, unix_seconds() - self.bounds.seconds]
        if model is not None:
            where += " and model = ?"
            values.append(model)
        for name, value in metadata.items():
            where += " and exists (select 1 from json_each(metadata) where key = ? and value = ?)"
            values += [name, value]
        found, has_more = self._page(
            f"select body, metadata from objects where {where}",
            *values,
            after=self._number(after, owner, KeptKind.CHAT) if after else None,
            limit=limit,
            ascending=ascending,
        )
        return [_with_metadata(body, text) for body, text in found], has_more

    def chat_messages(self, chat_id: str, owner: str) -> list[JsonObject]:
        """Return the messages that a chat completion answers.

        Raises:
            RequestError: NOT_FOUND, there is none.
        """
        number = self._number(chat_id, owner, KeptKind.CHAT)
        [(own,)] = self._rows("select input from objects where number = ?", number)
        messages = _decoded(own)
        return items.shown_messages(messages if isinstance(messages, list) else [], chat_id)


def _metadata_text(metadata: object) -> str:
    # Most have none.
    has_any = metadata and isinstance(metadata, dict)
    return json.dumps(metadata, ensure_ascii=False) if has_any else "{}"


def _with_metadata(body: bytes, metadata: str) -> JsonObject:
    return {**_decoded(body), "metadata": json.loads(metadata)}


def _decoded(text: bytes | msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return json.loads(bytes(text))  # numbers that have more than 64 bits


def _own_items(own: bytes | msgspec.Raw, number: int, secret: str) -> list[JsonObject]:
    """Return the items of a request's input with the ids by which `place_of` finds them."""
    return items_of(_decoded(own), items.key_of(number, secret))


def _outputs(body: bytes) -> list[JsonObject]:
    return [_decoded(raw) for raw in _read_answer(body).output]


def _no_item(item_id: str) -> RequestError:
    return RequestError(
        f"the conversation has no item {items.quoted_id(item_id)}",
        code=Code.NOT_FOUND,
        detail="an item that is not kept",
    )


def _previous_is_gone(response_id: str, gone: str) -> RequestError:
    text = f"there is no response {items.quoted_id(response_id)}"
    if gone != response_id:
        text = (
            f"{items.quoted_id(response_id)} continues {items.quoted_id(gone)}, which is not there"
        )
    return RequestError(
        f"previous_response_id: {text}: it was not stored (`store: false`), is too old, or belongs "
        "to another client; send the earlier items as input",
        param="previous_response_id",
        reason="previous_response_not_found",
        detail="an earlier response that is not kept",
    )


def _too_long(param: str, most_bytes: int) -> RequestError:
    return RequestError(
        f"{param}: the earlier items have more than {most_bytes} bytes, which is the most that a "
        "request may have; compact them with /responses/compact, or begin again",
        param=param,
    )
