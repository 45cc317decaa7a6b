"""Long-running programs: their listen addresses, metrics, health checks and shutdown."""
