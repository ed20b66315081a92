"""Tokenizers of GGUF files cut texts as llama.cpp and the models' own tokenizers do."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import openvino as ov
import openvino_genai as genai
import pytest
import tokenizers
from tokenizers import models, pre_tokenizers

from bench.gguf_file import Value, write_gguf
from calculators.kit.checkpoints.gguf import GgufFile
from calculators.kit.checkpoints.tokenizer_graph import make_models, write_tokenizer
from calculators.kit.checkpoints.vocabulary import PRETOKENIZERS, Vocabulary, read_vocabulary
from calculators.llm.prompt.builder import PromptBuilder
from calculators.llm.prompt.messages import Chat, Prompt
from graph_runtime import ResourceError
from tests.calculators.kit.checkpoints import vocabularies
from tests.calculators.kit.checkpoints.vocabularies import TEXTS

#: llama.cpp's `llama_tokenize` (October 2026), with special tokens added and read in texts.
EXPECTED: Final = json.loads(
    Path(__file__).with_name("llama_cpp_tokens.json").read_text(encoding="utf-8")
)
KINDS: Final[Mapping[str, Callable[[], dict[str, Value]]]] = {
    "byte_level": vocabularies.byte_level,
    "llama3": lambda: vocabularies.byte_level("llama-bpe"),
    "sentencepiece": vocabularies.sentencepiece,
    "no_prefix": lambda: vocabularies.sentencepiece(adds_space=False),
    "gemma4": vocabularies.gemma4,
    "word_piece": vocabularies.word_piece,
    "unigram": vocabularies.unigram,
}
#: Texts that llama.cpp cuts otherwise than the models' own tokenizers: it takes away vowel signs
#: with the accents, and does not join unknown letters around a space.
OTHERWISE: Final = {("word_piece", "नमस्ते दुनिया สวัสดี"), ("unigram", " \n \n")}


def read(folder: Path, facts: Mapping[str, Value]) -> Vocabulary:
    path = folder / "tiny.gguf"
    write_gguf(path, facts, {})
    return read_vocabulary(GgufFile(path).metadata, path.name)


def compiled(vocabulary: Vocabulary) -> tuple[Any, Any]:
    core = ov.Core()
    one, other = (core.compile_model(each, "CPU") for each in make_models(vocabulary, "tiny.gguf"))
    return one, other


@pytest.mark.parametrize("kind", KINDS)
def test_texts_become_llama_cpps_tokens(kind: str, tmp_path: Path) -> None:
    tokenizer, _ = compiled(read(tmp_path, KINDS[kind]()))

    for text, expected in zip(TEXTS, EXPECTED[kind], strict=True):
        if (kind, text) not in OTHERWISE:
            found = tokenizer([text])["input_ids"].reshape(-1).tolist()
            assert found == expected, text


@pytest.mark.parametrize("kind", ["byte_level", "sentencepiece", "no_prefix", "gemma4"])
def test_tokens_become_the_text_again(kind: str, tmp_path: Path) -> None:
    tokenizer, detokenizer = compiled(read(tmp_path, KINDS[kind]()))

    for text in TEXTS:
        if text and "<" not in text and "▁" not in text:
            ids = tokenizer([text])["input_ids"]
            assert detokenizer(ids)["string_output"][0] == text


def cutting(pattern: tuple[str, ...], name: str) -> tokenizers.Tokenizer:
    """Return the package's own tokenizer with the patterns of a name."""
    facts = vocabularies.byte_level(name)
    tokens = facts["tokenizer.ggml.tokens"]
    merges = facts["tokenizer.ggml.merges"]
    assert isinstance(tokens, list)
    assert isinstance(merges, list)
    made = tokenizers.Tokenizer(
        models.BPE(
            {token: i for i, token in enumerate(tokens)},
            [tuple(merge.split(" ")) for merge in merges],
            ignore_merges=PRETOKENIZERS[name].takes_whole_words,
        )
    )
    cuts: list[Any] = [
        # The package knows a script only by its name alone.
        pre_tokenizers.Split(tokenizers.Regex(each.replace("sc:", "")), "isolated", False)
        for each in pattern
    ]
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([*cuts, byte_level])
    made.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|extra|>"])
    return made


BY_PATTERNS: Final = {
    (each.patterns, each.takes_whole_words): name
    for name, each in PRETOKENIZERS.items()
    if each.is_byte_level
}


@pytest.mark.parametrize("name", BY_PATTERNS.values())
def test_each_pre_tokenizer_cuts_as_the_models_own_tokenizer(name: str, tmp_path: Path) -> None:
    facts = {**vocabularies.byte_level(name), "tokenizer.ggml.add_bos_token": False}
    tokenizer, _ = compiled(read(tmp_path, facts))
    own = cutting(PRETOKENIZERS[name].patterns, name)

    for text in TEXTS:
        found = tokenizer([text])["input_ids"].reshape(-1).tolist()
        assert found == own.encode(text, add_special_tokens=False).ids, text


