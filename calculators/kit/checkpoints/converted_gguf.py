"""A GGUF file's model in OpenVINO's form: found in a cache, or converted into it now.

The cache is the one that the server names, else one of the user's (`model_cache.user_cache`), so
that a file is converted once. Where no cache can be written, or has no room, the model is in a
folder that is removed when it is closed: a start then takes longer, and works all the same.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from calculators.kit.checkpoints.checks import check_file
from calculators.kit.checkpoints.decoder import Decoder
from calculators.kit.checkpoints.families import pooling_of
from calculators.kit.checkpoints.gguf import GgufFile
from calculators.kit.checkpoints.messages import ConversionLoad, Converted, from_converter_decoder
from calculators.kit.checkpoints.packed import OffsetForm, is_large, stored_bytes
from calculators.kit.checkpoints.vocabulary import pre_tokenizer_of, read_vocabulary
from calculators.kit.child_process.supervisor import LoadError, SupervisedProcess
from calculators.kit.machine import usable_memory
from calculators.kit.model_cache import BeingMade, CacheEntry, ModelCache, key_of
from graph_runtime import LoadProgress, ResourceError

_log = logging.getLogger("graphrt.llm")

_KIND: Final = "gguf"
#: Incremented when graphrt converts otherwise than before.
_FORM: Final = 8
#: Beside the weights: the graph, and tokenizers of up to 262,144 tokens.
_FURTHER_BYTES: Final = 64 << 20
#: The part of a machine's memory that the weights may take in their fastest form: the cache and
#: other models need some too.
_MEMORY_SHARE: Final = 0.6
#: The conversion's part of the first start, by processor time.
_SHARE: Final = 0.5
#: Seconds between two checks whether another server's conversion is complete, and until that is
#: waited for no more.
_WAIT_STEP: Final = 0.25
WAIT_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class GgufSource:
    """A GGUF file that can be converted, by its header.

    Attributes:
        file: its header, and the headers of the other parts.
        decoder: the numbers of its model.
        form: of weights with offsets.
        size: bytes of the converted weights.
        templates: of chats, by name; "" is the default one.
        pooling: of a model that turns texts into vectors; "" for language models.
    """

    file: GgufFile
    decoder: Decoder
    form: OffsetForm
    size: int
    templates: Mapping[str, str]
    pooling: str = ""

    @property
    def facts(self) -> str:
        """Types of the weights in the file and in the engine, for the log."""
        kinds = ", ".join(f"{kind} ({count})" for kind, count in self.file.kinds.items())
        return (
            f"{self.decoder.architecture}, {len(self.decoder.layers)} layers, tensors of {kinds}, "
            f"context {self.decoder.context or 'unknown'}; weights in the form {self.form}, "
            f"{self.size / 1e6:.0f} MB"
        )

    @property
    def key(self) -> str:
        """The name of the converted model in a cache."""
        # Only models with a soft cap of attention have a form of their own without batches.
        softcap = self.decoder.attention_softcap
        return key_of(self.file.parts, _FORM, self.form, *([softcap] if softcap else []))


class ConvertedModel:
    """The directory of a converted model, in use until it is closed."""

    def __init__(
        self, entry: CacheEntry, folder: tempfile.TemporaryDirectory[str] | None = None
    ) -> None:
        """``folder``: removed by `close`."""
        self._entry = entry
        self._folder = folder

    @property
    def path(self) -> Path:
        return self._entry.path

    def close(self) -> None:
        """End the use."""
        self._entry.close()
        if self._folder is not None:
            self._folder.cleanup()


def read_source(path: Path, form: str = "", *, batches: bool = True) -> GgufSource:
    """Read the header of a GGUF file, and check all that it says.

    Args:
        form: of weights with offsets; "": the fastest one that the machine's memory has room for.
        batches: for continuous batching; see `read_decoder`.

    Raises:
        ResourceError: the file is damaged, or of a model that cannot be run.
    """
    try:
        file = GgufFile(path)
    except OSError as error:
        raise ResourceError(f'"{path.name}" cannot be read: {error.strerror}') from None
    decoder = check_file(file, batches=batches)
    vocabulary = read_vocabulary(file.metadata, file.name)
    pre_tokenizer_of(vocabulary, file.name)
    rows = file.tensors["token_embd.weight"].shape[0]
    if rows != len(vocabulary.tokens):
        raise ResourceError(
            f'"{file.name}": the value "tokenizer.ggml.tokens" has {len(vocabulary.tokens)} texts, '
            f'and the tensor "token_embd.weight" {rows} rows'
        )
    chosen = OffsetForm(form) if form else _fitting_form(file, usable_memory())
    size = converted_bytes(file, chosen)
    return GgufSource(file, decoder, chosen, size, vocabulary.templates, pooling_of(file))


def converted_bytes(file: GgufFile, form: OffsetForm) -> int:
    """Return the bytes of the weights, on the disk and in memory."""
    return sum(
        stored_bytes(tensor.type.name, tensor.weights, form, is_large=is_large(tensor))
        for tensor in file.tensors.values()
    )


def _fitting_form(file: GgufFile, memory: int) -> OffsetForm:
    """Return the fastest form of which ``memory`` bytes have room."""
    # Scaled is the fastest form, and takes up to twice the bytes of split (decision 0086).
    has_room = converted_bytes(file, OffsetForm.SCALED) <= memory * _MEMORY_SHARE
    return OffsetForm.SCALED if has_room else OffsetForm.SPLIT


async def hold_converted(
    source: GgufSource, cache: ModelCache | None, name: str, progress: LoadProgress
) -> tuple[ConvertedModel, LoadProgress]:
    """Return the model of a GGUF file, converted now unless the cache holds it.

    The second result is the progress of the remaining work.

    Args:
        name: the served model's, for the log.

    Raises:
        ResourceError: the file cannot be converted.
    """
    progress.begin("reading the GGUF file", 0.0)
    _log.info("%s: GGUF file, %s", name, source.facts)
    if source.decoder.family.warning and not source.decoder.attention_softcap:
        _log.warning("%s: %s", name, source.decoder.family.warning)
    entry = None if cache is None else await _hold(source, cache, progress)
    folder = None
    if entry is None:
        # Without a cache the model is served all the same, and each start converts (decision 0051).
        folder = tempfile.TemporaryDirectory(prefix="graphrt-gguf-")
        entry = ModelCache(Path(folder.name)).hold(_KIND, source.key)
        if entry is None:
            folder.cleanup()
            raise ResourceError(
                f'"{source.file.name}" cannot be converted: neither the cache nor '
                f"{tempfile.gettempdir()} can be written"
            )
    model = ConvertedModel(entry, folder)
    if entry.is_complete:
        return model, progress
    of_conversion, rest = progress.split(_SHARE, 1 - _SHARE)
    try:
        await convert(source, entry.path, name, of_conversion)
        if not await asyncio.to_thread(entry.complete):
            raise ResourceError(f'"{source.file.name}": the converted model could not be kept')
    except LoadError as error:
        await asyncio.to_thread(model.close)
        raise ResourceError(f"the GGUF file cannot be converted: {error}") from None
    except BaseException:
        await asyncio.to_thread(model.close)
        raise
    return model, rest


def find_converted(path: Path, form: str, cache: ModelCache, *, batches: bool) -> Path | None:
    """Return the directory of a converted GGUF file; None if the cache does not hold it yet."""
    try:
        found = cache.find(_KIND, read_source(path, form, batches=batches).key)
    except (OSError, ResourceError):  # loading the model reports it with more detail
        return None
    return found


async def _hold(source: GgufSource, cache: ModelCache, progress: LoadProgress) -> CacheEntry | None:
    loop = asyncio.get_running_loop()
    until = loop.time() + WAIT_SECONDS
    needed = source.size + _FURTHER_BYTES
    while True:
        try:
            key = await asyncio.to_thread(lambda: source.key)
            # Two servers that want the same file convert it once; the lock ends with its process
            # (decision 0051).
            return await asyncio.to_thread(cache.hold, _KIND, key, needed)
        except OSError as error:
            raise ResourceError(f'"{source.file.name}" cannot be read: {error.strerror}') from None
        except BeingMade:
            progress.begin("waiting for the conversion by another server", 0.0)
            if loop.time() > until:
                return None
            await asyncio.sleep(_WAIT_STEP)


async def convert(source: GgufSource, directory: Path, name: str, progress: LoadProgress) -> None:
    """Convert a file into an empty folder, in a process of its own.

    Args:
        name: for the log.

    Raises:
        LoadError: it failed; the text says why.
    """
    child = SupervisedProcess(
        name=f'conversion of "{name}"',
        module="calculators.kit.checkpoints.process",
        load=ConversionLoad(
            str(source.file.parts[0]),
            str(directory),
            str(source.form),
            source.size,
            batches=not source.decoder.attention_softcap,
        ),
        decode=from_converter_decoder.decode,
        ready=Converted,
        hang_seconds=60.0,
    )
    loop = asyncio.get_running_loop()
    start = loop.time()
    try:
        await child.start(progress)
    finally:
        await child.close()
    _log.info("%s: the GGUF file was converted in %.1f s", name, loop.time() - start)
