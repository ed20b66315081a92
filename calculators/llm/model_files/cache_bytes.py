"""The size of a model's key-value cache, from its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

from calculators.kit.checkpoints.gguf import read_gguf_facts
from calculators.llm.model_files.model_files import read_json_object
from graph_runtime import ResourceError

#: Scale and zero point of 8-bit numbers, two float32.
_SCALE_BYTES: Final = 8
#: Tokens of a block, which share the scales of a channel of keys.
_BLOCK_TOKENS: Final = 32
_LONGEST_CONSIDERED: Final = 4096
_GIB: Final = 1 << 30


class CacheShape(NamedTuple):
    """The shape of a model's key-value cache.

    ``length``: tokens that the model can hold; None: its files do not say.
    """

    layers: int
    heads: int
    head_size: int
    length: int | None

    @property
    def bytes_per_token(self) -> int:
        """Bytes with the CPU plug-in's default precision, u8.

        Keys have a scale per channel and block, values one per token (openvino 2026.4; measured:
        437,760 bytes per block of SmolLM2-135M, 30 layers, 3 heads, 64 channels).
        """
        keys = self.head_size * (_BLOCK_TOKENS + _SCALE_BYTES) // _BLOCK_TOKENS
        values = self.head_size + _SCALE_BYTES
        return self.layers * self.heads * (keys + values)


def read_cache_shape(model: Path) -> CacheShape | None:
    """Read the shape of a model's cache from its GGUF file or its ``config.json``.

    Returns:
        None: the files do not say, or say what cannot be.
    """
    facts = _gguf_facts(model) if model.is_file() else _config_facts(model / "config.json")
    numbers = facts[:3]
    if any(type(number) is not int or number <= 0 for number in numbers):
        return None
    length = facts[3] if type(facts[3]) is int and facts[3] > 0 else None
    return CacheShape(facts[0], facts[1], facts[2], length)


def cache_size_for(shape: CacheShape, memory: int, conversations: int = 64) -> int:
    """Return the ``cache_size``, in GB, that keeps so many conversations.

    Args:
        memory: bytes that the process may use; a quarter of them is the most.

    Returns:
        At least 1. The cache is reserved, and takes memory only as far as it is used.
    """
    length = min(shape.length or _LONGEST_CONSIDERED, _LONGEST_CONSIDERED)
    wanted = shape.bytes_per_token * length * conversations
    return max(1, min(-(-wanted // _GIB), memory // 4 // _GIB))


def _gguf_facts(file: Path) -> tuple[Any, Any, Any, Any]:
    try:
        facts = read_gguf_facts(file)
    except (ResourceError, OSError):
        return (None, None, None, None)
    name = facts.get("general.architecture")
    heads = facts.get(f"{name}.attention.head_count")
    kv_heads = facts.get(f"{name}.attention.head_count_kv", heads)
    head_size = facts.get(f"{name}.attention.key_length") or _quotient(
        facts.get(f"{name}.embedding_length"), heads
    )
    length = facts.get(f"{name}.context_length")
    return facts.get(f"{name}.block_count"), kv_heads, head_size, length


def _config_facts(file: Path) -> tuple[Any, Any, Any, Any]:
    config = read_json_object(file)
    if isinstance(config.get("text_config"), dict):
        # Models of text and images.
        config |= config["text_config"]
    heads = config.get("num_attention_heads")
    head_size = config.get("head_dim") or _quotient(config.get("hidden_size"), heads)
    return (
        config.get("num_hidden_layers"),
        config.get("num_key_value_heads", heads),
        head_size,
        config.get("max_position_embeddings"),
    )


def _quotient(number: Any, divisor: Any) -> int | None:
    if type(number) is not int or type(divisor) is not int or divisor <= 0:
        return None
    return number // divisor