def test_all_pre_tokenizers_of_llama_cpp_are_known() -> None:
    assert len(PRETOKENIZERS) > 80
    assert {"kimi-k2", "superbpe", "afmoe", "minimax-m2", "hunyuan-dense"} < PRETOKENIZERS.keys()


def test_an_unknown_pre_tokenizer_is_refused_by_name(tmp_path: Path) -> None:
    vocabulary = read(tmp_path, vocabularies.byte_level("of-tomorrow"))

    with pytest.raises(ResourceError, match=r'"tiny\.gguf" needs the pre-tokenizer "of-tomorrow"'):
        make_models(vocabulary, "tiny.gguf")


def test_the_library_switches_special_tokens_and_counts_long_texts(tmp_path: Path) -> None:
    vocabulary = read(tmp_path, vocabularies.sentencepiece())
    write_tokenizer(vocabulary, tmp_path, "tiny.gguf")
    tokenizer = genai.Tokenizer(str(tmp_path))

    with_bos = tokenizer.encode("fox", add_special_tokens=True).input_ids.data.tolist()
    without = tokenizer.encode("fox", add_special_tokens=False).input_ids.data.tolist()
    ids = tokenizer.encode("a<|im_end|>b").input_ids.data[0].tolist()
    long = tokenizer.encode("dog " * 20_000, add_special_tokens=False).input_ids.shape[1]

    assert with_bos[0] == [1, *without[0]]
    assert tokenizer.decode(ids, skip_special_tokens=False) == "<s> a<|im_end|> b"
    assert tokenizer.decode(ids, skip_special_tokens=True) == "a b"
    assert long >= 20_000


@pytest.mark.parametrize("kind", ["byte_level", "sentencepiece", "no_prefix", "gemma4"])
def test_the_server_makes_text_of_tokens_exactly(kind: str, tmp_path: Path) -> None:
    write_tokenizer(read(tmp_path, KINDS[kind]()), tmp_path, "tiny.gguf")

    ready = PromptBuilder(str(tmp_path)).ready()

    assert ready.tokens.is_exact
    assert len(ready.tokens.pieces) == len(read(tmp_path, KINDS[kind]()).tokens)


@pytest.mark.parametrize("text", ["a</s> b", "a</s>b", "</s>  <|im_end|>x", "<|im_end|>\n</s>"])
def test_a_special_token_in_text_gets_no_space_of_its_own(text: str, tmp_path: Path) -> None:
    facts = vocabularies.sentencepiece()
    tokens, types = facts["tokenizer.ggml.tokens"], facts["tokenizer.ggml.token_type"]
    scores = facts["tokenizer.ggml.scores"]
    assert isinstance(tokens, list)
    assert isinstance(types, list)
    assert isinstance(scores, list)
    # A space and the end of such a token become one.
    facts |= {
        "tokenizer.ggml.tokens": [*tokens, "▁>", "▁|", "|"],
        "tokenizer.ggml.token_type": [*types, 1, 1, 1],
        "tokenizer.ggml.scores": [*scores, 0.0, 0.0, -999.0],
        "tokenizer.chat_template": "{{ messages[0]['content'] }}",
    }
    write_tokenizer(read(tmp_path, facts), tmp_path, "tiny.gguf")
    builder = PromptBuilder(str(tmp_path))

    prompt = builder.answer(Chat([{"role": "user", "content": text}]))

    assert isinstance(prompt, Prompt)
    ids = np.frombuffer(prompt.input_ids, np.int64).tolist()
    assert builder.decode(ids, False) == text
    assert not {1, 2} & set(ids)


def test_every_token_of_llama_3_is_found_as_a_word(tmp_path: Path) -> None:
    facts = vocabularies.byte_level("llama-bpe")
    tokens, merges = facts["tokenizer.ggml.tokens"], facts["tokenizer.ggml.merges"]
    types = facts["tokenizer.ggml.token_type"]
    assert isinstance(tokens, list)
    assert isinstance(merges, list)
    assert isinstance(types, list)
    # "zqv" is never merged: "qv" is joined first, and no token begins so.
    new = ["qv", "zq", "zqv"]
    facts |= {
        "tokenizer.ggml.tokens": [*tokens, *new],
        "tokenizer.ggml.token_type": [*types, 1, 1, 1],
        "tokenizer.ggml.merges": ["q v", "z q", "zq v", *merges],
        "tokenizer.ggml.add_bos_token": False,
    }
    tokenizer, _ = compiled(read(tmp_path, facts))
    first = len(tokens)

    found = [tokenizer([text])["input_ids"][0].tolist() for text in ("zqv", "zqvx")]

    letters = {each: tokens.index(each) for each in "zx"}
    assert found == [[first + 2], [letters["z"], first, letters["x"]]]


