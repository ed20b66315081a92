"""The files of a repository that a model needs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Final

from servers.model_store.model_reference import GGUF, ModelError, ModelReference, check_file_name


class ModelForm(Enum):
    """The form of a model's weights."""

    GGUF = "GGUF"
    OPENVINO = "OpenVINO"
    SAFETENSORS = "safetensors"


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository.

    Attributes:
        name: its path in the repository.
        size: in bytes.
        sha256: of its content, where the hub stores it apart from git (LFS).
        git_sha1: git's name of its content, of all other files.
    """

    name: str
    size: int
    sha256: str | None = None
    git_sha1: str | None = None


@dataclass(frozen=True, slots=True)
class WantedFiles:
    """The files to download, and the form of the model in them."""

    form: ModelForm
    files: tuple[HubFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def main_file(self) -> str:
        """The first of the GGUF files, which is the model's name for the engine."""
        return self.files[0].name


#: Small files beside the weights: configurations, tokenizers, templates, licences.
_BESIDE: Final = re.compile(
    r".*\.(json|txt|jinja|model|tiktoken|vocab|md)\Z|(?:.*/)?(LICENSE|NOTICE|USE_POLICY)[^/]*\Z",
    re.IGNORECASE,
)
#: The first part of a model with an encoder and a decoder.
_ENCODER: Final = "openvino_encoder_model.xml"
_VOICE: Final = re.compile(r"voices/[^/]+\.bin\Z")
#: The file of a pipeline of diffusers, whose parts have folders.
_PIPELINE: Final = "model_index.json"
#: One of several files of one GGUF model.
_SHARD: Final = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf\Z")
#: Quantizations from the best choice on: about four bits, then more of them, then fewer.
_PREFERRED: Final = (
    *("Q4_K_M", "Q4_K_XL", "Q4_K_S", "Q4_K_L", "Q4_K", "Q4_0", "Q4_1", "IQ4_NL", "IQ4_XS", "MXFP4"),
    *("Q5_K_M", "Q5_K_S", "Q5_K", "Q5_0", "Q5_1", "Q6_K", "Q8_0", "Q3_K_L", "Q3_K_M", "Q3_K_S"),
    *("BF16", "F16", "F32"),
)
#: Other forms of the same weights, and what trainings leave.
_APART: Final = ("onnx/", "original/", "openvino/", "coreml/", "metal/", "runs/", "checkpoint-")


def wanted_files(reference: ModelReference, files: Sequence[HubFile]) -> WantedFiles:
    """Choose the files of a repository that its model needs.

    Raises:
        ModelError: there is no model that graphrt can read, there are several, or a file's name
            leads out of the repository.
    """
    for file in files:
        check_file_name(file.name)
    names = [file.name for file in files]
    models = [name for name in names if name.endswith(GGUF) and _is_first(name)]
    if reference.quantization is not None:
        chosen = _of_quantization(reference, reference.quantization, models)
        return WantedFiles(ModelForm.GGUF, _gguf(reference, chosen, files))
    if reference.file is not None:
        return WantedFiles(ModelForm.GGUF, _gguf(reference, reference.file, files))
    if _ENCODER in names:
        return WantedFiles(ModelForm.OPENVINO, _openvino_files(files))
    if any(
        name.endswith("openvino_model.xml") or name == "openvino_language_model.xml"
        for name in names
    ):
        return WantedFiles(ModelForm.OPENVINO, _openvino_files(files))
    if models:
        return WantedFiles(ModelForm.GGUF, _gguf(reference, _preferred(models), files))
    if any(name.endswith(".safetensors") for name in names):
        wanted = _with_endings(files, (".safetensors",))
        if _PIPELINE in names:
            wanted = tuple(file for file in wanted if not _is_needless(file.name))
        return WantedFiles(ModelForm.SAFETENSORS, wanted)
    raise ModelError(
        f"{reference} holds no model that graphrt reads: no OpenVINO model (openvino_model.xml), "
        f"no GGUF file, no safetensors",
        hint=f"it holds {_listed(names)}" if names else "it is empty",
    )


