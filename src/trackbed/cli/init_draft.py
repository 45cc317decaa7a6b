"""The Fabric of a guided `trackbed init`: the answers, and their text with comments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from trackbed.fabric.gpus import GPU_RESOURCE
from trackbed.fabric.model.fabric import API_VERSION

SCHEMES = {"move": "point-to-point", "sriov": "shared-subnet", "macvlan": "shared-subnet"}
"""How pods get rails -> addressing scheme."""


@dataclass(frozen=True, slots=True)
class Draft:
    """The answers so far; those not yet given have defaults that fit the others."""

    name: str = "train"
    origin: str = ""
    """Where the hardware is described, for a comment."""
    hosts: str = "gpu-[0-63]"
    ports: tuple[str, ...] = ()
    """PCI addresses in rail order."""
    nic: str | None = None
    gpus: int | None = None
    gpu_resource: str = GPU_RESOURCE
    link_type: str = "ethernet"
    management: str = ""
    """The NIC that the hosts are reached by; empty if unknown."""
    storage: str = ""
    other_ranges: tuple[str, ...] = ()
    mode: str = "sriov"
    vfs: int = 8
    ipv4: str = "10.0.0.0/13"
    stack: str = "native"

    @property
    def rails(self) -> tuple[str, ...]:
        """The ports without the NICs for management and storage."""
        return tuple(port for port in self.ports if port not in {self.management, self.storage})


def render_draft(draft: Draft) -> str:
    """Return the Fabric of the answers."""
    return "".join(f"{line}\n" for line in _iter_lines(draft))


def _iter_lines(draft: Draft) -> Iterator[str]:
    yield f"# Written by `trackbed init --guided` from {draft.origin}. See it with: trackbed plan -f FILE"
    yield from (f"apiVersion: {API_VERSION}", "kind: Fabric", f"metadata: {{name: {json.dumps(draft.name)}}}", "spec:")
    yield from ("  linkType: infiniband",) if draft.link_type == "infiniband" else ()
    yield "  nodes:"
    yield f"    - hosts: {json.dumps(draft.hosts)} # as `hostname -s` and `kubectl get nodes` show them"
    yield from (f'      nic: "{draft.nic}"',) if draft.nic else ()
    gpus = draft.gpus
    if gpus and draft.rails and (gpus % len(draft.rails) == 0 or len(draft.rails) % gpus == 0):
        yield f"      gpus: {gpus}"
    for role, nic in (("management", draft.management), ("storage", draft.storage)):
        yield from (f"      # no rail: {json.dumps(nic)}, {role}",) if nic else ()
    yield "      ports: # in rail order"
    yield from (f'        - "{port}"' for port in draft.rails)
    yield f"  rails: {len(draft.rails)}"
    yield "  # The range is cut into one part for each rail; it must be free in the whole site."
    yield f"  addressing: {{scheme: {SCHEMES[draft.mode]}, ipv4: {draft.ipv4}}}"
    yield f"  pods: {{mode: {draft.mode}}}"
    yield from (f"  vfs: {{count: {draft.vfs}}} # for each port",) if draft.mode == "sriov" else ()
    resource = "" if draft.gpu_resource == GPU_RESOURCE else f", gpuResource: {draft.gpu_resource}"
    yield f"  kubernetes: {{stack: {draft.stack}{resource}}} # chosen from: trackbed stacks -f FILE"
    if draft.other_ranges:
        yield "  # Networks for management, storage and others on these hosts: no planned address lies in them."
        yield f"  otherRanges: {{nodes: [{', '.join(draft.other_ranges)}]}}"
