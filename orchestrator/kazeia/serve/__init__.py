"""A warm service over HTTP: OpenAI's `POST /v1/audio/speech`, voices, health, metrics and a page.

    connection ─► HttpConnection ─► Gate ─► app ─► SpeechQueue (one thread, one warm Synthesizer)
                                             │                    │
    reader ◄──────────── SpeechResponse ◄── Job ◄── encoded chunks

Everything but the SpeechQueue's thread lives in one event loop. Needs the extra `kazeia[serve]`.
"""
