"""`ClientModels`: downloads and removals of models for clients, where the operator allows them."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Final

from calculators.kit.child_process.early_start import child_environment, python_module
from calculators.kit.file_threads import in_file_thread
from calculators.kit.requests.http_payload import RequestError
from graph_runtime import Code
from servers.config.edit import EditError, add_entry, remove_entry
from servers.contract.data_plane import PullProgress
from servers.model_store.directory import read_origin
from servers.model_store.model_reference import ModelError, ModelReference, read_reference
from servers.serving.graph_definition import without_directories

_log: Final = logging.getLogger(__name__)

#: Downloads at a time.
MOST_PULLS: Final = 1
#: A line of the command's progress: ``org/name:  12%, 98.4 MB of 800.0 MB, ...``.
_LINE: Final = re.compile(r".*?: +\d+%, ([0-9.]+) (k?M?G?T?B) of ([0-9.]+) (k?M?G?T?B)\b.*")
_UNITS: Final = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_ERROR: Final = "error: "
_FORM: Final = "models of a hub have names such as org/name or org/name:Q4_K_M"


class ClientModels:
    """Downloads models of a hub into a directory of models, and lists them in a config.json.

    One download runs at a time, in a process of its own, which ends when its client goes; the next
    download of the same model goes on where it ended.
    """

    def __init__(self, config: Path, store: Path) -> None:
        self._config = config
        self._store = store
        self._turn = asyncio.Semaphore(MOST_PULLS)

    async def pull(self, name: str) -> AsyncGenerator[PullProgress, None]:
        """Download a model and list it; yield how far it is. The server has to read the config.

        Raises:
            RequestError: there is no such model, or another download is running.
        """
        reference = _reference(name)
        if self._turn.locked():
            raise RequestError(
                "another model is being downloaded; try again later",
                code=Code.UNAVAILABLE,
                retry_after=10.0,
            )
        async with self._turn:
            yield PullProgress("pulling manifest")
            async with aclosing(self._download(reference)) as progress:
                async for each in progress:
                    yield each
            yield PullProgress("writing manifest")
            entry = {"name": str(reference), "base_path": str(self._store / reference.repository)}
            await in_file_thread(str(self._config), lambda: _add(self._config, entry))

    async def remove(self, name: str) -> None:
        """Take a model out of the config. The server has to read that again, then `forget` it.

        Raises:
            RequestError: the config does not list it.
        """
        try:
            await in_file_thread(str(self._config), lambda: remove_entry(self._config, name))
        except EditError:
            text = f"the model {name} is not of the server's own config, and stays"
            raise RequestError(text, code=Code.FAILED_PRECONDITION) from None

    async def forget(self, name: str) -> None:
        """Remove the files of a model that was downloaded; other files stay."""
        try:
            reference = read_reference(name)
        except ModelError:
            return
        if reference is None:
            return
        directory = self._store / reference.repository
        await in_file_thread(str(directory), lambda: _remove_downloaded(directory))

    async def _download(self, reference: ModelReference) -> AsyncGenerator[PullProgress, None]:
        process = await asyncio.create_subprocess_exec(
            *python_module("servers.cli"),
            *("pull", str(reference), "--model_repository_path", str(self._store)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env=child_environment({}),
        )
        problem = ""
        try:
            assert process.stderr is not None
            async for line in process.stderr:
                text = line.decode(errors="replace").strip()
                if (found := _LINE.fullmatch(text)) is not None:
                    done, total = (
                        round(float(count) * _UNITS[unit])
                        for count, unit in (found.group(1, 2), found.group(3, 4))
                    )
                    yield PullProgress(f"pulling {reference}", min(done, total), total)
                elif text.startswith(_ERROR):
                    problem = text.removeprefix(_ERROR)
            status = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if status:
            _log.warning("%s cannot be downloaded: %s", reference, problem or f"status {status}")
            why = without_directories(problem, str(self._store)) or "the log of the server says why"
            raise RequestError(
                f"{reference} cannot be downloaded: {why}", code=Code.FAILED_PRECONDITION
            )


def _reference(name: str) -> ModelReference:
    try:
        reference = read_reference(name)
    except ModelError as error:
        raise RequestError(f"{error}: {_FORM}", param="model") from None
    if reference is None:
        raise RequestError(f"this is no model of a hub: {_FORM}", param="model")
    return reference


def _add(config: Path, entry: dict[str, str]) -> None:
    try:
        add_entry(config, entry)
    except EditError as error:
        if "is listed already" not in str(error):
            raise


def _remove_downloaded(directory: Path) -> None:
    if read_origin(directory) is None:
        return
    shutil.rmtree(directory)
    if not any(directory.parent.iterdir()):
        directory.parent.rmdir()
