"""A GGUF file's converted model in the server's cache: found there, or made."""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path
from typing import Final

from calculators.child_process.supervisor import LoadError, Supervisor
from calculators.llm.conversion.messages import Converted, Load, from_converter_decoder
from calculators.model_cache import BeingMade, CacheEntry, ModelCache, key_of
from graph_runtime import LoadProgress

_log = logging.getLogger("graphrt.llm")

_KIND: Final = "gguf"
#: Incremented when graphrt converts otherwise than before.
_FORM: Final = 1
#: The largest known growth by conversion, with a tokenizer of some MB.
_GROWTH: Final = 1.25
_TOKENIZER_BYTES: Final = 32 << 20
#: The file of an entry that holds no model, with the reason.
_REFUSAL: Final = "refusal.txt"
#: The conversion's part of the first start, by processor time.
_SHARE: Final = 0.4
#: Seconds between two looks at a conversion by another server, and until it is waited for no more.
_LOOK_SECONDS: Final = 0.25
WAIT_SECONDS: Final = 600.0


async def hold_converted(
    gguf: Path, cache: ModelCache, name: str, progress: LoadProgress
) -> tuple[CacheEntry | None, LoadProgress]:
    """Return the cache's entry with the model of a GGUF file, converted now if need be.

    The entry is in use until it is closed. None: the file has to be loaded as it is; the log says
    why. The second result is the progress of the remaining work.

    Args:
        name: the served model's, for the log.
    """
    progress.begin("reading the GGUF file", 0.0)
    entry = await _hold(gguf, cache, progress)
    if entry is None:
        return None, progress
    if entry.is_complete:
        if _is_refused(entry, name):
            entry.close()
            return None, progress
        return entry, progress
    of_conversion, rest = progress.split(_SHARE, 1 - _SHARE)
    try:
        converted = await _convert(gguf, entry.path, name, of_conversion)
        if await asyncio.to_thread(_kept, entry, converted) and not _is_refused(entry, name):
            return entry, rest
    except LoadError as error:
        _log.warning("%s: loaded from GGUF, as the conversion failed: %s", name, error)
    except BaseException:
        entry.close()
        raise
    await asyncio.to_thread(entry.close)
    return None, rest


def find_converted(gguf: Path, cache: ModelCache) -> Path | None:
    """Return the directory of a converted GGUF file; None if the cache does not hold it yet."""
    try:
        key, _ = _key_and_size(gguf)
    except OSError:
        return None
    path = cache.find(_KIND, key)
    return None if path is None or (path / _REFUSAL).exists() else path


async def _hold(gguf: Path, cache: ModelCache, progress: LoadProgress) -> CacheEntry | None:
    try:
        key, size = await asyncio.to_thread(_key_and_size, gguf)
    except OSError:  # whoever loads it says more
        return None
    loop = asyncio.get_running_loop()
    until = loop.time() + WAIT_SECONDS
    while True:
        try:
            return await asyncio.to_thread(cache.hold, _KIND, key, size)
        except BeingMade:
            progress.begin("waiting for the conversion by another server", 0.0)
            if loop.time() > until:
                return None
            await asyncio.sleep(_LOOK_SECONDS)


def _key_and_size(gguf: Path) -> tuple[str, int]:
    return key_of([gguf], _FORM), int(gguf.stat().st_size * _GROWTH) + _TOKENIZER_BYTES


def _kept(entry: CacheEntry, converted: Converted) -> bool:
    """Keep a converted model, or the reason why there is none: the next start need not try."""
    if converted.refusal:
        for each in entry.path.iterdir():
            if each.is_dir():
                shutil.rmtree(each)
            else:
                each.unlink()
        (entry.path / _REFUSAL).write_text(converted.refusal, encoding="utf-8")
    return entry.complete()


def _is_refused(entry: CacheEntry, name: str) -> bool:
    """True if the model cannot be converted exactly, which is logged."""
    try:
        refusal = (entry.path / _REFUSAL).read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    _log.info("%s: the GGUF file cannot be converted exactly: %s", name, refusal)
    return True


async def _convert(gguf: Path, directory: Path, name: str, progress: LoadProgress) -> Converted:
    """Convert in a process.

    Raises:
        LoadError: it failed; the text says why.
    """
    child = Supervisor(
        name=f'conversion of "{name}"',
        module="calculators.llm.conversion.process",
        load=Load(str(gguf), str(directory)),
        decode=from_converter_decoder.decode,
        ready=Converted,
        on_message=lambda message: None,
        on_down=lambda reason: None,
        is_busy=lambda: False,
        hang_seconds=60.0,
    )
    loop = asyncio.get_running_loop()
    start = loop.time()
    converted: Converted = await child.start(progress)
    await child.close()
    if not converted.refusal:
        _log.info("%s: the GGUF file was converted in %.1f s", name, loop.time() - start)
    return converted
