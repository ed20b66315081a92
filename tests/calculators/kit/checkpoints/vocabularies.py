# Letters of many scripts, on purpose.
# ruff: noqa: RUF001
"""Small vocabularies of each kind, made the same way every time, and texts to cut with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Final

from bench.gguf_file import Value

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6

#: Vocabularies are trained on this.
_LESSON: Final = (
    "The quick brown fox jumps over the lazy dog, and the dog doesn't mind: it's 12 o'clock. "
    "We've seen THE END of 1,234 things that I'll never forget! don't can't they're HELLO Hello\n"
    "def main(x):\n    return x + 1234567\n\n\n  if (x == 100) { print('ok'); }\n"
    "Grüße aus München, ça va très bien. Москва столица России. Ελλάδα και φιλοσοφία. "
    "今天天气很好。我们去公园吧？漢字かな交じり文 こんにちは世界 "
    "안녕하세요 세계 مرحبا بالعالم नमस्ते दुनिया "
    "😀 👩‍👩‍👧‍👦 user: hi assistant: hello <html> <b>bold</b> ``` foo_bar fooBar iPhone 15 Pro "
) * 2

TEXTS: Final[Sequence[str]] = (
    "",
    " ",
    "  ",
    "   a",
    "a  ",
    " " * 17 + "x",
    "\n",
    "\n\n\n",
    " \n \n",
    "\r\n\r\n\t x",
    "\t\tif x:\n\t\t\treturn",
    "Hello",
    " Hello world",
    "The quick brown fox jumps over the lazy dog.",
    "don't can't I'll we've he'd they're I'm it's",
    "DON'T CAN'T I'LL WE'VE",
    "'s 's'S ''re",
    "3.14159 1,000,000 0x1F 12345678901234567890",
    "1 12 123 1234 12345 123456 1234567",
    "foo_bar fooBar FooBar FOO_BAR foo-bar",
    "def f(x):\n    return x + 1\n",
    "```python\nimport os\n```",
    '<html><b class="x">text</b></html>',
    "!@#$%^&*()_+-=[]{}|;':\",./<>?`~",
    "end. \n\n\nNext; );\n}",
    "Grüße aus München: ça va?",
    "Москва — столица России…",
    "Ελλάδα και φιλοσοφία",
    "مرحبا بالعالم שלום",
    "नमस्ते दुनिया สวัสดี",
    "今天天气很好。我们去公园吧？ 1314年",
    "漢字かな交じり文 カタカナ ﾊﾝｶｸ",
    "안녕하세요 세계",
    "１２３ＡＢＣ ①② ½",
    "😀😀 👩‍👩‍👧‍👦 🇫🇷 👍🏽 a😀b",
    "e\u0301 é a\u0300\u0301",
    "zero\u200bwidth \u00a0nbsp \u3000x \ufeffbom",
    "\x07bell\x1b[0m \u00ad \u2028",
    "<s> a </s>",
    "<|im_start|>user\nHi<|im_end|>\n",
    " <|im_end|>  <|im_end|>x<|im_end",
    "a<|extra|> b <|extra|>",
    "<0x0A> x<0x41>y",
    "▁a▁b Ġword ##ing",
    "antidisestablishmentarianism HTMLParser",
    "abababababababababab " * 3,
    "0" * 33,
    "v1.2.3-beta U.S.A. 10:30",
    "user@example.com https://x.org/a?b=c#d",
)


def byte_level(pre: str = "gpt-2") -> dict[str, Value]:
    """Return the metadata of a byte-level BPE vocabulary."""
    letters = _byte_letters()
    words = tuple(
        "".join(letters[byte] for byte in word.encode())
        for word in _LESSON.replace(" ", "\0 ").split("\0")
    )
    merges = _trained(words, 400)
    tokens = [*letters, *("".join(pair) for pair in merges)]
    tokens += ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|extra|>", "😀"]
    types = [NORMAL] * (len(tokens) - 5) + [CONTROL] * 3 + [USER_DEFINED, NORMAL]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": [" ".join(pair) for pair in merges],
        "tokenizer.ggml.bos_token_id": len(tokens) - 5,
        "tokenizer.ggml.eos_token_id": len(tokens) - 3,
    }


def sentencepiece(*, adds_space: bool = True) -> dict[str, Value]:
    """Return the metadata of a SentencePiece vocabulary with scores."""
    text = _LESSON.replace(" ", "▁")
    merges = _trained(tuple(line for line in text.split("\n") if line), 400)
    letters = sorted(set(text) - {"\n", "👧"})
    pieces = [*("".join(pair) for pair in merges), *letters]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    types = [UNKNOWN, CONTROL, CONTROL, *([BYTE] * 256), *([NORMAL] * len(pieces))]
    scores = [0.0] * 259 + [-float(i) for i in range(len(pieces))]
    tokens += ["<|im_start|>", "<|im_end|>", "<|extra|>", "</b>"]
    types += [CONTROL, CONTROL, USER_DEFINED, NORMAL]
    scores += [0.0, 0.0, 0.0, -1000.0]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_space_prefix": adds_space,
    }


def gemma4() -> dict[str, Value]:
    """Return the metadata of a vocabulary of plain text with merges."""
    facts = sentencepiece()
    tokens, types = facts["tokenizer.ggml.tokens"], facts["tokenizer.ggml.token_type"]
    text = _LESSON.replace(" ", "▁")
    merges = _trained(tuple(line for line in text.split("\n") if line), 400)
    assert isinstance(tokens, list)
    assert isinstance(types, list)
    return {
        "tokenizer.ggml.model": "gemma4",
        "tokenizer.ggml.tokens": [*tokens, "\n", "\n\n"],
        "tokenizer.ggml.token_type": [*types, NORMAL, NORMAL],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in merges],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
    }


def word_piece() -> dict[str, Value]:
    """Return the metadata of a WordPiece vocabulary."""
    words = [word for word, _ in Counter(_LESSON.lower().split()).most_common(60)]
    letters = sorted({letter for letter in _LESSON.lower() if not letter.isspace()})
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*letters, *(f"▁{letter}" for letter in letters), *(f"▁{word}" for word in words)]
    tokens += list(dict.fromkeys(pieces))
    return {
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.pre": "bert-bge",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [CONTROL] * 5 + [NORMAL] * (len(tokens) - 5),
        "tokenizer.ggml.unknown_token_id": 1,
        "tokenizer.ggml.bos_token_id": 2,
        "tokenizer.ggml.seperator_token_id": 3,
        "tokenizer.ggml.padding_token_id": 0,
        "tokenizer.ggml.mask_token_id": 4,
    }


def unigram() -> dict[str, Value]:
    """Return the metadata of a Unigram vocabulary, whose scores are logarithms."""
    pieces = sentencepiece()["tokenizer.ggml.tokens"]
    assert isinstance(pieces, list)
    texts = [each for each in pieces[259:-4] if "<" not in each]
    tokens = ["<pad>", "</s>", "<unk>", *texts]
    # No two sums are equal by chance.
    scores = [0.0, 0.0, 0.0, *(-4.0 - (i * 0.618034) % 1 * 6 - i * 1e-3 for i in range(len(texts)))]
    return {
        "tokenizer.ggml.model": "t5",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [CONTROL, CONTROL, UNKNOWN, *([NORMAL] * len(texts))],
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.unknown_token_id": 2,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.add_space_prefix": True,
        "tokenizer.ggml.remove_extra_whitespaces": True,
    }


def _byte_letters() -> list[str]:
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in own else chr(next(others)) for byte in range(256)]


@cache
def _trained(words: tuple[str, ...], count: int) -> list[tuple[str, str]]:
    """Return the merges that byte-pair encoding learns: the most frequent pair first."""
    parts = [list(word) for word in words]
    merges: list[tuple[str, str]] = []
    for _ in range(count):
        pairs = Counter(pair for word in parts for pair in pairwise(word) if "👧" not in pair)
        if not pairs:
            break
        most = max(pairs.values())
        best = min(pair for pair, times in pairs.items() if times == most)
        merges.append(best)
        parts = [_merged(word, best) for word in parts]
    return merges


def _merged(word: list[str], pair: tuple[str, str]) -> list[str]:
    found: list[str] = []
    for part in word:
        if found and (found[-1], part) == pair:
            found[-1] += part
        else:
            found.append(part)
    return found
