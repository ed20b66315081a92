"""The tables of `BatchStore`, and the steps from earlier versions to today's.

It is read column by column. A column that cannot be read has its default, and a batch names it in
`Batch.damage`; the worker ends an unfinished batch that has such a column.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_type_hints

import msgspec

from servers.batches.objects import Batch, BatchError, Status, StoredFile, TokenUsage

_log: Final = logging.getLogger(__name__)

#: Members of `Batch` that are no columns of their own.
_MADE: Final = frozenset({"usage", "damage"})
#: Columns with JSON.
_JSON: Final = frozenset({"metadata", "errors"})
_BATCH_TYPES: Final = {
    name: type_ for name, type_ in get_type_hints(Batch).items() if name not in _MADE
}
_USAGE_TYPES: Final = get_type_hints(TokenUsage)
_FILE_TYPES: Final = get_type_hints(StoredFile)
#: Values of columns without a default that cannot be read. The batch cannot go on.
_UNREADABLE: Final[dict[str, Any]] = {
    "status": Status.FAILED,
    **dict.fromkeys(("id", "owner", "endpoint", "input_file_id", "filename", "purpose"), ""),
    **dict.fromkeys(("created_at", "size"), 0),
}


def readable_row(
    connection: sqlite3.Connection, select: str, values: Sequence[Any]
) -> sqlite3.Row | None:
    """Return the row that a statement selects; None if there is none, or its page is damaged."""
    try:
        row: sqlite3.Row | None = connection.execute(select, values).fetchone()
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_CORRUPT:
            raise
        _log.error("a row of the store is damaged and left out (%s): %s", select, error)
        return None
    return row


def readable_rows(connection: sqlite3.Connection, which: str, select: str) -> list[sqlite3.Row]:
    """Return rows in their order, without those whose page is damaged.

    Args:
        which: the statement without what it selects; an index has their numbers.
        select: the statement that selects the row of a number.
    """
    try:
        return connection.execute(f"select * {which}").fetchall()
    except sqlite3.DatabaseError:
        numbers = connection.execute(f"select number {which}").fetchall()
        rows = (readable_row(connection, select, tuple(each)) for each in numbers)
        return [row for row in rows if row is not None]


def batch_of(row: sqlite3.Row) -> Batch:
    """Return the batch of a row. Never raises an error because of a value."""
    try:
        return _whole_batch_of(row)
    except Exception:
        return _damaged_batch_of(row)


def _whole_batch_of(row: sqlite3.Row) -> Batch:
    """Return the batch of a row all of which can be read: ten times as fast as column by column."""
    values = dict(row)
    usage = TokenUsage(*(values.pop(name) for name in TokenUsage.__struct_fields__))
    if values["metadata"] is not None:
        values["metadata"] = msgspec.json.decode(values["metadata"])
    values["errors"] = msgspec.json.decode(values["errors"])
    values["is_checked"] = bool(values["is_checked"])
    return msgspec.convert({**values, "usage": usage}, Batch)


def _damaged_batch_of(row: sqlite3.Row) -> Batch:
    values, damage = _members(row, _BATCH_TYPES)
    usage, more = _members(row, _USAGE_TYPES)
    if "status" in damage:
        values["errors"] = [damaged_record(damage)]
    return Batch(**values, usage=TokenUsage(**usage), damage=(*damage, *more))


def file_of(row: sqlite3.Row) -> StoredFile:
    """Return the file of a row. Never raises an error because of a value."""
    try:
        return msgspec.convert(dict(row), StoredFile)
    except Exception:
        values, _ = _members(row, _FILE_TYPES)
        return StoredFile(**values)


def damaged_record(columns: Sequence[str]) -> BatchError:
    """Return the reason why a batch cannot go on whose row is damaged."""
    text = f"the stored record of this batch is damaged: {', '.join(columns)} cannot be read"
    return BatchError(code="damaged_record", message=text)


def row_of(batch: Batch) -> dict[str, object]:
    """Return the columns of a batch."""
    values = {name: getattr(batch, name) for name in _BATCH_TYPES}
    values.update(msgspec.structs.asdict(batch.usage))
    if batch.metadata is not None:
        values["metadata"] = msgspec.json.encode(batch.metadata).decode()
    values["errors"] = msgspec.json.encode(batch.errors).decode()
    values["status"] = batch.status.value
    return values


def _members(
    row: sqlite3.Row, types: Mapping[str, type[Any]]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the members that a row has by name, and the names of those that cannot be read."""
    values: dict[str, Any] = {}
    damage = []
    for name, type_ in types.items():
        try:
            values[name] = _value(name, row[name], type_)
        except Exception:
            damage.append(name)
            if name in _UNREADABLE:
                values[name] = _UNREADABLE[name]
    return values, tuple(damage)


