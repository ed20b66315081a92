"""Conversion of a GGUF file to OpenVINO's form by openvino-genai. Runs in a process of its own."""

from __future__ import annotations

import contextlib
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any, Final

import openvino_genai as genai

from calculators.child_process.answering_process import Report
from calculators.child_process.messages import Loading

_SAVE: Final = {"enable_save_ov_model": True}
#: The library saves the model before it looks for the device, and there is no other way to get it
#: saved without compiling it.
_NO_DEVICE: Final = "NONE"
_PARTS: Final = ("openvino_model", "openvino_tokenizer", "openvino_detokenizer")
_TEXTS: Final = (
    "The quick brown fox; 3.14 (x != y), it's  two  spaces.\n\n\tEnd .",
    " leading space, don't , do n't",
    "Grüße, žluťoučký kůň, 你好，世界, こんにちは, 안녕, שלום, مرحبا, 👩‍👩‍👧‍👦 \u0000 \ufeff",  # noqa: RUF001
    "<|im_start|>user\nHi<|im_end|><s></s><|endoftext|>",
    "",
)


class NotTheSameError(Exception):
    """The converted model would not answer exactly as the GGUF file does."""


def convert(gguf: Path, directory: Path, report: Report) -> None:
    """Convert ``gguf`` into the empty folder ``directory``, and check what was written.

    The result is the model that the library makes of the file whenever it loads the file. It lacks
    the model's length, which stays in the file's header.

    Raises:
        RuntimeError: the library cannot convert it.
        NotTheSameError: it can, but not exactly.
    """
    # The library writes beside the file, which may be on a read-only disk or someone else's.
    draft = directory / "draft"
    draft.mkdir()
    link = draft / "model.gguf"
    link.symlink_to(gguf.absolute())
    report(Loading("converting the tokenizer of the GGUF file", 0.1, 0.6))
    tokenizer = genai.Tokenizer(str(link), **_SAVE)
    report(Loading("converting the weights of the GGUF file", 0.6, 0.9))
    with contextlib.suppress(RuntimeError):
        genai.ContinuousBatchingPipeline(
            str(link), tokenizer, genai.SchedulerConfig(), _NO_DEVICE, **_SAVE
        )
    report(Loading("checking the converted model", 0.9, 1.0))
    for part in _PARTS:
        for name in (f"{part}.xml", f"{part}.bin"):
            # Later versions than 2026.4 write into a folder below.
            found = next(draft.rglob(name), None)
            if found is None:
                raise RuntimeError(f"the library has not written {name}")
            found.rename(directory / name)
        _check_file(directory / part)
    shutil.rmtree(draft)
    _check_same(tokenizer, genai.Tokenizer(str(directory)))


def _check_file(part: Path) -> None:
    """Check that both files are whole and exact.

    The library does not notice a full disk. When it saves a model that is not quantized, it rounds
    float32 to float16, the frequencies of rotary embeddings among them.

    Raises:
        RuntimeError: a file is cut off.
        NotTheSameError: numbers were rounded.
    """
    size = part.with_suffix(".bin").stat().st_size
    try:
        for _, element in ElementTree.iterparse(part.with_suffix(".xml")):
            if element.tag == "data":
                end = int(element.get("offset", 0)) + int(element.get("size", 0))
                if end > size:
                    raise RuntimeError(f"{part.name}.bin is cut off: is the disk full?")
            elif element.tag == "attribute" and element.get("name") == "decompression":
                raise NotTheSameError("it is not quantized, and would be rounded to float16")
            element.clear()
    except ElementTree.ParseError:
        raise RuntimeError(f"{part.name}.xml is cut off: is the disk full?") from None


def _check_same(before: Any, after: Any) -> None:
    """Check that both tokenizers do the same.

    Raises:
        NotTheSameError: they do not.
    """
    if _facts(before) != _facts(after):
        raise NotTheSameError("its tokenizer would differ")


def _facts(tokenizer: Any) -> tuple[object, ...]:
    encoded = [
        tokenizer.encode(text, add_special_tokens=special).input_ids.data.tolist()
        for text in _TEXTS
        for special in (True, False)
    ]
    return (
        tokenizer.get_vocab(),
        tokenizer.chat_template,
        tokenizer.get_bos_token(),
        tokenizer.get_eos_token(),
        tokenizer.get_bos_token_id(),
        tokenizer.get_eos_token_id(),
        tokenizer.get_pad_token_id(),
        encoded,
        [tokenizer.decode(ids[0], skip_special_tokens=True) for ids in encoded],
        [tokenizer.decode(ids[0], skip_special_tokens=False) for ids in encoded],
    )
