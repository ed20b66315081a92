from __future__ import annotations

import pytest

from servers.model_store.model_reference import ModelError, ModelReference
from servers.model_store.wanted_files import HubFile, ModelForm, WantedFiles, wanted_files


def choose(*names: str, file: str | None = None) -> WantedFiles:
    files = [HubFile(name, 10) for name in names]
    return wanted_files(ModelReference("org/name", None, file), files)


def names(wanted: WantedFiles) -> list[str]:
    return [file.name for file in wanted.files]


def test_a_model_of_openvino_comes_with_all_that_it_needs_and_nothing_else() -> None:
    needed = [
        *("openvino_model.xml", "openvino_model.bin", "openvino_tokenizer.xml", "config.json"),
        *("tokenizer.json", "chat_template.jinja", "1_Pooling/config.json", "LICENSE", "README.md"),
    ]
    others = [
        "model.safetensors",
        "pytorch_model.bin",
        "picture.png",
        ".gitattributes",
        "onnx/config.json",
    ]
    wanted = choose(*needed, *others)
    assert wanted.form is ModelForm.OPENVINO
    assert names(wanted) == needed


def test_a_model_in_several_parts_comes_with_its_voices() -> None:
    needed = [
        *("openvino_encoder_model.xml", "openvino_encoder_model.bin", "openvino_vocoder.xml"),
        *("openvino_vocoder.bin", "config.json", "voices/alice.bin", "spm_char.model"),
    ]
    wanted = choose(*needed, "pytorch_model.bin", "speaker.bin")
    assert (wanted.form, names(wanted)) == (ModelForm.OPENVINO, needed)
    kokoro = ["openvino_model.xml", "openvino_model.bin", "config.json", "voices/af_heart.bin"]
    assert names(choose(*kokoro, "kokoro.bin")) == kokoro


def test_one_gguf_file_is_the_model() -> None:
    wanted = choose("a.gguf", "README.md", "mmproj-a.gguf")
    assert (wanted.form, names(wanted), wanted.main_file) == (ModelForm.GGUF, ["a.gguf"], "a.gguf")


@pytest.mark.parametrize(
    ("files", "chosen"),
    [
        (["a-Q8_0.gguf", "a-UD-Q4_K_M.gguf", "a-Q4_K_M.gguf"], "a-Q4_K_M.gguf"),
        (["a-F16.gguf", "a-Q8_0.gguf", "a-Q2_K.gguf"], "a-Q8_0.gguf"),
        (["a.f16.gguf", "a.q4_0.gguf"], "a.q4_0.gguf"),
        (["a-imatrix.gguf", "mmproj-a-Q4_K_M.gguf", "a-Q3_K_S.gguf"], "a-Q3_K_S.gguf"),
        (["b-v2.gguf", "b-v1.gguf"], "b-v2.gguf"),
        (["Q4_K_M/a-Q4_K_M.gguf", "Q8_0/a-Q8_0.gguf"], "Q4_K_M/a-Q4_K_M.gguf"),
    ],
)
def test_of_several_gguf_files_the_best_of_four_bits_is_taken(
    files: list[str], chosen: str
) -> None:
    assert names(choose(*files)) == [chosen]


def test_a_file_is_chosen_by_its_quantization() -> None:
    files = ["a-Q4_K_M.gguf", "a-Q4_K.gguf", "a-IQ4_XS.gguf", "mmproj-a-F16.gguf", "a-Q8_0.gguf"]

    assert names(choose(*files, file="a-Q8_0.gguf")) == ["a-Q8_0.gguf"]
    assert names(choose(*files, file="q8_0")) == ["a-Q8_0.gguf"]
    assert names(choose(*files, file="Q4_K")) == ["a-Q4_K.gguf"]
    with pytest.raises(ModelError, match="org/name has no GGUF file of F16") as info:
        choose(*files, file="F16")
    assert str(info.value.hint).startswith("its GGUF files are a-Q4_K_M.gguf, a-Q4_K.gguf")


def test_a_split_model_is_chosen_by_its_quantization() -> None:
    parts = [f"Q4_K_M/a-Q4_K_M-0000{number}-of-00002.gguf" for number in (1, 2)]
    assert names(choose(*reversed(parts), "a-Q8_0.gguf", file="Q4_K_M")) == parts


def test_a_model_in_several_files_comes_whole() -> None:
    parts = [f"a-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    assert names(choose(*reversed(parts))) == parts
    with pytest.raises(ModelError, match=r"lacks a-00003-of-00003.gguf, a part of"):
        choose(*parts[:2])


def test_a_file_that_is_not_there_is_answered_with_those_that_are() -> None:
    with pytest.raises(ModelError, match=r"has no file b.gguf") as info:
        choose("a.gguf", file="b.gguf")
    assert info.value.hint == "its GGUF files are a.gguf"


def test_safetensors_are_taken_without_other_forms_of_the_weights() -> None:
    wanted = choose("model.safetensors", "config.json", "pytorch_model.bin", "onnx/model.onnx")
    assert wanted.form is ModelForm.SAFETENSORS
    assert names(wanted) == ["model.safetensors", "config.json"]


def test_a_pipeline_comes_with_the_weights_of_its_parts_once() -> None:
    needed = ["model_index.json", "unet/config.json", "unet/a.safetensors", "vae/b.safetensors"]
    again = ["all-in-one.safetensors", "unet/a.fp16.safetensors", "unet/a.bin"]
    wanted = choose(*needed, *again)
    assert (wanted.form, names(wanted)) == (ModelForm.SAFETENSORS, needed)
    exported = ["model_index.json", "unet/openvino_model.xml", "unet/openvino_model.bin"]
    wanted = choose(*exported, *again)
    assert (wanted.form, names(wanted)) == (ModelForm.OPENVINO, exported)


@pytest.mark.parametrize("present", [[], ["weights.h5", "config.json"]])
def test_a_repository_without_a_model_is_refused(present: list[str]) -> None:
    with pytest.raises(ModelError, match="holds no model that graphrt reads"):
        choose(*present)


@pytest.mark.parametrize("name", ["../x.json", "/etc/x.json", "a/../../x.json", "a\x00.json"])
def test_a_listing_whose_names_lead_outside_is_refused(name: str) -> None:
    with pytest.raises(ModelError, match="would leave the directory"):
        choose("a.gguf", name)
