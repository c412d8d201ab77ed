#!/usr/bin/env python3
"""A runner whose behaviour the request's seed chooses, named by `$KZ_RUNNER`. It imports nothing of Kazeia.

It appends what it does to `$KZ_SCRIPT/log`; `gated` waits before each frame until `$KZ_SCRIPT/frames` allows it.
"""

import json
import os
import select
import signal
import struct
import sys
import time
from pathlib import Path

NORMAL, DIES_LATER, DIES_AT_ONCE, REFUSES, FAILS_LATER, ENDLESS, GATED, CAPPED, SILENT, LONG = range(1, 11)
FOLDER = Path(os.environ.get("KZ_SCRIPT", "."))
SAMPLES_PER_FRAME = 1920


def log(line):
    with (FOLDER / "log").open("a") as file:
        file.write(line + "\n")


def answer(header, payload=b""):
    sys.stdout.buffer.write(json.dumps({**header, "payload_bytes": len(payload)}).encode() + b"\n" + payload)
    sys.stdout.buffer.flush()


def read_request():
    """Unbuffered, so that `select` tells whether another request waits."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit(0)
        line += byte
    header = json.loads(line)
    payload = b""
    while len(payload) < header["payload_bytes"]:
        payload += os.read(0, header["payload_bytes"] - len(payload))
    return header, payload


def cancelled():
    if not select.select([0], [], [], 0)[0]:
        return False
    header, _ = read_request()
    return header["type"] == "cancel"


def done(request, reason, frames):
    times = {"prefill_ms": 1.0, "talker_ms": 1.0, "predictor_ms": 1.0}
    counts = {"kv_copied_bytes": 0, "calls_per_frame": 17.0, "peak_rss_bytes": 1}
    log(f"done {reason} {frames}")
    answer({"type": "done", "id": request["id"], "stop_reason": reason, "frames": frames, **times, **counts})


def frames_allowed():
    path = FOLDER / "frames"
    return int(path.read_text() or 0) if path.exists() else 0


def generate(request):
    script = request["seed"]
    log(f"generate {script}")
    code = 0 if script == SILENT else 7
    count = {ENDLESS: 1 << 30, CAPPED: request["max_frames"], LONG: 800}.get(script, 6)
    for index in range(count):
        if script == DIES_AT_ONCE or (script == DIES_LATER and index == 2):
            os.kill(os.getpid(), signal.SIGKILL)
        if script == REFUSES or (script == FAILS_LATER and index == 2):
            answer(
                {"type": "error", "id": request["id"], "code": "non_finite_logits", "message": f"frame {index}: logits are NaN"}
            )
            return
        while script == GATED and frames_allowed() <= index:
            time.sleep(0.01)
        if script == ENDLESS:
            time.sleep(0.02)
        if cancelled():
            done(request, "cancelled", index)
            return
        log(f"frame {index}")
        answer({"type": "frame", "id": request["id"], "index": index}, struct.pack("<h", code) * 16)
    done(request, "frame_cap" if script == CAPPED else "eos", count)


def decode(request, payload):
    codes = struct.unpack(f"<{len(payload) // 2}h", payload)
    samples = b"".join(struct.pack("<f", codes[16 * frame] / 100) * SAMPLES_PER_FRAME for frame in range(request["frames"]))
    answer({"type": "audio", "id": request["id"], "samples": len(samples) // 4, "decode_ms": 1.0}, samples)


def main():
    role = sys.argv[sys.argv.index("--role") + 1]
    if (FOLDER / "broken").exists():
        answer({"type": "error", "code": "load_failed", "message": "talker.pte is cut short; export the bundle again"})
        sys.exit(1)
    (FOLDER / f"{role}.pid").write_text(str(os.getpid()))
    log(f"start {role}")
    versions = {"protocol": 1, "contract": 1, "version": "0.1.0", "executorch": "1.5.1", "backends": ["xnnpack"]}
    answer({"type": "ready", **versions, "role": role, "threads": 1, "load_ms": 1.0})
    while True:
        request, payload = read_request()
        if request["type"] == "generate":
            generate(request)
        elif request["type"] == "decode":
            decode(request, payload)


if __name__ == "__main__":
    main()
