"""What `/metrics` tells, in Prometheus' text format."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from kazeia.synthesis import Statistics

SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2)

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class Metrics:
    """One service's counters; any thread may count."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.responses = Counter("kazeia_http_responses", "Answers, by status.", ["status"], registry=registry)
        self.speech = Counter(
            "kazeia_speech",
            "Requests to speak that reached the runner, by how they ended: eos, frame_cap, cancelled or failed.",
            ["end"],
            registry=registry,
        )
        self.cut_off = Counter(
            "kazeia_responses_cut_off", "Responses broken off after their first byte, by reason.", ["reason"], registry=registry
        )
        self.frames = Counter("kazeia_frames", "Frames generated.", registry=registry)
        self.audio_s = Counter("kazeia_audio_seconds", "Seconds of sound generated.", registry=registry)
        self.restarts = Counter("kazeia_runner_restarts", "Times dead or broken runners were started again.", registry=registry)
        self.first_audio_s = Histogram(
            "kazeia_first_audio_seconds",
            "From the start of a generation to its first decoded chunk.",
            buckets=SECONDS,
            registry=registry,
        )
        self.generation_s = Histogram(
            "kazeia_generation_seconds", "From the start of a generation to its last sample.", buckets=SECONDS, registry=registry
        )
        self.waiting = Gauge("kazeia_requests_waiting", "Requests that wait for the runner.", registry=registry)
        self.runner_up = Gauge("kazeia_runner_up", "1 while the runners are loaded and answer.", registry=registry)
        self.runner_peak_rss_mb = Gauge("kazeia_runner_peak_rss_megabytes", "Both runners' peaks together.", registry=registry)
        for end in ("eos", "frame_cap", "cancelled", "failed"):
            self.speech.labels(end)

    def ended(self, statistics: Statistics) -> None:
        """Count a generation that was read to its end."""
        self.speech.labels(statistics.stop_reason).inc()
        self.frames.inc(statistics.frames)
        self.audio_s.inc(statistics.audio_s)
        self.runner_peak_rss_mb.set(statistics.peak_rss_mb)
        if statistics.stop_reason != "cancelled":
            self.first_audio_s.observe(statistics.first_audio_ms / 1000)
            self.generation_s.observe(statistics.total_ms / 1000)

    def text(self) -> bytes:
        return generate_latest(self.registry)
