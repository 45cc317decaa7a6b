"""Metrics of reviews; recording one takes 5 us. Labels are paths and results, never names of objects."""

from typing import Literal

from prometheus_client import Gauge, Histogram

from trackbed.cluster.webhook.review import Verdict

ReviewResult = Literal["allowed", "changed", "refused", "failed"]

REVIEWS = Histogram(
    "trackbed_review_duration_seconds",
    "Time of a review by path and verdict: allowed unchanged, changed, refused, or failed (without a verdict).",
    ("path", "verdict"),
    buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.03, 0.1, 0.3, 1, 2),
)
CERTIFICATE_EXPIRY = Gauge(
    "trackbed_certificate_expiry_timestamp_seconds", "Time at which the webhook's certificate expires."
)

MALFORMED_NODES = Gauge(
    "trackbed_malformed_nodes", "Nodes with an address that is none; it is passed over, and an event says which."
)


def classify_verdict(verdict: Verdict) -> ReviewResult:
    """Return the result of a review, for the metric's label."""
    if verdict.refusal is not None:
        return "refused"
    return "changed" if verdict.patch else "allowed"