def _value(name: str, value: Any, type_: type[Any]) -> Any:
    if name in _JSON and value is not None:
        return msgspec.json.decode(value, type=type_)
    if type_ is bool:
        return bool(value)
    return msgspec.convert(value, type_)


_TABLES: Final = """
create table files (
    number integer primary key autoincrement,
    id text not null unique,
    owner text not null,
    filename text not null,
    purpose text not null,
    size integer not null,
    created_at integer not null,
    expires_at integer
);
create table batches (
    number integer primary key autoincrement,
    id text not null unique,
    owner text not null,
    endpoint text not null,
    input_file_id text not null,
    metadata text,
    output_seconds integer,
    status text not null,
    created_at integer not null,
    expires_at integer,
    in_progress_at integer,
    finalizing_at integer,
    completed_at integer,
    failed_at integer,
    expired_at integer,
    cancelling_at integer,
    cancelled_at integer,
    output_file_id text,
    error_file_id text,
    errors text not null,
    model text,
    total integer not null default 0,
    is_checked integer not null default 0,
    completed integer not null default 0,
    failed integer not null default 0,
    input_tokens integer not null default 0,
    output_tokens integer not null default 0,
    cached_tokens integer not null default 0,
    reasoning_tokens integer not null default 0,
    next_line integer not null default 1,
    next_offset integer not null default 0
);
create table answers (
    batch integer not null,
    line integer not null,
    is_error integer not null,
    text blob not null,
    primary key (batch, line)
);
create table store (
    made_at integer not null
);
create table suspects (
    batch integer not null,
    phase text not null,
    line integer not null,
    ends integer not null,
    primary key (batch, phase, line)
);
create index files_of on files (owner);
create index batches_of on batches (owner);
create index unfinished on batches (number) where status in (
    'validating', 'in_progress', 'finalizing', 'cancelling'
);
"""
_VERSION: Final = 3
#: By version, the statements that turn its tables into the next version's.
_STEPS: Final = {
    # A batch in progress had been checked as a whole.
    1: "alter table batches add column is_checked integer not null default 1",
    2: """
create table if not exists store (made_at integer not null);
create table if not exists suspects (
    batch integer not null,
    phase text not null,
    line integer not null,
    ends integer not null,
    primary key (batch, phase, line)
);
create index if not exists files_of on files (owner);
create index if not exists batches_of on batches (owner)
""",
}


def make_tables(connection: sqlite3.Connection, now: int) -> None:
    """Make the tables, or bring an earlier version's up to date, in the open transaction.

    ``now``: the time at which a new store is made.

    Raises:
        sqlite3.DatabaseError: they were written by a later version.
    """
    (version,) = connection.execute("pragma user_version").fetchone()
    if version > _VERSION:
        raise sqlite3.DatabaseError("the store was written by a later version")
    if version == _VERSION:
        return  # so that a store on a full disk can be opened
    if version == 0:
        statements = _TABLES.split(";")
    else:
        statements = [
            statement for each in range(version, _VERSION) for statement in _STEPS[each].split(";")
        ]
    for statement in statements:
        connection.execute(statement)
    if version == 0:
        connection.execute("insert into store values (?)", (now,))
    connection.execute(f"pragma user_version = {_VERSION}")
