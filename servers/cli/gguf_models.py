"""GGUF files in commands: what a file holds, and its model as a directory in OpenVINO's form."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from calculators.kit.checkpoints.converted_gguf import (
    ConvertedModel,
    GgufSource,
    convert,
    converted_bytes,
    hold_converted,
    read_source,
)
from calculators.kit.checkpoints.gguf import GgufFile
from calculators.kit.checkpoints.packed import OffsetForm
from calculators.kit.checkpoints.vocabulary import Vocabulary, read_vocabulary
from calculators.kit.child_process.supervisor import LoadError
from calculators.kit.machine import usable_memory
from calculators.kit.model_cache import user_cache
from calculators.llm.model_files import cache_size_for, read_cache_shape
from calculators.llm.model_source import check_templates
from calculators.llm.options.plugin_config import keep_numbers
from calculators.llm.parsers.pattern import described
from calculators.llm.prompt.chat_template.chat_renderer import ChatRenderer
from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.limits import ChatTemplateError
from graph_runtime import LoadProgress, ResourceError
from servers.cli.messages import CommandFailed, ProgressLine
from servers.model_store.progress import size_text

#: Converted models that this process serves.
_held: list[ConvertedModel] = []
_TEMPLATES: Final = ("chat_template.jinja", "tokenizer_config.json")
_POLL_SECONDS: Final = 0.1


def describe_gguf(path: Path, *, as_json: bool) -> str:
    """Return what a GGUF file holds, and what serving it takes; as text or as JSON.

    Raises:
        CommandFailed: the file is damaged, or of a model that cannot be run.
    """
    try:
        source = read_source(path)
        facts = _facts(source)
    except ResourceError as error:
        raise CommandFailed(str(error)) from error
    return json.dumps(facts, indent=2, ensure_ascii=False) + "\n" if as_json else _text(facts)


def held_encoder(path: Path, name: str) -> Path | None:
    """Return the directory of an embedding or rerank model, converted unless the cache has it.

    None: the file is of another kind, or cannot be converted, which its loading reports. The
    directory stays until this process ends.
    """
    try:
        source = read_source(path)
        if not source.pooling:
            return None
        model, _ = asyncio.run(hold_converted(source, user_cache(), name, LoadProgress()))
    except ResourceError:
        return None
    _held.append(model)
    return model.path


def convert_to(path: Path, directory: Path, *, exact: bool, batches: bool = True) -> None:
    """Convert a GGUF file, or all files of a split model, into a directory that does not exist yet.

    The directory appears when it is whole.

    Args:
        batches: for continuous batching; see `read_source`.

    Raises:
        CommandFailed: the directory is there, the file cannot be converted, or the disk fails.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise CommandFailed(
            f"--to {directory}: there is something already", hint="name a new directory"
        )
    # Beside its goal: `os.replace` moves a directory inside one file system only.
    draft = directory.with_name(f".{directory.name}.part")
    try:
        source = read_source(path, "exact" if exact else "", batches=batches)
        check_templates(source)
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        _check_room(draft, source.size)
        asyncio.run(_convert(source, draft, path.stem))
        _copy_template(path.parent, draft)
        os.replace(draft, directory)
    except (ResourceError, LoadError) as error:
        raise CommandFailed(f"{path}: {error}") from error
    except OSError as error:
        raise CommandFailed(f"{directory}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def options_of_directory(options: Mapping[str, Any], *, exact: bool) -> dict[str, Any]:
    """Return a task's options for the converted model, which has its form of weights already."""
    found = dict(options)
    if exact:
        properties = json.loads(found.get("plugin_config") or "{}")
        if precision := found.pop("kv_cache_precision", ""):
            properties.setdefault("KV_CACHE_PRECISION", precision)
        keep_numbers(properties, found.get("target_device", ""))
        found["plugin_config"] = json.dumps(properties)
    return found


def _check_room(directory: Path, size: int) -> None:
    free = shutil.disk_usage(directory).free
    if free < size:
        raise CommandFailed(
            f"{size_text(size)} are needed beside {directory.parent}, where {size_text(free)} "
            "are free"
        )


async def _convert(source: GgufSource, directory: Path, name: str) -> None:
    progress, line = LoadProgress(), ProgressLine()
    conversion = asyncio.create_task(convert(source, directory, name, progress))
    while not conversion.done():
        line.show(f"{progress.fraction:4.0%} {progress.phase}")
        await asyncio.wait({conversion}, timeout=_POLL_SECONDS)
    line.end()
    await conversion


def _copy_template(source: Path, directory: Path) -> None:
    """Copy the template beside a file without one."""
    if not (directory / _TEMPLATES[0]).exists():
        for name in _TEMPLATES:
            if (source / name).is_file():
                shutil.copyfile(source / name, directory / name)


# Facts --------------------------------------------------------------------------------------------


def _facts(source: GgufSource) -> dict[str, Any]:
    file = source.file
    decoder = source.decoder
    vocabulary = read_vocabulary(file.metadata, file.name)
    # Layers of other kinds than attention have no heads.
    layer = max(decoder.layers, key=lambda each: each.kv_heads)
    windows = {each.window for each in decoder.layers}
    shape = read_cache_shape(file.parts[0])
    return {
        "file": file.name,
        "files": len(file.parts),
        "bytes": sum(part.stat().st_size for part in file.parts),
        "name": file.metadata.text("general.name", "") or None,
        "architecture": file.architecture,
        "family": decoder.family.models,
        "warning": decoder.family.warning or None,
        "parameters": sum(tensor.weights for tensor in file.tensors.values()),
        "types": dict(sorted(file.kinds.items(), key=lambda each: -each[1])),
        "layers": len(decoder.layers),
        "width": decoder.width,
        "heads": layer.heads,
        "kv_heads": layer.kv_heads,
        "experts": decoder.experts.number or None,
        "pooling": source.pooling or None,
        "window": max(windows) or None,
        "context": decoder.context,
        "tokenizer": _tokenizer_facts(vocabulary),
        "chat_template": None if source.pooling else _template_facts(vocabulary, file),
        "weights": {
            "form": source.form,
            "bytes": {form: converted_bytes(file, form) for form in OffsetForm},
        },
        "cache": None
        if shape is None or source.pooling
        else {
            "bytes_per_token": shape.bytes_per_token(),
            "bytes_of_context": shape.bytes_per_token() * decoder.context,
            "default_size_gb": cache_size_for(shape, usable_memory()),
        },
    }


def _tokenizer_facts(vocabulary: Vocabulary) -> dict[str, Any]:
    return {
        "kind": vocabulary.kind,
        "pre_tokenizer": vocabulary.pre_tokenizer or None,
        "tokens": len(vocabulary.tokens),
        "ends": [vocabulary.text(each) for each in vocabulary.ends],
    }


def _template_facts(vocabulary: Vocabulary, file: GgufFile) -> dict[str, Any] | None:
    try:
        template = _template_of(vocabulary, file)
        if template.files.is_default:
            return None
        chats = ChatRenderer(template)
    except ChatTemplateError as error:
        return {"problem": str(error)}
    return {
        "file": None if "" in vocabulary.templates else template.files.main.file,
        "others": [name for name in vocabulary.templates if name],
        "tool_parser": chats.tool_parser or None,
        "reasoning_parser": chats.analysis.reasoning_parser,
        "made": described(chats.analysis.made) if chats.analysis.made is not None else None,
        "knows_tools": chats.knows_tools,
    }


def _template_of(vocabulary: Vocabulary, file: GgufFile) -> ChatTemplate:
    """Return the file's template, else the one beside it."""
    source = vocabulary.templates.get("")
    if source is None:
        return ChatTemplate.load(file.parts[0].parent)
    return ChatTemplate.of_source(
        source,
        bos_token=vocabulary.text(vocabulary.bos),
        eos_token=vocabulary.text(vocabulary.eos),
        file="tokenizer.chat_template",
    )


def template_of_gguf(path: Path) -> ChatTemplate:
    """Return the chat template of a GGUF file, which may lie beside it.

    Raises:
        CommandFailed: the file is damaged, or has no template.
        ChatTemplateError: the template cannot be used.
    """
    try:
        file = GgufFile(path)
        template = _template_of(read_vocabulary(file.metadata, file.name), file)
    except (OSError, ResourceError) as error:
        raise CommandFailed(str(error)) from error
    if template.files.is_default:
        raise CommandFailed(
            f"{path} has no chat template, as base models have none",
            hint="put it as chat_template.jinja beside the file",
        )
    return template


def _text(facts: Mapping[str, Any]) -> str:
    weights, cache, tokenizer = facts["weights"], facts["cache"], facts["tokenizer"]
    kinds = ", ".join(f"{kind} ({count} tensors)" for kind, count in facts["types"].items())
    sizes = ", ".join(f"{form} {size_text(size)}" for form, size in weights["bytes"].items())
    files = f"{facts['files']} files, " if facts["files"] > 1 else ""
    pre = f" ({tokenizer['pre_tokenizer']})" if tokenizer["pre_tokenizer"] else ""
    shape = (
        f"{facts['layers']} layers of {facts['width']}, {facts['heads']} heads, "
        f"{facts['kv_heads']} of keys and values"
    )
    if facts["experts"]:
        shape += f", {facts['experts']} experts"
    if facts["pooling"]:
        one = "a score" if facts["pooling"] == "RANK" else f"one vector of {facts['width']}"
        shape += f", {one} by {facts['pooling'].lower()} pooling"
    if facts["window"]:
        shape += f", windows of {facts['window']} tokens"
    rows = [
        ("name", facts["name"]),
        ("architecture", f"{facts['architecture']} ({facts['family']})"),
        ("warning", facts["warning"]),
        ("parameters", _count(facts["parameters"])),
        ("size", files + size_text(facts["bytes"])),
        ("types", kinds),
        ("shape", shape),
        ("context", f"{facts['context']:,} tokens"),
        ("tokenizer", f"{tokenizer['kind']}{pre}, {tokenizer['tokens']:,} tokens"),
        ("ends", " ".join(tokenizer["ends"]) or "none"),
        ("template", None if facts["pooling"] else _template_text(facts["chat_template"])),
        ("weights", f"computed as {weights['form']}; {sizes}"),
    ]
    if cache is not None:
        rows.append(
            (
                "memory",
                f"{size_text(weights['bytes'][weights['form']])} of weights, and a cache of "
                f"{cache['default_size_gb']} GB: {size_text(cache['bytes_per_token'])} a token, "
                f"{size_text(cache['bytes_of_context'])} for a whole context",
            )
        )
    lines = [f"  {name:<13} {text}" for name, text in rows if text]
    return "\n".join([facts["file"], *lines]) + "\n"


def _template_text(facts: Mapping[str, Any] | None) -> str:
    if facts is None:
        return "none: completions only, unless chat_template.jinja lies beside the file"
    if "problem" in facts:
        return f"cannot be used: {facts['problem']}"
    source = f"of {facts['file']}" if facts["file"] else "of the file"
    others = f", others for {', '.join(facts['others'])}" if facts["others"] else ""
    tools = facts["tool_parser"] or "none"
    if not facts["knows_tools"]:
        tools += " (it shows no tools: they are written into a message)"
    made = f"; made of the template: {facts['made']}" if facts["made"] else ""
    return (
        f"{source}{others}; tool parser {tools}, reasoning parser "
        f"{facts['reasoning_parser'] or 'none'}{made}"
    )


def _count(number: int) -> str:
    for unit, size in (("billion", 10**9), ("million", 10**6)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:,}"
