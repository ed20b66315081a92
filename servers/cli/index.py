"""`graphrt index`: make an index of documents, for graphs that retrieve passages."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from calculators.kit.settings.declaration import read
from calculators.language.retrieval.index_file import IndexFileError, embedder_options
from calculators.language.retrieval.indexing import Indexed, IndexingProgress, build_index
from calculators.language.retrieval.passages import DocumentError, find_documents
from graph_runtime import ResourceError
from servers.cli.messages import CommandFailed, ProgressLine, print_warning
from servers.options.model_options import IndexOptions


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
    line = ProgressLine()
    try:
        done = _index(args.files, out, options, line)
    except KeyboardInterrupt:
        line.end()
        print("interrupted: the same command goes on from here", file=sys.stderr)
        raise
    except (DocumentError, IndexFileError, ResourceError) as error:
        line.end()
        text = str(error).replace("models_path:", "--model:", 1)
        raise CommandFailed(text) from error
    line.end()
    print(_summary(done, options.out))
    return 0


def _index(files: list[str], out: Path, options: IndexOptions, line: ProgressLine) -> Indexed:
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

    def show(progress: IndexingProgress) -> None:
        line.show(_text(progress), is_due=progress.makes_search)

    return asyncio.run(build_index(documents, out, embedder, reports=show))


def _summary(done: Indexed, out: str) -> str:
    files = f"{done.files} new or changed files, {done.unchanged} unchanged"
    removed = f", {done.removed} removed" if done.removed else ""
    return f"{out}: {done.passages} passages; {files}{removed}"


def _text(progress: IndexingProgress) -> str:
    text = (
        f"indexing: {progress.files} of {progress.all_files} files, "
        f"{progress.passages} passages embedded"
    )
    return f"{text}; making the search file" if progress.makes_search else text
