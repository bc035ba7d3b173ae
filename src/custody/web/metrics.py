"""Metrics: what a worker of this process did, and what the store holds when someone asks.

Gauges are asked of the store at each scrape and fall back to zero; counters and durations are this process's own,
as Prometheus adds up processes itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from custody.errors import CustodyError
from custody.kernel.engine.listeners import NOTHING, Listener
from custody.kernel.model.job import Answer, Change, Job
from custody.opening import Opened

if TYPE_CHECKING:
    from custody.web.queries.overview import Glance

SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300, 1800, 7200)


class Telling:
    """A worker's listener that counts, and passes on what it hears."""

    def __init__(self, also: Listener = NOTHING) -> None:
        self._also = also
        self.registry = CollectorRegistry()
        self._settled = Counter(
            "custody_jobs_settled", "Moves that workers made", ["kind", "state", "outcome"], registry=self.registry
        )
        self._lost = Counter("custody_leases_lost", "Leases lost while working", ["kind"], registry=self.registry)
        self._refused = Counter("custody_moves_refused", "Moves the store refused", ["kind"], registry=self.registry)
        self._troubles = Counter("custody_troubles", "Times a store did not answer", ["code"], registry=self.registry)
        self._seconds = Histogram(
            "custody_work_seconds", "How long work took", ["kind", "state"], buckets=SECONDS, registry=self.registry
        )
        self._began: dict[int, float] = {}
        self._lock = threading.Lock()
        self.applications: Iterable[Opened] = ()  # whose numbers are told, too

    def started(self, job: Job) -> None:
        self._also.started(job)
        with self._lock:
            self._began[job.id] = time.monotonic()

    def settled(self, job: Job, change: Change, answer: Answer) -> None:
        if answer.done:
            self._settled.labels(job.kind, job.state, change.outcome).inc()
        else:
            self._refused.labels(job.kind).inc()
        self._ended(job)
        self._also.settled(job, change, answer)  # whoever reads of it finds it counted

    def lost(self, job: Job, reason: str) -> None:
        self._lost.labels(job.kind).inc()
        self._ended(job)
        self._also.lost(job, reason)

    def trouble(self, error: CustodyError) -> None:
        self._also.trouble(error)
        self._troubles.labels(error.code).inc()

    def _ended(self, job: Job) -> None:
        with self._lock:
            began = self._began.pop(job.id, None)
        if began is not None:
            self._seconds.labels(job.kind, job.state).observe(time.monotonic() - began)

    def text(self, glance: Glance) -> bytes:
        """Everything, as Prometheus reads it."""
        asked = CollectorRegistry()
        asked.register(_Store(glance))
        for opened in self.applications:
            asked.register(_Application(opened))
        return generate_latest(asked) + generate_latest(self.registry)


class _Store(Collector):
    def __init__(self, glance: Glance) -> None:
        self._glance = glance

    def collect(self) -> Iterator[Metric]:
        glance = self._glance
        jobs = GaugeMetricFamily("custody_jobs", "Jobs by kind and state", labels=["kind", "state"])
        for (kind, state), count in glance.counts_with_zeros().items():
            jobs.add_metric([kind, state], count)
        yield jobs
        oldest = GaugeMetricFamily(
            "custody_oldest_claimable_seconds", "How long the oldest claimable job waits", labels=["kind", "state"]
        )
        for (kind, state), seconds in glance.oldest_seconds().items():
            oldest.add_metric([kind, state], seconds)
        yield oldest
        running = GaugeMetricFamily("custody_jobs_leased", "Jobs being worked on", labels=["kind", "state"])
        for (kind, state), count in glance.leased().items():
            running.add_metric([kind, state], count)
        yield running
        failed = GaugeMetricFamily("custody_jobs_failed", "Failed jobs by cause", labels=["kind", "code"])
        for (kind, code), count in glance.failed_by_code().items():
            failed.add_metric([kind, code], count)
        yield failed
        yield GaugeMetricFamily("custody_workers", "Workers seen within half a minute", value=len(glance.workers()))


class _Application(Collector):
    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    def collect(self) -> Iterator[Metric]:
        try:
            found = list(self._opened.gauges())
        except CustodyError:  # what cannot be reached now keeps no other number from being told
            return
        for gauge in found:
            family = GaugeMetricFamily(gauge.name, gauge.about, labels=gauge.labels)
            for labels, value in gauge.values:
                family.add_metric(labels, value)
            yield family
