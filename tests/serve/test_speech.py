"""What the service says: the same bytes as `kz speak`, in every format, through the real runner."""

from __future__ import annotations

import io
import shutil
import struct
import subprocess
import wave
from pathlib import Path

import numpy as np
import pytest
import soundfile

from kazeia.bundle import read_manifest
from kazeia.voices import Voice, save_voice
from tests.serve.service import Reply, Service, wait_until
from tests.support.bundles import BABBLE
from tests.support.command import Kz

TEXT = "Il fait beau, non ?"
HEADER_BYTES = 44
TOTAL_SAMPLES_AT = 22
"""Offset of the lower 32 bits of STREAMINFO's number of samples."""
WIDTH = read_manifest(BABBLE).model.speaker_embedding_size


def spoken(kz: Kz, folder: Path, *options: object, text: str = TEXT) -> bytes:
    """The WAV file of `kz speak`."""
    path = folder / "spoken.wav"
    assert kz("speak", text, "-o", path, "--bundle", BABBLE, "--device", "local", *options).status in (0, 12)
    return path.read_bytes()


def pcm_of(reply: Reply, audio_format: str, size_bytes: int) -> bytes:
    """The reply's samples. A streamed FLAC does not say how many it has, and soundfile reads only those that do."""
    assert reply.status == 200, reply
    if audio_format == "flac":
        flac = bytearray(reply.body)
        flac[TOTAL_SAMPLES_AT : TOTAL_SAMPLES_AT + 4] = struct.pack(">I", size_bytes // 2)
        with soundfile.SoundFile(io.BytesIO(flac)) as sound:
            return bytes(sound.buffer_read(dtype="int16"))
    return reply.body[HEADER_BYTES:] if audio_format == "wav" else reply.body


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("audio_format", ["wav", "pcm", "flac"])
def test_the_same_seed_gives_the_samples_of_kz_speak(
    service: Service, kz: Kz, tmp_path: Path, audio_format: str, stream: bool
) -> None:
    expected = spoken(kz, tmp_path, "--seed", 7, "--voice", "murmur", "--language", "fr")[HEADER_BYTES:]
    fields = {"voice": "murmur", "language": "fr", "seed": 7, "response_format": audio_format, "stream": stream}
    assert pcm_of(service.speak(TEXT, **fields), audio_format, len(expected)) == expected


def test_a_whole_wav_is_the_file_of_kz_speak(service: Service, kz: Kz, tmp_path: Path) -> None:
    reply = service.speak(TEXT, seed=3, stream=False)
    assert reply.body == spoken(kz, tmp_path, "--seed", 3)
    assert reply.headers["content-length"] == str(len(reply.body))
    assert reply.headers["x-kazeia-stop-reason"] in ("eos", "frame_cap")
    assert int(reply.headers["x-kazeia-frames"]) * 3840 + HEADER_BYTES == len(reply.body)


def test_sampling_options_arrive(service: Service, kz: Kz, tmp_path: Path) -> None:
    options = ("--seed", 3, "--temperature", 0.5, "--top-k", 20, "--top-p", 0.8, "--repetition-penalty", 1.2, "--max-frames", 9)
    fields = {"temperature": 0.5, "top_k": 20, "top_p": 0.8, "repetition_penalty": 1.2, "max_frames": 9}
    assert service.speak(TEXT, seed=3, **fields, stream=False).body == spoken(kz, tmp_path, *options)


def test_another_seed_gives_another_sound_and_a_fresh_one_can_be_used_again(service: Service) -> None:
    fresh, other = service.speak(TEXT), service.speak(TEXT)
    assert fresh.headers["x-kazeia-seed"] != other.headers["x-kazeia-seed"]
    assert fresh.body != other.body
    assert service.speak(TEXT, seed=int(fresh.headers["x-kazeia-seed"])).body == fresh.body


def test_the_largest_seed_is_kept_exactly(service: Service, kz: Kz, tmp_path: Path) -> None:
    seed = 2**64 - 1
    reply = service.speak(TEXT, seed=seed, stream=False)
    assert reply.headers["x-kazeia-seed"] == str(seed)
    assert reply.body == spoken(kz, tmp_path, "--seed", seed)


@pytest.mark.parametrize(("audio_format", "kind"), [("wav", "audio/wav"), ("pcm", "audio/pcm"), ("flac", "audio/flac")])
def test_the_reply_names_its_type_rate_seed_and_file(service: Service, audio_format: str, kind: str) -> None:
    headers = service.speak(TEXT, seed=3, response_format=audio_format).headers
    assert headers["content-type"] == kind
    assert headers["x-kazeia-sample-rate"] == "24000"
    assert headers["content-disposition"] == f'attachment; filename="babble-3.{audio_format}"'
    assert headers["transfer-encoding"] == "chunked"


def test_real_readers_take_a_wav_of_unknown_length(service: Service, tmp_path: Path) -> None:
    body = service.speak(TEXT, seed=3).body
    samples = (len(body) - HEADER_BYTES) // 2
    with wave.open(io.BytesIO(body)) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) == (24000, 1, 2)
        assert len(sound.readframes(sound.getnframes())) == 2 * samples
    assert len(soundfile.read(io.BytesIO(body))[0]) == samples
    path = tmp_path / "a.wav"
    path.write_bytes(body)
    for command in (["ffprobe", "-v", "error", "-count_packets", str(path)], ["sox", str(path), "-n", "stat"]):
        if shutil.which(command[0]):
            subprocess.run(command, check=True, capture_output=True)


