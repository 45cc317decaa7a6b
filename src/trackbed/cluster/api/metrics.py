"""Metrics of an API server: requests, and times of its last watch events. Label values are few and fixed."""

from prometheus_client import Counter, Gauge

API_REQUESTS = Counter(
    "trackbed_api_requests",
    "Requests to the API server by verb (WATCH for streams) and status code; code none where no answer came.",
    ("verb", "code"),
)
WATCH_HEARD = Gauge(
    "trackbed_watch_heard_timestamp_seconds",
    "When the API server last said something of a kind: an object, a bookmark (about every minute), or a whole list.",
    ("kind",),
)
