"""A stack as files to install: Helm values, objects by stages, a script, a playbook, and what hosts need."""

from __future__ import annotations

from trackbed.cluster.stacks.install.bundle import bundle

__all__ = ["bundle"]
