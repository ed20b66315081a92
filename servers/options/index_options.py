"""Options of `graphrt index`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from calculators.kit.settings.declaration import Group, Option, option, options_of
from calculators.kit.settings.value_types import one_of

INDEX: Final = Group("the index")
MODEL: Final = Group("the embedding model")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOptions:
    """The index that is made, and the model that embeds its passages."""

    out: str = option(
        "docs.db",
        "the index; default {default}. One of more than 20,000 passages gets a second file for its "
        "search, FILE.usearch, if the extra `retrieval` is installed",
        group=INDEX,
        metavar="FILE",
    )
    root: str = option(
        ".",
        "the directory that paths of sources are relative to; default the current one. Clients see "
        "these paths",
        group=INDEX,
        metavar="DIR",
    )
    model: str | None = option(
        None,
        "its directory: openvino_model.xml, tokenizer.json. Graphs that search the index need the "
        "same one",
        group=MODEL,
        metavar="DIR",
    )
    pooling: str = option(
        "",
        "CLS, LAST or MEAN of a text's tokens; default as 1_Pooling/config.json says, else CLS",
        group=MODEL,
        metavar="HOW",
        reads=one_of(("CLS", "LAST", "MEAN")),
    )
    target_device: str = option(
        "",
        "CPU, GPU, ...; default CPU",
        group=MODEL,
        metavar="DEVICE",
    )
    plugin_config: str = option(
        "",
        "OpenVINO properties, as a JSON object",
        group=MODEL,
        metavar="JSON",
    )


def index_options() -> tuple[Option, ...]:
    """Return the options of the command."""
    return options_of(IndexOptions)
