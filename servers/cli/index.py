"""`graphrt index`: make an index of documents, for graphs that retrieve passages."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path
from typing import Final

from calculators.retrieval.documents import DocumentError, find_documents
from calculators.retrieval.embedder import embedder_options
from calculators.retrieval.index_file import IndexFileError
from calculators.retrieval.indexing import Indexed, Progress, build_index
from calculators.settings.declaration import read
from graph_runtime import ResourceError
from servers.cli.messages import CommandFailed, print_warning
from servers.options.index_options import IndexOptions

#: Seconds between two lines of progress where standard error is no terminal.
_LINE_PERIOD: Final = 10.0


def execute(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    options = read(IndexOptions, vars(args))
    if options.model is None:
        raise CommandFailed(
            "which embedding model is to be used?",
            hint=f"graphrt index {args.files[0]} --model DIR",
            status=2,
        )
    out = Path(options.out)
    if out.is_dir():
        raise CommandFailed(f"--out {options.out} is a directory; name a file in it", status=2)
    if not out.absolute().parent.is_dir():
        raise CommandFailed(f"--out {options.out}: there is no such directory")
    reports = _Reports()
    try:
        done = _index(args.files, out, options, reports)
    except KeyboardInterrupt:
        reports.end()
        print("interrupted: the same command goes on from here", file=sys.stderr)
        raise
    except (DocumentError, IndexFileError, ResourceError) as error:
        reports.end()
        text = str(error).replace("models_path:", "--model:", 1)
        raise CommandFailed(text) from error
    reports.end()
    print(_summary(done, options.out))
    return 0


def _index(files: list[str], out: Path, options: IndexOptions, reports: _Reports) -> Indexed:
    assert options.model is not None
    documents = find_documents(files, Path(options.root))
    embedder = embedder_options(
        options.model,
        Path(),
        target_device=options.target_device,
        plugin_config=options.plugin_config,
        pooling=options.pooling,
    )
    for warning in embedder.warnings:
        print_warning(warning)
    return asyncio.run(build_index(documents, out, embedder, reports=reports.show))


def _summary(done: Indexed, out: str) -> str:
    files = f"{done.files} new or changed files, {done.unchanged} unchanged"
    removed = f", {done.removed} removed" if done.removed else ""
    return f"{out}: {done.passages} passages; {files}{removed}"


class _Reports:
    """Progress on standard error: one line on a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._shown = False
        self._next = time.monotonic() + _LINE_PERIOD

    def show(self, progress: Progress) -> None:
        text = (
            f"indexing: {progress.files} of {progress.all_files} files, "
            f"{progress.passages} passages embedded"
        )
        if progress.makes_search:
            text += "; making the search file"
        if self._is_terminal:
            self._shown = True
            print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)
        elif progress.makes_search or time.monotonic() >= self._next:
            self._next = time.monotonic() + _LINE_PERIOD
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave the line of the terminal."""
        if self._shown:
            print(file=sys.stderr)
            self._shown = False
