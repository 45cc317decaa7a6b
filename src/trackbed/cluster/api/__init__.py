"""An API server: objects as plain values in and out, its refusals as errors that say which object and why."""
