"""The server's metrics, in the format of Prometheus."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from hipsynth.serving.service import Service

BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.35, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0, 60.0)
OUTCOMES = {409: "superseded", 429: "busy", 401: "unauthorised", 403: "forbidden", 413: "too_large", 0: "gone"}


class RequestMeter:
    """Counts requests by route and outcome; reads the rest from the service when it is asked."""

    def __init__(self, service: Service) -> None:
        self.service, self.registry = service, CollectorRegistry()
        self.requests = Counter("hipsynth_requests", "Requests.", ["route", "outcome"], registry=self.registry)
        self.seconds = Histogram(
            "hipsynth_request_seconds", "Duration of requests.", ["route"], buckets=BUCKETS, registry=self.registry
        )
        for name, about, read in (
            ("cache_hits", "Answers from the cache.", lambda: service.cache.hits),
            ("cache_bytes", "Stored answers.", lambda: service.cache.held),
            ("documents", "Documents whose newest version is known.", lambda: len(service.documents)),
            ("jobs", "Jobs that are kept.", lambda: len(service.jobs)),
            ("workers_lost", "Workers that died at work.", lambda: sum(pool.lost for pool in service.pools)),
        ):
            Gauge(f"hipsynth_{name}", about, registry=self.registry).set_function(read)
        for pool in service.pools:
            for name, about in (("running", "Requests at work."), ("waiting", "Requests in the queue.")):
                gauge = Gauge(f"hipsynth_{pool.name}_{name}", about, registry=self.registry)
                gauge.set_function(functools.partial(getattr, pool, name))

    def count_answer(self, scope: Mapping[str, Any], status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "other")  # never the path itself: there are endless ones
        outcome = OUTCOMES.get(status) or ("ok" if status < 400 else "invalid" if status < 500 else "error")
        self.requests.labels(route, outcome).inc()
        self.seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)
