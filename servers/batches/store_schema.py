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
#: By version, the statements that make its tables those of the next one.
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
    """Make the tables, or bring those of an earlier version up to date, in the open transaction.

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
