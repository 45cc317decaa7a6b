"""Metrics of requests to an API server, and of its watch streams. Label values are few and fixed."""

from prometheus_client import Counter, Gauge

API_REQUESTS = Counter(
    "trackbed_api_requests",
    "Requests to the API server by verb (WATCH for streams) and status code; code none without a response.",
    ("verb", "code"),
)
WATCH_LAST_CONTACT = Gauge(
    "trackbed_watch_heard_timestamp_seconds",
    "Time of the last message about a kind from the API server: an object, a bookmark (about every minute), a list.",
    ("kind",),
)
UNREADABLE_OBJECTS = Gauge(
    "trackbed_unreadable_objects",
    "Objects that the API server admitted and this program does not understand, by kind; they are passed over.",
    ("kind",),
)
