#!/usr/bin/env python3
"""A runner that misbehaves on purpose, named by `$KZ_RUNNER`; `$KZ_FAKE` says how. It imports nothing of Kazeia."""

import json
import os
import signal
import sys
import time


def answer(header: dict, payload: bytes = b"") -> None:
    sys.stdout.buffer.write(json.dumps({**header, "payload_bytes": len(payload)}).encode() + b"\n" + payload)
    sys.stdout.buffer.flush()


def read_request() -> dict:
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit(0)
    header = json.loads(line)
    sys.stdin.buffer.read(header["payload_bytes"])
    return header


def main() -> None:
    role = sys.argv[sys.argv.index("--role") + 1]
    fault = os.environ["KZ_FAKE"] if role == "generate" else ""
    if fault == "garbage at start":
        sys.stdout.buffer.write(b"\x00\xffhello, this is no protocol\n")
        sys.stdout.buffer.flush()
        time.sleep(60)
    if fault == "endless header":
        sys.stdout.buffer.write(b"x" * 200_000)
        sys.stdout.buffer.flush()
        time.sleep(60)
    if fault == "fails to load":
        answer({"type": "error", "code": "load_failed", "message": "talker.pte is cut short; export the bundle again"})
        sys.exit(1)
    protocol = 2 if fault == "other protocol" else 1
    versions = {"version": "0.1.0", "executorch": "1.5.1", "backends": ["xnnpack"]}
    files = {"talker.pte": "0" * 64} if fault == "other files" else {}
    answer(
        {
            "type": "ready",
            "files": files,
            "protocol": protocol,
            "contract": 1,
            **versions,
            "role": role,
            "threads": 1,
            "load_ms": 1.0,
        }
    )
    while role == "decode":
        request = read_request()
        silence = b"\x00" * (4 * 1920 * request["frames"])
        answer({"type": "audio", "id": request["id"], "samples": 1920 * request["frames"], "decode_ms": 1.0}, silence)
    request = read_request()
    answer({"type": "frame", "id": request["id"], "index": 0}, b"\x01\x00" * 16)
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "crashes":
        sys.stderr.write("loading...\nsegmentation fault in layer 3\n")
        sys.exit(139)
    if fault == "garbage":
        sys.stdout.buffer.write(b'{"type": "frame", "index": "not a number"}\n')
        sys.stdout.buffer.flush()
        time.sleep(60)
    if fault == "huge payload":
        sys.stdout.buffer.write(b'{"type":"frame","id":"1","index":1,"payload_bytes":99999999999}\n')
        sys.stdout.buffer.flush()
        time.sleep(60)
    if fault == "not a number":
        answer(
            {
                "type": "error",
                "id": request["id"],
                "code": "non_finite_logits",
                "message": "frame 1, codebook 0: logits are not numbers",
            }
        )
    if fault == "hangs":
        time.sleep(600)
    if fault == "silence":
        times = {"prefill_ms": 1.0, "talker_ms": 1.0, "predictor_ms": 1.0}
        counts = {"kv_copied_bytes": 0, "calls_per_frame": 17.0, "peak_rss_bytes": 1}
        answer({"type": "done", "id": request["id"], "stop_reason": "eos", "frames": 1, **times, **counts})
    read_request()


main()
