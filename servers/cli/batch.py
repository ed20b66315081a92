"""`graphrt batch`: answer a file of requests, without a server.

The state of a run is a store of batches beside the output, with one batch, whose input is a link to
the file of requests. It is removed when the results are in place.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from calculators.kit.file_threads import DaemonThreads
from servers.batch_work.inner_server import inner_client
from servers.batch_work.worker import BatchWorker
from servers.batches.contents import StoreLock
from servers.batches.objects import (
    INPUT_PURPOSE,
    Batch,
    BatchSettings,
    Status,
    StoredFile,
    StoreError,
    new_id,
    unix_seconds,
)
from servers.batches.store import BatchStore
from servers.cli.messages import CommandFailed, ProgressLine
from servers.cli.on_cluster import on_cluster
from servers.cli.serve_options import serve_options
from servers.cli.server_settings import inner_server, settings_in
from servers.cli.telemetry import set_up_log
from servers.server.lifecycle import ServerSettings, loop_factory

_SHOWN_ERRORS: Final = 3


def execute(args: argparse.Namespace) -> int:
    """Run the command and return the exit code."""
    source = Path(args.file)
    output = Path(args.output or source.with_suffix(".output.jsonl"))
    errors = Path(args.errors or source.with_suffix(".error.jsonl"))
    options = serve_options(args)
    if options.batches.batch_dir is not None:
        raise CommandFailed("--batch_dir is an option of `graphrt serve`", status=2)
    log = options.server
    # Progress is for people; the log only has what is wrong, unless it is asked for.
    log = replace(log, log_level="WARNING") if args.log_level is None else log
    set_up_log(log, verbose=args.verbose)
    if not source.is_file():
        raise CommandFailed(f"{source}: no such file", hint="FILE has a request per line")
    if len({each.absolute() for each in (source, output, errors)}) < 3:
        raise CommandFailed("FILE, --output and --errors must be different files", status=2)
    state = output.with_name(f"{output.name}.state")
    if output.exists() and not state.exists():
        hint = "remove it, or name another one with --output"
        raise CommandFailed(f"{output}: the file exists already", hint=hint)
    # Limits of files are for the clients of a server.
    settings = settings_in(state.absolute(), options)
    settings = replace(settings, max_file_bytes=sys.maxsize, max_requests=sys.maxsize)
    server = inner_server(options, args)
    try:
        batch = _Run(source, output, errors, settings).run(
            partial(on_cluster, server, options, is_front=False)
        )
    except StoreError as error:
        raise CommandFailed(f"{state}: {error}") from error
    return 1 if batch.failed else 0


class _Run:
    """One run of the command."""

    def __init__(self, source: Path, output: Path, errors: Path, settings: BatchSettings) -> None:
        self._source = source
        self._output = output
        self._errors = errors
        self._settings = settings
        self._reports = _Reports()

    def run(self, server: Callable[[], AbstractContextManager[ServerSettings]]) -> Batch:
        """Answer the requests that have no answer yet, and put the results in place.

        ``server``: makes the settings of the server that answers.

        Raises:
            CommandFailed: the file has changed since an earlier run, or is not a batch.
            StoreError: the state cannot be read or written.
        """
        store = BatchStore(self._settings.directory)
        try:
            with StoreLock(self._settings.directory / "worker.lock"):
                begun = self._batch_in(store)
                batch = begun
                if not batch.is_finished:
                    self._answer(server, store)
                    batch = store.batch(begun.id, "")
                self._reports.end()
                self._put_in_place(store, batch)
        except KeyboardInterrupt:
            self._reports.end()
            print("interrupted: the same command goes on from here", file=sys.stderr)
            raise
        finally:
            store.close()
        # Only now: an interrupted run finds its state here and goes on from it.
        shutil.rmtree(self._settings.directory)
        if batch.status is Status.FAILED:
            raise CommandFailed(_reasons(self._source, batch))
        print(self._summary(begun, batch))
        return batch

    def _batch_in(self, store: BatchStore) -> Batch:
        """Return the batch of the state; a new one in an empty state."""
        found = self._source.stat()
        what = {"size": str(found.st_size), "time": str(found.st_mtime_ns)}
        batches, _ = store.batches("", after="", limit=1)
        if batches:
            if batches[0].metadata != what:
                raise CommandFailed(
                    f"{self._source} has changed since the run that was interrupted",
                    hint=f"to start over, remove {self._settings.directory}",
                )
            return batches[0]
        now = unix_seconds()
        file = StoredFile(
            id=new_id("file-"),
            owner="",
            filename=self._source.name,
            purpose=INPUT_PURPOSE,
            size=found.st_size,
            created_at=now,
        )
        store.path_of(file.id).symlink_to(self._source.absolute())
        store.add_file(file)
        return store.add_batch(
            Batch(
                id=new_id("batch_"),
                owner="",
                endpoint="",
                input_file_id=file.id,
                metadata=what,
                created_at=now,
            )
        )

    def _answer(
        self, server: Callable[[], AbstractContextManager[ServerSettings]], store: BatchStore
    ) -> None:
        with server() as settings, asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.get_loop().set_default_executor(DaemonThreads())
            runner.run(self._work(settings, store))

    async def _work(self, server: ServerSettings, store: BatchStore) -> None:
        async with inner_client(server, self._settings.width, store) as client:
            worker = BatchWorker(store, self._settings, client.ask)
            await worker.run(0, self._reports.show)

    def _put_in_place(self, store: BatchStore, batch: Batch) -> None:
        """Move the results to where they are wanted.

        Raises:
            CommandFailed: they do not fit there.
        """
        for file_id, place in (
            (batch.output_file_id, self._output),
            (batch.error_file_id, self._errors),
        ):
            path = None if file_id is None else store.path_of(file_id)
            # An earlier run may have been interrupted here.
            if path is not None and path.exists():
                try:
                    shutil.move(path, place)
                except OSError as error:
                    raise CommandFailed(
                        f"{place}: {error.strerror}",
                        hint="every answer is kept, and the same command goes on from here",
                    ) from error

    def _summary(self, begun: Batch, batch: Batch) -> str:
        seconds = self._reports.seconds
        tokens = batch.usage.output_tokens - begun.usage.output_tokens
        lines = []
        if batch.completed:
            lines.append(f"{self._output}: {batch.completed} answers")
        if batch.failed:
            lines.append(f"{self._errors}: {batch.failed} requests failed")
        before = begun.completed + begun.failed
        earlier = f"; {before} had an answer before" if before else ""
        lines.append(
            f"{batch.total} requests in {seconds:.1f} s{earlier}; {batch.usage.input_tokens} input "
            f"and {batch.usage.output_tokens} output tokens, {tokens / seconds:.1f} tokens/s"
        )
        return "\n".join(lines)


def _reasons(source: Path, batch: Batch) -> str:
    shown = [f"{source}: {each.message}" for each in batch.errors[:_SHOWN_ERRORS]]
    if len(batch.errors) > _SHOWN_ERRORS:
        shown.append(f"and {len(batch.errors) - _SHOWN_ERRORS} more")
    return "\n".join(shown)


class _Reports:
    """Progress of a batch, and the time that it takes."""

    def __init__(self) -> None:
        self._line = ProgressLine()
        self._began = time.monotonic()
        self._first: int | None = None

    @property
    def seconds(self) -> float:
        """The time since the start, above 0."""
        return max(time.monotonic() - self._began, 1e-3)

    def show(self, batches: list[Batch]) -> None:
        if batches:
            self._line.show(self._text(batches[0]))

    def _text(self, batch: Batch) -> str:
        if batch.status is Status.VALIDATING:
            return "checking the requests"
        done = batch.completed + batch.failed
        if self._first is None:
            self._first = done
        # The rest of a large file is still being checked.
        text = f"{done} of {batch.total}{'' if batch.is_checked else ' or more'} requests"
        if batch.failed:
            text += f", {batch.failed} failed"
        rate = (done - self._first) / self.seconds
        if rate > 0 and batch.is_checked:
            left = (batch.total - done) / rate
            text += f", {rate:.1f}/s, {left:.0f} s left"
        return text

    def end(self) -> None:
        """Leave the line of the terminal."""
        self._line.end()
