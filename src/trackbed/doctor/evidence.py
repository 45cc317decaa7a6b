"""Evidence of findings: short texts of what was read."""


def summarize_items(items: list[str], limit: int = 4) -> str:
    """Join the first `limit` items with commas, followed by the number of omitted ones."""
    suffix = f" and {len(items) - limit} more" if len(items) > limit else ""
    return ", ".join(items[:limit]) + suffix
