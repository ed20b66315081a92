"""The bytes of each token, from the files of an OpenVINO detokenizer.

``openvino_genai.Tokenizer.get_vocab`` returns a token by its bytes, so of two tokens with the same
bytes one is missing: SentencePiece has a line end as a text and as a byte. The detokenizer's own
constants have all of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import numpy as np

_MODEL: Final = "openvino_detokenizer"
#: Inputs of the operation `VocabDecoder`: first bytes, last bytes and bytes of all tokens.
_INPUTS: Final = ("1", "2", "3")


def read_token_pieces(directory: Path) -> list[bytes] | None:
    """Return the bytes of each token by id; None if the files have another form."""
    try:
        return _read(directory / f"{_MODEL}.xml", directory / f"{_MODEL}.bin")
    except (OSError, ValueError, KeyError, StopIteration, ElementTree.ParseError):
        return None


def _read(graph: Path, weights: Path) -> list[bytes]:
    model = ElementTree.parse(graph).getroot()
    layers = {layer.attrib["id"]: layer for layer in model.iter("layer")}
    decoder = next(each for each in layers.values() if each.get("type") == "VocabDecoder")
    sources = {
        edge.attrib["to-port"]: layers[edge.attrib["from-layer"]]
        for edge in model.iter("edge")
        if edge.get("to-layer") == decoder.attrib["id"]
    }
    arrays = []
    with weights.open("rb") as file:
        for port in _INPUTS:
            data = next(sources[port].iter("data")).attrib
            file.seek(int(data["offset"]))
            arrays.append(file.read(int(data["size"])))
    begins, ends = (np.frombuffer(each, "<i4").tolist() for each in arrays[:2])
    pieces = arrays[2]
    if len(begins) != len(ends) or (ends and max(ends) > len(pieces)):
        raise ValueError
    return [pieces[begin:end] for begin, end in zip(begins, ends, strict=True)]
