"""What each kind of model is asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kazeia.bundle import Bundle
from kazeia.errors import AudioError, BundleError, DeviceError, KazeiaError, NothingToSay, RunnerError, UsageError, VoiceError
from kazeia.serve.api_error import ApiError, speaking_error
from kazeia.serve.speech_request import SpeechRequest, parse_request, speak_options, voice_names
from tests.serve.service import speech_body
from tests.support.bundles import BABBLE, fake_model, write_fake_bundle


def bundle_of(folder: Path, kind: str, size: str = "1b7") -> Bundle:
    return Bundle.open(write_fake_bundle(folder / kind, fake_model(kind, size)))


def parsed(bundle: Bundle, **fields: Any) -> Any:
    return speak_options(parse_request(json.dumps(speech_body(**fields)).encode(), bundle), bundle)


def test_a_custom_voice_model_s_speakers_are_its_voices(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, "custom_voice")
    assert voice_names(bundle) == ["dylan", "ryan"]
    options = parsed(bundle, voice="ryan", instructions="whispering")
    assert (options.voice, options.speaker, options.instruct) == (None, "ryan", "whispering")
    with pytest.raises(ApiError, match="unknown voice 'babble'; this service has dylan, ryan"):
        parsed(bundle, voice="babble")


def test_a_voice_design_model_has_one_voice_that_instructions_describe(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, "voice_design")
    options = parsed(bundle, voice="designed", instructions="an old man, amused")
    assert (options.voice, options.speaker, options.instruct) == (None, None, "an old man, amused")


def test_a_base_model_without_any_voice_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ApiError, match="make one with kz voice add NAME RECORDING"):
        parsed(bundle_of(tmp_path, "base"), voice="anna")


@pytest.mark.parametrize(
    ("error", "status", "param", "message"),
    [
        (NothingToSay(), 400, "input", "nothing to say"),
        (VoiceError("unknown"), 400, "voice", "unknown"),
        (UsageError("--max-frames must be 1"), 400, "max_frames", "max_frames must be 1"),
        (UsageError("takes no --instruct"), 400, "instructions", "takes no instructions"),
        (UsageError("needs --speaker"), 400, "voice", "needs voice"),
        (UsageError("wrong"), 400, None, "wrong"),
        (RunnerError("died"), 503, None, "died"),
        (DeviceError("lost"), 503, None, "lost"),
        (AudioError("silent"), 500, None, "silent"),
        (BundleError("gone"), 500, None, "gone"),
    ],
)
def test_every_failure_has_its_status_and_speaks_of_fields(
    error: KazeiaError, status: int, param: str | None, message: str
) -> None:
    answer = speaking_error(error)
    assert (answer.status, answer.param) == (status, param)
    assert message in answer.message


values = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers(), max_size=2)
bodies = st.binary() | st.builds(
    lambda fields: json.dumps(speech_body(**fields)).encode(),
    st.dictionaries(st.sampled_from([*SpeechRequest.__struct_fields__, "other"]), values, max_size=4),
)


@given(bodies)
def test_any_body_is_either_a_request_or_refused(body: bytes) -> None:
    bundle = Bundle.open(BABBLE)
    try:
        request = parse_request(body, bundle)
    except ApiError as refusal:
        answer = refusal
    else:
        assert request.seed is not None
        assert request.voice in voice_names(bundle)
        return
    assert answer.status in (400, 404)
    assert json.loads(answer.body())["error"]["message"]
