"""Prompts that ask a model for the text between two others, by the special tokens made for that.

A model is trained on texts whose parts stand in another order, each after a token of its own:
``<|fim_prefix|>`` what is before, ``<|fim_suffix|>`` what is after, ``<|fim_middle|>``, and goes on
with the missing part. The names of the tokens differ by family (`FAMILIES`); some families want
what is after first. Other files of the project stand before all that, after the family's tokens
for repositories and files where it has some.

The tokens are put in as ids, and the client's texts are tokenized apart from them, without any
special tokens: no text can open a part (decision 0085). What is before comes first where the
family allows it, so that prompts made while somebody types have a beginning in common.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class InfillFamily:
    """The texts of one family's tokens.

    Attributes:
        prefix, suffix: the tokens in front of the text before and after the gap.
        middle: the token after both; "" where the text before the gap is last, and goes on.
        suffix_first: what is after the gap stands first.
        begins_with_space: the text before the gap begins with the tokenizer's own space.
        repository, file: tokens in front of the project's name and of each file, of which a
            tokenizer may have one.
        ends: further tokens that end the missing text.
    """

    prefix: str
    suffix: str
    middle: str = ""
    suffix_first: bool = False
    begins_with_space: bool = False
    repository: Sequence[str] = ()
    file: Sequence[str] = ()
    ends: Sequence[str] = ()


#: The families whose tokens are known, by the models that brought them.
FAMILIES: Final = (
    # Qwen 2.5 and 3 Coder, CodeGemma (whose files have a separator), Granite from 3 on.
    InfillFamily(
        prefix="<|fim_prefix|>",
        suffix="<|fim_suffix|>",
        middle="<|fim_middle|>",
        repository=("<|repo_name|>", "<|reponame|>"),
        file=("<|file_sep|>", "<|file_separator|>", "<|filename|>"),
        ends=("<|fim_pad|>",),
    ),
    # StarCoder 1 and 2, Granite Code, Stable Code, Yi Coder.
    InfillFamily(
        prefix="<fim_prefix>",
        suffix="<fim_suffix>",
        middle="<fim_middle>",
        repository=("<repo_name>", "<reponame>"),
        file=("<file_sep>", "<filename>"),
        ends=("<fim_pad>",),
    ),
    # SantaCoder.
    InfillFamily(
        prefix="<fim-prefix>", suffix="<fim-suffix>", middle="<fim-middle>", ends=("<fim-pad>",)
    ),
    # DeepSeek Coder, V2 and V3.
    InfillFamily(
        prefix="<｜fim▁begin｜>",
        suffix="<｜fim▁hole｜>",
        middle="<｜fim▁end｜>",
    ),
    # Code Llama, whose tokens some conversions write with a space.
    *(
        InfillFamily(
            prefix=f"{space}<PRE>",
            suffix=f"{space}<SUF>",
            middle=f"{space}<MID>",
            begins_with_space=True,
            ends=(f"{space}<EOT>",),
        )
        for space in ("▁", "", " ")
    ),
    # Codestral.
    InfillFamily(prefix="[PREFIX]", suffix="[SUFFIX]", suffix_first=True),
    # GLM from 4 on.
    InfillFamily(prefix="<|code_prefix|>", suffix="<|code_suffix|>", middle="<|code_middle|>"),
    # Seed Coder.
    InfillFamily(
        prefix="<[fim-prefix]>",
        suffix="<[fim-suffix]>",
        middle="<[fim-middle]>",
        suffix_first=True,
    ),
    # Falcon H1 Tiny Coder.
    InfillFamily(prefix="<|prefix|>", suffix="<|suffix|>", middle="<|middle|>"),
)

#: What comes before the first other file, and before the file with the gap, where files have tokens
#: of their own. Requests name neither.
_PROJECT: Final = "myproject"
_OPEN_FILE: Final = "filename"
#: The room of a prompt that the text after the gap may take, at least, where not all fits.
_SUFFIX_SHARE: Final = 4
#: A text that is cut at its beginning begins at a multiple of so many tokens, so that prompts that
#: follow each other have a beginning in common; less where there is little room.
_CUT_STEP: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class InfillTokens:
    """The ids of a vocabulary's tokens; None for one that it lacks.

    Attributes:
        ends: all tokens that end the missing text, beside the model's own.
    """

    prefix: int
    suffix: int
    middle: int | None
    suffix_first: bool
    begins_with_space: bool
    repository: int | None
    file: int | None
    ends: tuple[int, ...]


def infill_tokens(
    vocabulary: Mapping[bytes, int], declared: Mapping[str, Any]
) -> InfillTokens | None:
    """Return the tokens of a vocabulary; None: its model cannot fill in text.

    Args:
        vocabulary: ids by the bytes of tokens.
        declared: ids that the model's files name, ``{"prefix": 1, "suffix": 2, ...}``; they take
            precedence, and are enough without a family.
    """

    def first(texts: Sequence[str]) -> int | None:
        return next(
            (vocabulary[each.encode()] for each in texts if each.encode() in vocabulary), None
        )

    size = max(vocabulary.values(), default=-1) + 1
    known = {
        name: each for name, each in declared.items() if type(each) is int and 0 <= each < size
    }
    for family in FAMILIES:
        needed = [each for each in (family.prefix, family.suffix, family.middle) if each]
        if all(each.encode() in vocabulary for each in needed):
            break
    else:
        if not {"prefix", "suffix", "middle"} <= known.keys():
            return None
        family = InfillFamily(prefix="", suffix="")
    prefix = known.get("prefix", first([family.prefix]))
    suffix = known.get("suffix", first([family.suffix]))
    assert prefix is not None
    assert suffix is not None
    middle = known.get("middle", first([family.middle]) if family.middle else None)
    repository = known.get("repository", first(family.repository))
    file = known.get("file", first(family.file))
    further = [first([each]) for each in family.ends]
    ends = {prefix, suffix, middle, repository, file, known.get("pad"), *further}
    return InfillTokens(
        prefix=prefix,
        suffix=suffix,
        middle=middle,
        suffix_first=family.suffix_first,
        begins_with_space=family.begins_with_space,
        repository=repository,
        file=file,
        ends=tuple(sorted(each for each in ends if each is not None)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class InfillParts:
    """The ids of the client's texts.

    Attributes:
        files: the ids of each other file: of its name, a line end and its text where files have
            tokens; else of a text with a heading.
        middle: of the beginning of the missing text.
        heading: of what stands before the first file, and before the file with the gap.
    """

    prefix: list[int]
    suffix: list[int]
    middle: list[int]
    files: list[list[int]]
    project: list[int]
    open_file: list[int]


def file_text(tokens: InfillTokens, name: str, text: str) -> str:
    """Return the text of another file with its name, for its tokens."""
    return f"{name}\n{text}" if tokens.file is not None else f"--- {name} ---\n{text}\n\n"


def heading_texts(tokens: InfillTokens) -> tuple[str, str]:
    """Return what follows the token of the repository, and of the file with the gap."""
    project = "" if tokens.repository is None else f"{_PROJECT}\n"
    return project, "" if tokens.file is None else f"{_OPEN_FILE}\n"


def infill_prompt(
    tokens: InfillTokens, parts: InfillParts, begin: Sequence[int], room: int | None
) -> list[int]:
    """Return the ids of a prompt.

    Args:
        begin: the ids that the model expects at the beginning of every text.
        room: the most tokens of the prompt: where it would have more, other files are left out
            from the first one on, then the beginning of what is before the gap and the end of what
            is after it. None: nothing is cut.
    """
    prefix, suffix = parts.prefix, parts.suffix
    fixed = len(begin) + 2 + (tokens.middle is not None) + len(parts.middle)
    files = parts.files
    if room is not None:
        left = max(0, room - fixed)
        if len(prefix) + len(suffix) > left:
            suffix = suffix[: max(left // _SUFFIX_SHARE, left - len(prefix))]
            prefix = _cut(prefix, left - len(suffix))
        left -= len(prefix) + len(suffix)
        left -= len(parts.project) + len(parts.open_file) + 2
        files = _last_files(files, left)
    ids = [*begin]
    if files:
        if tokens.repository is not None:
            ids += [tokens.repository, *parts.project]
        for file in files:
            ids += [*([] if tokens.file is None else [tokens.file]), *file]
        if tokens.file is not None:
            ids += [tokens.file, *parts.open_file]
    before = [tokens.prefix, *prefix]
    after = [tokens.suffix, *suffix]
    ids += [*after, *before] if tokens.suffix_first else [*before, *after]
    if tokens.middle is not None:
        ids.append(tokens.middle)
    return ids + parts.middle


def _cut(prefix: list[int], room: int) -> list[int]:
    """Return the end of the text before the gap."""
    excess = len(prefix) - room
    if excess <= 0:
        return prefix
    step = max(1, min(_CUT_STEP, room // 4))
    return prefix[-(-excess // step) * step :]


def _last_files(files: list[list[int]], room: int) -> list[list[int]]:
    """Return the last files that fit, each with the token in front of it."""
    for number in range(len(files) - 1, -1, -1):
        room -= len(files[number]) + 1
        if room < 0:
            return files[number + 1 :]
    return files
