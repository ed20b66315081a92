"""A file that lacks one of its tensors is refused by its header, and the tensor is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from calculators.kit.checkpoints.checks import check_file
from calculators.kit.checkpoints.gguf import GgufFile
from graphrt_base.errors import ResourceError
from tests.calculators.kit.checkpoints.tiny_encoders import write_encoder
from tests.calculators.kit.checkpoints.tiny_models import CASES, write_tiny

#: Tensors without which a file is one of another, right model: the output layer is the embedding
#: then, or frequencies have no factors.
OPTIONAL = {"output.weight", "rope_freqs.weight"}


def reason_of(file: GgufFile) -> str:
    """Return why a file is refused; "" if it is not."""
    try:
        check_file(file)
    except ResourceError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", CASES)
def test_no_tensor_can_be_left_out(name: str, tmp_path: Path) -> None:
    file = GgufFile(write_tiny(tmp_path / "m.gguf", name, layers=max(2, CASES[name].layers)))
    check_file(file)
    accepted = set()
    for tensor in list(file.tensors):
        left = file.tensors.pop(tensor)
        reason = reason_of(file)
        assert not reason or f'lacks the tensor "{tensor}"' in reason
        if not reason:
            accepted.add(tensor)
        file.tensors[tensor] = left
    # The only layers of their kind in these small models.
    single = {each for each in accepted if each.startswith("blk.")}
    assert accepted - single <= OPTIONAL
    assert not single or name.startswith(("deepseek2", "gemma4"))


@pytest.mark.parametrize("architecture", ["bert", "modern-bert", "jina-bert-v2"])
def test_layers_of_encoders_are_alike(architecture: str, tmp_path: Path) -> None:
    file = GgufFile(write_encoder(tmp_path / "m.gguf", architecture, 1))
    check_file(file)
    del file.tensors["blk.1.attn_output.weight"]
    with pytest.raises(
        ResourceError, match=r'"m.gguf" lacks the tensor "blk.1.attn_output.weight"'
    ):
        check_file(file)


def test_a_file_with_fewer_layers_than_it_says_is_refused(tmp_path: Path) -> None:
    file = GgufFile(write_tiny(tmp_path / "m.gguf", "llama"))
    for name in list(file.tensors):
        if name.startswith("blk.1."):
            del file.tensors[name]
    with pytest.raises(ResourceError, match=r'lacks the tensor "blk.1.attn_norm.weight"'):
        check_file(file)