def test_a_voice_enrolled_again_is_heard_at_once(
    service: Service, kz: Kz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KZ_HOME", str(service.home))
    random = np.random.default_rng(1)
    heard = []
    for _ in range(2):
        save_voice(Voice("narrator", random.standard_normal(WIDTH).astype(np.float32), source="test"))
        heard.append(service.speak(TEXT, voice="narrator", seed=1).body)
        assert heard[-1][HEADER_BYTES:] == spoken(kz, tmp_path, "--voice", "narrator", "--seed", 1)[HEADER_BYTES:]
    assert heard[0] != heard[1]


def test_voices_of_any_script_are_listed_spoken_and_named_in_the_download(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KZ_HOME", str(service.home))
    random = np.random.default_rng(2)
    for name in ("声音", "голос"):
        save_voice(Voice(name, random.standard_normal(WIDTH).astype(np.float32), source="test"))
    listed = [voice["id"] for voice in service.ask("GET", "/v1/voices").json["data"]]
    assert {"babble", "murmur", "声音", "голос"} <= set(listed)
    first, second = (service.speak(TEXT, voice=name, seed=1) for name in ("声音", "голос"))
    assert first.body != second.body
    assert first.headers["content-disposition"] == "attachment; filename=\"1.wav\"; filename*=UTF-8''%E5%A3%B0%E9%9F%B3-1.wav"


def test_a_voice_is_found_in_either_form_of_its_accent(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KZ_HOME", str(service.home))
    save_voice(Voice("René", np.ones(WIDTH, np.float32), source="test"))
    assert service.speak(TEXT, voice="Rene\u0301", seed=1).body == service.speak(TEXT, voice="René", seed=1).body


def test_metrics_count_what_was_spoken_in_a_form_prometheus_reads(service: Service) -> None:
    before = service.metric("kazeia_frames_total")
    reply = service.speak(TEXT, seed=3, stream=False)
    frames = int(reply.headers["x-kazeia-frames"])
    assert service.metric("kazeia_frames_total") == before + frames
    metrics = service.ask("GET", "/metrics")
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert service.metric("kazeia_runner_up") == 1
    assert service.metric("kazeia_first_audio_seconds_count") == service.metric("kazeia_generation_seconds_count") > 0
    assert service.metric("kazeia_http_responses_total", status="200") > 0
    wait_until(lambda: any(f"spoke {frames} frames" in line for line in service.log))


def test_openai_s_own_client_speaks_streams_lists_and_is_refused(service: Service, kz: Kz, tmp_path: Path) -> None:
    import openai

    expected = spoken(kz, tmp_path, "--seed", 9)
    client = openai.OpenAI(base_url=f"{service.url}/v1", api_key="unused", max_retries=0)
    extra = {"seed": 9}
    whole = client.audio.speech.create(model="kazeia", voice="babble", input=TEXT, response_format="wav", extra_body=extra)
    assert whole.read()[HEADER_BYTES:] == expected[HEADER_BYTES:]
    create = client.audio.speech.with_streaming_response.create
    with create(model="kazeia", voice="babble", input=TEXT, response_format="pcm", extra_body=extra) as response:
        assert b"".join(response.iter_bytes()) == expected[HEADER_BYTES:]
    assert [model.id for model in client.models.list()] == ["kazeia", "babble"]
    assert client.models.retrieve("kazeia").owned_by == "kazeia"
    with pytest.raises(openai.BadRequestError, match="unknown voice 'alloy'") as refused:
        client.audio.speech.create(model="kazeia", voice="alloy", input=TEXT, response_format="wav")
    assert (refused.value.param, refused.value.code) == ("voice", "unknown_voice")
    with pytest.raises(openai.NotFoundError, match="unknown model 'tts-1'"):
        client.audio.speech.create(model="tts-1", voice="babble", input=TEXT, response_format="wav")