def test_templates_are_written_by_name(tmp_path: Path) -> None:
    facts = {
        **vocabularies.byte_level(),
        "tokenizer.chat_template": "{{ messages[0]['content'] }}!",
        "tokenizer.chat_template.tool_use": "{{ tools }}",
    }
    write_tokenizer(read(tmp_path, facts), tmp_path, "tiny.gguf")

    assert (tmp_path / "chat_template.jinja").read_text().endswith("}}!")
    assert (tmp_path / "additional_chat_templates" / "tool_use.jinja").is_file()


def test_a_template_cannot_be_written_elsewhere(tmp_path: Path) -> None:
    facts = {**vocabularies.byte_level(), "tokenizer.chat_template.../../x": "{{ tools }}"}

    with pytest.raises(ResourceError, match="does not end in a name"):
        read(tmp_path, facts)


def test_every_token_that_ends_an_answer_is_found(tmp_path: Path) -> None:
    facts = vocabularies.byte_level()
    tokens = facts["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    vocabulary = read(tmp_path, {**facts, "tokenizer.ggml.eot_token_id": 7})

    ends = {tokens[each] for each in vocabulary.ends}

    assert ends == {"<|endoftext|>", "<|im_end|>", tokens[7]}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tokenizer.ggml.model": ""}, "has no tokenizer"),
        ({"tokenizer.ggml.model": "none"}, "has no tokenizer"),
        ({"tokenizer.ggml.model": "plamo2"}, 'kind "plamo2"'),
        ({"tokenizer.ggml.model": 3}, '"tokenizer.ggml.model" must be a text'),
        ({"tokenizer.ggml.tokens": "a b"}, '"tokenizer.ggml.tokens" must be a list of texts'),
        ({"tokenizer.ggml.tokens": [1, 2]}, '"tokenizer.ggml.tokens" must be a list of texts'),
        ({"tokenizer.ggml.token_type": [1, 2]}, "has 2 numbers for 810 tokens"),
        ({"tokenizer.ggml.scores": [1.0]}, "has 1 numbers for 810 tokens"),
        ({"tokenizer.ggml.scores": [float("nan")] * 810}, "not finite"),
        ({"tokenizer.ggml.bos_token_id": "1"}, "must be a whole number"),
        ({"tokenizer.chat_template": 5}, '"tokenizer.chat_template" must be a text'),
    ],
)
def test_a_damaged_vocabulary_names_the_value(
    change: dict[str, Value], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ResourceError, match=reason) as error:
        read(tmp_path, {**vocabularies.sentencepiece(), **change})

    assert '"tiny.gguf"' in str(error.value)


def test_ids_beyond_the_vocabulary_name_no_token(tmp_path: Path) -> None:
    facts = {**vocabularies.sentencepiece(), "tokenizer.ggml.padding_token_id": 4_000_000_000}

    vocabulary = read(tmp_path, facts)

    assert vocabulary.pad is None
    assert vocabulary.padding == vocabulary.eos


def test_texts_of_a_batch_are_filled_up_on_the_left(tmp_path: Path) -> None:
    tokenizer, _ = compiled(read(tmp_path, vocabularies.sentencepiece()))

    mask = tokenizer(["fox", "the quick brown fox"])["attention_mask"]

    assert mask[0, -1] == 1
    assert np.array_equal(np.sort(mask, axis=1), mask)


def test_line_ends_that_are_a_token_of_gemma_4_are_that_token(tmp_path: Path) -> None:
    """No merges lead to it; llama.cpp takes it all the same."""
    facts = vocabularies.gemma4()
    tokens = facts["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    tokenizer, _ = compiled(read(tmp_path, facts))

    def texts(text: str) -> list[str]:
        return [tokens[each] for each in tokenizer([text])["input_ids"][0].tolist()]

    assert texts("a\n\nb") == ["<s>", "a", "\n\n", "b"]
    assert texts("a\n\n\nb") == ["<s>", "a", "\n", "\n", "\n", "b"]


@pytest.mark.parametrize("pair", ["q z", "qqq z", "q zzz"])
def test_a_merge_that_makes_no_token_is_left_out(pair: str, tmp_path: Path) -> None:
    facts = vocabularies.byte_level()
    merges = facts["tokenizer.ggml.merges"]
    assert isinstance(merges, list)
    usual, _ = compiled(read(tmp_path, facts))
    with_pair, _ = compiled(read(tmp_path, {**facts, "tokenizer.ggml.merges": [*merges, pair]}))
    text = ["the dog qz"]
    assert with_pair(text)["input_ids"].tolist() == usual(text)["input_ids"].tolist()
