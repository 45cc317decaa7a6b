"""Metrics of reviews, 5 us each. Labels are paths and results, never names of objects."""

from typing import Literal

from prometheus_client import Gauge, Histogram

from trackbed.cluster.webhook.review import Verdict

ReviewResult = Literal["allowed", "changed", "refused", "failed"]

REVIEWS = Histogram(
    "trackbed_review_duration_seconds",
    "Time of a review by path and verdict: allowed as it is, changed, refused, or failed (no verdict could be given).",
    ("path", "verdict"),
    buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.03, 0.1, 0.3, 1, 2),
)
CERTIFICATE_EXPIRY = Gauge(
    "trackbed_certificate_expiry_timestamp_seconds", "When the certificate ends that is shown to the API server."
)


def classify_verdict(verdict: Verdict) -> ReviewResult:
    """Return the result of a review for its metric label."""
    if verdict.refusal is not None:
        return "refused"
    return "changed" if verdict.patch else "allowed"
