"""The tables in ``docs/models.md``, made of declarations: of calls and reasoning, of GGUF files.

``python -m website.model_tables`` writes them anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from calculators.kit.checkpoints.families import (
    ENCODERS,
    FAMILIES,
    MISSING,
    NEIGHBOURS,
    ModelFamily,
)
from calculators.kit.checkpoints.packed import UNPACKED, OffsetForm, computable_types, stored_bytes
from calculators.llm.parsers import families as calls
from calculators.llm.parsers.families import AnswerFamily

PAGE: Final = Path(__file__).parents[1] / "docs" / "models.md"
_END: Final = "<!-- end -->\n"
_SAMPLE: Final = 1 << 20


def table_of_calls() -> str:
    """Return the table of the forms of calls and reasoning."""
    lines = ["| family | models | a call; its argument; around all | reasoning |"]
    lines.append("|---|---|---|---|")
    for family in calls.FAMILIES.values():
        names = ", ".join(f"`{name}`" for name in (family.name, *family.aliases))
        models = ", ".join(family.models)
        lines.append(f"| {names} | {models} | {_calls(family)} | {_reasoning(family)} |")
    return "\n".join(lines) + "\n"


def _calls(family: AnswerFamily) -> str:
    form = family.calls
    if form is None:
        return "none"
    found = [_shown(form.call)]
    if form.argument:
        found.append(_shown(form.argument))
    begin, end = form.section
    if form.is_list:
        begin, end = begin + "[", "]" + end
    if begin or end:
        found.append(f"{_shown(begin)} … {_shown(end)}" if end else _shown(begin))
    return "; ".join(found)


def _reasoning(family: AnswerFamily) -> str:
    marks = family.reasoning
    return "none" if marks is None else f"{_shown(marks.begin[0])} … {_shown(marks.end[0])}"


def _shown(text: str) -> str:
    """Return a text as code in a table; line ends are shown."""
    written = text.replace("\n", "⏎").replace("|", "\\|")
    return f"`` {written} ``" if "`" in text else f"`{written}`"


def tables_of_gguf() -> str:
    """Return both tables of GGUF files, and what cannot be run."""
    lines = _families(FAMILIES)
    lines += ["", "Encoders, for embeddings and rerank:", "", *_families(ENCODERS)]
    by_need: dict[str, list[str]] = {}
    for name, need in MISSING.items():
        by_need.setdefault(need, []).append(f"`{name}`")
    lines += [
        "",
        "These architectures are known and refused, since the engine lacks an operation:",
        "",
        "| architecture | needs |",
        "|---|---|",
        *(f"| {', '.join(names)} | {need} |" for need, names in by_need.items()),
        "",
        "| type | codes | group | bytes per weight: "
        + " | ".join(f"*{form}*" for form in OffsetForm)
        + " |",
        "|---|---|---|" + "---|" * len(OffsetForm),
    ]
    for name in computable_types():
        layout = UNPACKED.get(name)
        bytes_of = [stored_bytes(name, _SAMPLE, form, is_large=True) for form in OffsetForm]
        sizes = [f"{each / _SAMPLE:.2f}" for each in bytes_of]
        codes, group = "none", "none"
        if layout is not None:
            codes = layout.kind + (", with offset" if layout.has_offset else "")
            group = str(layout.group)
        lines.append(f"| {name} | {codes} | {group} | {' | '.join(sizes)} |")
    return "\n".join(lines) + "\n"


def _families(families: Mapping[str, ModelFamily]) -> list[str]:
    lines = ["| architecture | models | attention | feed-forward |", "|---|---|---|---|"]
    for name, family in sorted(families.items()):
        lines.append(
            f"| `{name}` | {family.models} | {_attention(family)} | {_feed_forward(family)} |"
        )
    return lines


def _attention(family: ModelFamily) -> str:
    found = []
    kinds = {
        "latent": "latent",
        "convolution": "short convolutions in most layers",
        "delta": "gated delta rule in 3 of 4 layers",
    }
    if family.builder in kinds:
        found.append(kinds[family.builder])
    if family.positions == "learned":
        found.append("learned positions")
    elif family.positions == "slopes":
        found.append("slopes (ALiBi)")
    else:
        pairs = "neighbours" if family.rotary == NEIGHBOURS else "halves"
        found.append(f"rotary, {pairs}")
    if family.unrotated_period:
        found.append(f"every {family.unrotated_period}th layer without")
    if family.window_period == 1:
        found.append("windows by the file")
    elif family.window_period:
        layers = f" ({family.window_layers} layers)" if family.window_layers else ""
        found.append(f"windows, 1 of {family.window_period} layers full{layers}")
    if family.warning:
        found.append(family.warning.partition(";")[0])
    return "; ".join(found)


def _feed_forward(family: ModelFamily) -> str:
    words = {
        "silu": "SiLU",
        "gelu": "GELU",
        "gelu_erf": "GELU",
        "relu2": "ReLU²",
        "clamped": "clamped SwiGLU",
    }
    found = [words[family.activation]]
    if family.parallel == "yes":
        found.append("parallel to attention")
    if family.expert_gating != "softmax" or family.expert_sum is not None:
        found.append("experts")
    return ", ".join(found)


def with_tables(page: str) -> str:
    """Return the page with its tables made anew."""
    for name, table in (("calls", table_of_calls()), ("gguf", tables_of_gguf())):
        begin = f"<!-- made by website.model_tables: {name} -->\n"
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(_END)
        page = f"{before}{begin}\n{table}\n{_END}{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