def _openvino_files(files: Sequence[HubFile]) -> tuple[HubFile, ...]:
    """Return graphs with their weights, and voices; other .bin files are PyTorch's."""
    names = [file.name for file in files]
    weights = [f"{name.removesuffix('.xml')}.bin" for name in names if name.endswith(".xml")]
    voices = [name for name in names if _VOICE.match(name)]
    return _with_endings(files, (".xml", *weights, *voices))


def _gguf(reference: ModelReference, name: str, files: Sequence[HubFile]) -> tuple[HubFile, ...]:
    """Return a GGUF file and, if it is one shard of a model, all shards in order."""
    by_name = {file.name: file for file in files}
    if name not in by_name:
        others = [each for each in by_name if each.endswith(GGUF)]
        raise ModelError(
            f"{reference.repository} has no file {name}",
            hint=f"its GGUF files are {_listed(others)}" if others else "it has no GGUF file",
        )
    shard = _SHARD.match(name)
    if shard is None:
        return (by_name[name],)
    count = int(shard["count"])
    shards = [f"{shard['stem']}-{number:05}-of-{count:05}{GGUF}" for number in range(1, count + 1)]
    missing = [each for each in shards if each not in by_name]
    if missing:
        raise ModelError(f"{reference.repository} lacks {_listed(missing)}, a part of {name}")
    return tuple(by_name[each] for each in shards)


def is_one_model(names: Sequence[str]) -> bool:
    """Return whether GGUF files are the shards of one model."""
    shards = [shard for name in names if (shard := _SHARD.match(name)) is not None]
    models = {(shard["stem"], shard["count"]) for shard in shards}
    return len(shards) == len(names) and len(models) == 1


def gguf_path(word: str) -> Path | None:
    """Return the GGUF file that a word names, itself or by a directory with one model.

    None: it names something else.
    """
    path = Path(word)
    if path.suffix == GGUF and path.is_file():
        return path
    files = sorted(path.glob(f"*{GGUF}")) if path.is_dir() else []
    one = len(files) == 1 or (files and is_one_model([file.name for file in files]))
    return files[0] if one else None


def _is_needless(name: str) -> bool:
    """Return whether a file is a pipeline's weights again, in one file or as a variant (fp16)."""
    path = PurePosixPath(name)
    return path.suffix == ".safetensors" and (len(path.parts) == 1 or path.name.count(".") > 1)


def _is_first(name: str) -> bool:
    """Return whether a file is a model's only one or its first shard; projectors are none."""
    shard = _SHARD.match(name)
    first = shard is None or int(shard["number"]) == 1
    stem = PurePosixPath(name).name.lower()
    return first and not stem.startswith("mmproj") and "imatrix" not in stem


def _with_endings(files: Sequence[HubFile], endings: tuple[str, ...]) -> tuple[HubFile, ...]:
    return tuple(
        file
        for file in files
        if (file.name.endswith(endings) or _BESIDE.match(file.name))
        and not file.name.startswith(_APART)
        and not PurePosixPath(file.name).name.startswith(".")
    )


def _of_quantization(reference: ModelReference, kind: str, models: Sequence[str]) -> str:
    """Return the file with a quantization in its name."""
    found = [name for name in models if _has_quantization(name, kind)]
    if not found:
        raise ModelError(
            f"{reference.repository} has no GGUF file of {kind}",
            hint=f"its GGUF files are {_listed(models)}" if models else "it has no GGUF file",
        )
    return min(found, key=lambda name: (len(name), name))


def _preferred(models: Sequence[str]) -> str:
    """Return the file of a repository: Q4_K_M, as Ollama and llama.cpp choose, or the next best."""
    for kind in _PREFERRED:
        found = [name for name in models if _has_quantization(name, kind)]
        if found:
            return min(found, key=lambda name: (len(name), name))
    return models[0]


def _has_quantization(name: str, kind: str) -> bool:
    """Return whether a file's name or folder has a quantization; Q4_K is no part of Q4_K_M."""
    pattern = rf"(?<![A-Za-z0-9]){re.escape(kind)}(?![A-Za-z0-9_])"
    return re.search(pattern, name, re.ASCII | re.IGNORECASE) is not None


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12])
    return f"{shown} and {len(names) - 12} more" if len(names) > 12 else shown
