"""The sound that clients append, in each format."""

from __future__ import annotations

import numpy as np
import pytest

from calculators.speech.speech_to_text.realtime.audio_format import A_LAW, MU_LAW, PCM, AudioFormat


def test_pcm_is_little_endian() -> None:
    assert PCM.decode(b"\x01\x00\xff\xff\x00\x80").tolist() == [1, -1, -32768]


# ITU-T G.711: the ends of both scales, and zero.
@pytest.mark.parametrize(
    ("form", "codes", "samples"),
    [
        (MU_LAW, b"\x00\x80\xff\x7f", [-32124, 32124, 0, 0]),
        (A_LAW, b"\x2a\xaa\xd5\x55", [-32256, 32256, 8, -8]),
    ],
)
def test_the_laws_of_g711_have_their_values(
    form: AudioFormat, codes: bytes, samples: list[int]
) -> None:
    assert form.decode(codes).tolist() == samples


@pytest.mark.parametrize("form", [MU_LAW, A_LAW])
def test_a_law_is_symmetric_and_has_no_gaps(form: AudioFormat) -> None:
    values = np.sort(form.decode(bytes(range(256))).astype(int))
    assert np.array_equal(values, -values[::-1])
    assert np.diff(values).max() <= 1024
