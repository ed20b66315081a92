"""The tables of `BatchStore`, and how those of earlier versions become today's."""

from __future__ import annotations

import sqlite3
from typing import Final

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
create index unfinished on batches (number) where status in (
    'validating', 'in_progress', 'finalizing', 'cancelling'
);
"""
_VERSION: Final = 2
#: By version, the statement that makes its tables those of the next one.
_STEPS: Final = {
    # A batch in progress had been checked as a whole.
    1: "alter table batches add column is_checked integer not null default 1",
}


def make_tables(connection: sqlite3.Connection) -> None:
    """Make the tables, or bring those of an earlier version up to date, in the open transaction.

    Raises:
        sqlite3.DatabaseError: they were written by a later version.
    """
    (version,) = connection.execute("pragma user_version").fetchone()
    if version > _VERSION:
        raise sqlite3.DatabaseError("the store was written by a later version")
    if version == 0:
        statements = _TABLES.split(";")
    else:
        statements = [_STEPS[each] for each in range(version, _VERSION)]
    for statement in statements:
        connection.execute(statement)
    connection.execute(f"pragma user_version = {_VERSION}")
