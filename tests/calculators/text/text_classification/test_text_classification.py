"""Classes of texts: a model made by hand, in its real process, compared with NumPy."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.text.text_classification.classifier import TextClassifier
from calculators.text.text_classification.node_options import CATEGORIES as OPENAI
from graph_runtime import Code, ResourceError
from tests.calculators.text.text_classification.served_graph import ServedGraph, served
from tests.calculators.text.text_classification.tiny_classifier import (
    CATEGORIES,
    GRAPH,
    LABELS,
    logits,
    make_model,
    sigmoid,
    softmax,
)
from tests.support.checkout import ROOT

TEXTS = ["you fool", "peace you idiot", "tea", "beware"]
#: Two windows of eight tokens: a calm one and a rude one, and one that has parts of both.
LONG = "peace " * 8 + "idiot " * 8


@pytest.fixture(scope="module")
def guard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedGraph]:
    """A graph with categories, for several tests."""
    with served(make_model(tmp_path_factory.mktemp("guard"), CATEGORIES)) as graph:
        yield graph


def probs(answer: dict[str, Any]) -> Any:
    assert [each["index"] for each in answer["data"]] == list(range(len(answer["data"])))
    return np.array([each["probs"] for each in answer["data"]])


def test_texts_are_classified_in_vllms_form(guard: ServedGraph) -> None:
    answer = guard.ask("/v1/classify", model="guard", input=TEXTS)
    np.testing.assert_allclose(probs(answer), sigmoid(logits(*TEXTS)), atol=1e-5)
    assert [each["label"] for each in answer["data"]] == ["insult", "calm", "calm", "threat"]
    assert {each["num_classes"] for each in answer["data"]} == {3}
    count = sum(len(text.split()) + 2 for text in TEXTS)
    used = {"prompt_tokens": count, "total_tokens": count, "completion_tokens": 0}
    assert (answer["object"], answer["model"], answer["usage"]) == ("list", "guard", used)
    alone = guard.ask("/v3/classify", model="guard", input=TEXTS[1])
    np.testing.assert_allclose(probs(alone), sigmoid(logits(TEXTS[1])), atol=1e-5)


@pytest.mark.parametrize("member", ["use_activation", "activation", "softmax"])
def test_without_activation_the_models_outputs_are_returned(
    guard: ServedGraph, member: str
) -> None:
    answer = guard.ask("/v1/classify", model="guard", input=TEXTS, **{member: False})
    np.testing.assert_allclose(probs(answer), logits(*TEXTS), atol=1e-5)


def test_texts_are_classified_in_the_form_of_text_embeddings_inference(guard: ServedGraph) -> None:
    one = guard.ask("/predict", inputs="you fool")
    scores = dict(zip(LABELS, sigmoid(logits("you fool"))[0], strict=True))
    assert [each["label"] for each in one] == sorted(LABELS, key=lambda label: -scores[label])
    assert {each["label"]: each["score"] for each in one} == pytest.approx(scores, abs=1e-5)
    assert guard.ask("/predict", inputs=["you fool"]) == one
    raw = guard.ask("/v1/predict", inputs=[["tea"], ["you fool"]], raw_scores=True)
    wanted = dict(zip(LABELS, logits("tea")[0], strict=True))
    assert {each["label"]: each["score"] for each in raw[0]} == pytest.approx(wanted, abs=1e-5)
    assert len(raw) == 2


def test_a_pair_is_one_sequence(guard: ServedGraph) -> None:
    (pair,) = guard.ask("/v1/predict", inputs=[["tea", "beware"]], raw_scores=True)
    wanted = dict(zip(LABELS, logits("tea [SEP] beware")[0], strict=True))
    assert {each["label"]: each["score"] for each in pair} == pytest.approx(wanted, abs=1e-5)
    assert guard.ask("/v1/predict", inputs=["tea", "beware"], raw_scores=True) == pair


def test_a_moderation_has_openais_form(guard: ServedGraph) -> None:
    answer = guard.ask("/v1/moderations", model="guard", input=TEXTS)
    assert answer["model"] == "guard"
    assert answer["id"].startswith("modr-")
    for text, result in zip(TEXTS, answer["results"], strict=True):
        insult, threat, _ = sigmoid(logits(text))[0].tolist()
        scores = dict.fromkeys(OPENAI, 0.0)
        scores |= {"harassment": insult, "harassment/threatening": threat, "violence": threat}
        assert result["category_scores"] == pytest.approx(scores, abs=1e-5)
        flags = dict.fromkeys(OPENAI, False)
        # violence has a threshold of its own.
        flags["harassment"] = insult >= 0.5
        flags["harassment/threatening"] = threat >= 0.5
        flags["violence"] = threat >= 0.75
        assert result["categories"] == flags
        assert result["flagged"] is any(flags.values())
        applied = result["category_applied_input_types"]
        assert {name for name, types in applied.items() if types == ["text"]} == {
            "harassment",
            "harassment/threatening",
            "violence",
        }
        assert {name for name, types in applied.items() if types == []} == set(OPENAI) - {
            name for name, types in applied.items() if types
        }
    assert [result["flagged"] for result in answer["results"]] == [True, True, False, True]


def test_parts_of_a_message_get_one_result(guard: ServedGraph) -> None:
    parts = [{"type": "text", "text": text} for text in ("tea", "you fool", "peace")]
    (result,) = guard.ask("/v1/moderations", model="guard", input=parts)["results"]
    highest = sigmoid(logits("tea", "you fool", "peace")).max(axis=0)
    assert result["category_scores"]["harassment"] == pytest.approx(highest[0], abs=1e-5)
    assert result["flagged"] is True


def test_a_long_text_has_the_mean_of_its_windows_and_a_moderation_their_highest(
    guard: ServedGraph,
) -> None:
    words = LONG.split()
    windows = [" ".join(words[start : start + 8]) for start in (0, 4, 8)]
    expected = sigmoid(logits(*windows))
    answer = guard.ask("/v1/classify", model="guard", input=["tea", LONG])
    np.testing.assert_allclose(probs(answer)[1], expected.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(probs(answer)[0], sigmoid(logits("tea"))[0], atol=1e-5)
    # A token that is in two windows is counted once.
    assert answer["usage"]["prompt_tokens"] == 3 + len(words) + 2
    (result,) = guard.ask("/v1/moderations", model="guard", input=LONG)["results"]
    highest = expected.max(axis=0)
    assert result["category_scores"]["harassment"] == pytest.approx(highest[0], abs=1e-5)


@pytest.mark.parametrize(
    ("direction", "kept"), [("right", "peace " * 8), ("Left", "idiot " * 8), (None, "peace " * 8)]
)
def test_a_long_text_is_cut_off_on_request(
    guard: ServedGraph, direction: str | None, kept: str
) -> None:
    members = {"truncate": True, "truncation_direction": direction, "raw_scores": True}
    found = guard.ask("/v1/predict", inputs=LONG, **members)
    wanted = dict(zip(LABELS, logits(kept.strip())[0], strict=True))
    assert {each["label"]: each["score"] for each in found} == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize(
    ("config", "options", "function"),
    [
        ({}, "", sigmoid),
        ({"problem_type": None}, "", softmax),
        ({"problem_type": "single_label_classification"}, "", softmax),
        ({"problem_type": "regression"}, "", lambda values: values),
        ({}, "function: SOFTMAX", softmax),
        ({"problem_type": None}, "function: SIGMOID", sigmoid),
        ({}, "function: NONE", lambda values: values),
    ],
)
def test_the_function_is_the_models_unless_the_graph_sets_it(
    tmp_path: Path, config: dict[str, Any], options: str, function: Callable[[Any], Any]
) -> None:
    with served(make_model(tmp_path, options, **config)) as graph:
        answer = graph.ask("/v1/classify", model="tiny", input=TEXTS)
    np.testing.assert_allclose(probs(answer), function(logits(*TEXTS)), atol=1e-5)


def test_labels_come_from_the_options_then_from_the_config_then_from_their_numbers(
    tmp_path: Path,
) -> None:
    found = []
    for name, config, options in (
        ("config", {}, ""),
        ("options", {}, 'labels: ["a", "b", "c"]'),
        ("numbers", {"id2label": None}, ""),
    ):
        with served(make_model(tmp_path / name, options, **config)) as graph:
            (each,) = graph.ask("/v1/classify", model="tiny", input="you fool")["data"]
            found.append(each["label"])
    assert found == ["insult", "a", "LABEL_0"]


def test_labels_that_are_named_like_categories_stand_for_them(tmp_path: Path) -> None:
    labels = 'labels: ["Self_Harm/Intent", "hate-threatening", "calm"]'
    with served(make_model(tmp_path, labels)) as graph:
        (result,) = graph.ask("/v1/moderations", model="tiny", input="beware")["results"]
    insult, threat, _ = sigmoid(logits("beware"))[0].tolist()
    assert result["category_scores"]["self-harm/intent"] == pytest.approx(insult, abs=1e-5)
    assert result["category_scores"]["hate/threatening"] == pytest.approx(threat, abs=1e-5)


def test_usual_names_of_labels_stand_for_categories(tmp_path: Path) -> None:
    with served(make_model(tmp_path, 'labels: ["toxic", "Identity_Hate", "calm"]')) as graph:
        (result,) = graph.ask("/v1/moderations", model="tiny", input="beware")["results"]
    toxic, hate, _ = sigmoid(logits("beware"))[0].tolist()
    assert result["category_scores"]["harassment"] == pytest.approx(toxic, abs=1e-5)
    assert result["category_scores"]["hate"] == pytest.approx(hate, abs=1e-5)


@pytest.mark.parametrize(
    ("text", "flagged"),
    [("Hello", []), ("You stupid fool!", ["harassment"]), ("kill them", ["violence"])],
)
def test_the_shipped_guard_moderates_without_options(
    tmp_path: Path, text: str, flagged: list[str]
) -> None:
    model = ROOT / "examples" / "models" / "guard"
    (tmp_path / "graph.pbtxt").write_text((GRAPH % "").replace("./", str(model)))
    with served(tmp_path) as graph:
        (result,) = graph.ask("/v1/moderations", model="tiny", input=text)["results"]
    assert [name for name, is_flagged in result["categories"].items() if is_flagged] == flagged


def test_a_model_without_categories_says_how_to_set_them(tmp_path: Path) -> None:
    with (
        served(make_model(tmp_path, 'labels: ["good", "bad", "calm"]')) as graph,
        pytest.raises(RequestError, match="set categories in the options") as caught,
    ):
        graph.ask("/v1/moderations", model="tiny", input="tea")
    assert caught.value.code is Code.NOT_FOUND


@pytest.mark.parametrize("path", ["/v1/classify", "/v1/moderations"])
@pytest.mark.parametrize(
    ("value", "param", "words"),
    [
        (None, "input", "Missing"),
        ([], "input", "empty array"),
        (5, "input", "got 5"),
        ({"text": "a"}, "input", "got an object"),
        (["a", 7], "input[1]", "token ids"),
        ([[1, 2]], "input[0]", "token ids"),
        (["a", None], "input[1]", "got null"),
        (["a"] * 2049, "input", "above the maximum 2048"),
        ("a" * 200_000, "input", "200000 characters"),
        ("a" * 10_000_000, "input", "10000000 characters"),
        (["a" * 100_000] * 20, "input", "in all"),
        ("\ud800", "input", "not Unicode"),
    ],
)
def test_a_wrong_input_is_refused_with_what_would_be_right(
    guard: ServedGraph, path: str, value: Any, param: str, words: str
) -> None:
    with pytest.raises(RequestError, match=words) as caught:
        guard.ask(path, model="guard", input=value)
    assert caught.value.param == param
    assert len(guard.ask("/v1/classify", model="guard", input="tea")["data"]) == 1


@pytest.mark.parametrize(
    ("value", "param", "words"),
    [
        ([{"type": "image_url", "image_url": {"url": "data:,"}}], "input[0]", "images are not"),
        ([{"type": "text", "text": "a"}, "b"], "input[1]", "expected an object such as"),
        ([{"type": "text"}], "input[0].text", "Missing"),
        ([{"type": "text", "text": 5}], "input[0].text", "got 5|token ids"),
        ([{"type": "audio"}], "input[0].type", 'the string "audio" is not "text"'),
        ([{"text": "a"}], "input[0].type", 'null is not "text"'),
    ],
)
def test_a_wrong_part_is_refused(
    guard: ServedGraph, value: list[Any], param: str, words: str
) -> None:
    with pytest.raises(RequestError, match=words) as caught:
        guard.ask("/v1/moderations", model="guard", input=value)
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("members", "param", "words"),
    [
        ({"inputs": None}, "inputs", "Missing"),
        ({"inputs": []}, "inputs", "an array of 0"),
        ({"inputs": ["a", "b", "c"]}, "inputs", "neither a text nor a pair"),
        ({"inputs": [["a"], ["a", "b", "c"]]}, "inputs[1]", "neither a text nor a pair"),
        ({"inputs": [["a"], "b"]}, "inputs[1]", "an array of one string or two"),
        ({"inputs": [1, 2]}, "inputs", "token ids"),
        ({"inputs": [[1, 2]]}, "inputs[0]", "token ids"),
        ({"inputs": "a", "truncation_direction": "up"}, "truncation_direction", "none of"),
        (
            {"inputs": ["a", "b"], "truncate": True, "truncation_direction": "left"},
            "truncation_direction",
            "on the right only",
        ),
        ({"inputs": "a", "truncate": "yes"}, "truncate", "true or false"),
    ],
)
def test_a_wrong_prediction_is_refused(
    guard: ServedGraph, members: dict[str, Any], param: str, words: str
) -> None:
    with pytest.raises(RequestError, match=words) as caught:
        guard.ask("/v1/predict", **members)
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("path", "members", "param"),
    [
        ("/v1/classify", {"truncate_prompt_tokens": 5}, "truncate_prompt_tokens"),
        ("/v1/classify", {"messages": [{"role": "user", "content": "a"}]}, "messages"),
        ("/v1/classify", {"labels": ["a"]}, "labels"),
        ("/v1/moderations", {"threshold": 0.1}, "threshold"),
    ],
)
def test_a_member_that_would_change_nothing_is_refused(
    guard: ServedGraph, path: str, members: dict[str, Any], param: str
) -> None:
    with pytest.raises(RequestError) as caught:
        guard.ask(path, model="guard", input="tea", **members)
    assert caught.value.param == param


def test_null_means_absent(guard: ServedGraph) -> None:
    members = {"use_activation": None, "user": None, "truncate_prompt_tokens": None}
    answer = guard.ask("/v1/classify", model="guard", input="tea", **members)
    np.testing.assert_allclose(probs(answer), sigmoid(logits("tea")), atol=1e-5)


def test_an_empty_text_has_the_classes_of_its_special_tokens(guard: ServedGraph) -> None:
    answer = guard.ask("/v1/classify", model="guard", input=["", "tea"])
    np.testing.assert_allclose(probs(answer), sigmoid(logits("", "tea")), atol=1e-5)


def test_other_paths_are_refused_with_the_ones_that_exist(guard: ServedGraph) -> None:
    with pytest.raises(RequestError, match="answers /v1/moderations") as caught:
        guard.ask("/v3/embeddings", model="guard", input="a")
    assert caught.value.code is Code.NOT_FOUND


def test_many_texts_are_answered_in_their_order(guard: ServedGraph) -> None:
    words = ("tea", "fool", "beware", "peace", "idiot")
    texts = [
        " ".join(words[(place + step) % 5] for step in range(place % 8)) for place in range(300)
    ]
    answer = guard.ask("/v1/classify", model="guard", input=texts)
    np.testing.assert_allclose(probs(answer), sigmoid(logits(*texts)), atol=1e-5)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_process_is_restarted(tmp_path: Path) -> None:
    with served(make_model(tmp_path, "")) as graph:
        (classifier,) = graph.loaded._resources.resources
        assert isinstance(classifier, TextClassifier)
        before = probs(graph.ask("/v1/classify", model="tiny", input="tea"))
        assert classifier.pid is not None
        os.kill(classifier.pid, signal.SIGKILL)
        after = probs(graph.ask("/v1/classify", model="tiny", input="tea"))
        np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize(
    ("options", "config", "words"),
    [
        ('labels: ["a", "b"]', {}, "the model has 3 classes, and labels names 2"),
        ("", {"id2label": {"0": "a", "1": "b"}}, "3 classes, and id2label in config.json names 2"),
        ("", {"id2label": {"0": "a", "2": "b", "3": "c"}}, "must name the classes 0, 1"),
        ("", {"id2label": ["a", "b", "c"]}, "must name the classes 0, 1"),
        ('labels: ["a", "a", "b"]', {}, '"a" stands there twice'),
        ('labels: ["a", "", "b"]', {}, "a label is empty"),
        (
            'categories { label: "insults" category: "hate" }',
            {},
            'not a label of the model: insult, threat, calm. Did you mean "insult"',
        ),
        (
            'categories { label: "insult" category: "selfharm" }',
            {},
            '"selfharm" is not a category of moderations: .* Did you mean "self-harm"',
        ),
        ("threshold: nan", {}, "threshold: nan is not a score"),
        ('categories { label: "calm" category: "hate" threshold: inf }', {}, "inf is not a score"),
        ('target_device: "TPU"', {}, '"TPU" is not a device'),
        ('plugin_config: "[1]"', {}, "must be a JSON object"),
        ('plugin_config: "{\\"NO_SUCH_THING\\": 1}"', {}, "cannot be loaded|NO_SUCH_THING"),
    ],
)
def test_wrong_options_are_refused(
    tmp_path: Path, options: str, config: dict[str, Any], words: str
) -> None:
    with pytest.raises(ResourceError, match=words), served(make_model(tmp_path, options, **config)):
        raise AssertionError("it was loaded")
