"""Settings for the stacks on Kubernetes."""

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator

from trackbed.fabric.model.model import (
    ANYTHING,
    NUMBER_OR_TEXT,
    DnsLabel,
    ExtendedResource,
    FabricModel,
    ImageReference,
    make_error,
)
from trackbed.fabric.model.stack_names import STACK_MODULES, suggest_choice

_PKEY = re.compile(r"0[xX][0-9a-fA-F]{1,4}|[1-9][0-9]{0,4}")


def _parse_pkey(value: object) -> object:
    text = str(value)
    number = int(text, 0) if _PKEY.fullmatch(text) else -1
    if number & 0x7FFF == 0 or not 0 < number <= 0xFFFF:  # noqa: PLR2004 - 16 bits, the highest marks full membership
        raise make_error(
            "bad-pkey", f"{value!r} is no partition key: 0x0001 to 0x7fff, or with the member bit to 0xffff"
        )
    return number


PKey = Annotated[int, BeforeValidator(_parse_pkey), NUMBER_OR_TEXT]
"""InfiniBand partition key (IBTA 10.9.2): 15 bits and the membership bit; the base key 0 names no partition."""


class ImagesSpec(FabricModel):
    """Images that you build and push yourself.

    Example:
        agent: registry.example/trackbed/agent:0.1.0
    """

    agent: ImageReference | None = None
    """The agent's, of stack native: what you built by `scripts/image`. Default: one that is on no registry."""


class KubernetesSpec(FabricModel):
    """Settings for stacks on Kubernetes.

    Example:
        stack: network-operator-ib-sriov
        namespace: training
        ipam: whereabouts
        driver: container
        management: cilium
        pkey: 0x8001
        gpuResource: amd.com/gpu
        images: {agent: registry.example/trackbed/agent:0.1.0}
        versions:
          nvidia-network-operator: v26.4.1
        values:
          nvidia-gpu-operator:
            gdrcopy: {enabled: true}
    """

    stack: DnsLabel = "native"
    """The stack of controller and webhook (`trackbed stacks`); commands have an option for it."""
    namespace: DnsLabel = "default"
    """Namespace of the pods that get rails; their networks are created there."""
    ipam: Literal["nv-ipam", "whereabouts"] = "nv-ipam"
    """IPAM plugin for pod addresses, in stacks that support several."""
    driver: Literal["host", "container"] = "host"
    """Source of the NIC driver: the host's own packages, or NVIDIA's driver container."""
    management: Literal["calico", "cilium"] | None = None
    """Primary network to write Helm values for; it is kept off the rails."""
    pkey: PKey | None = None
    """InfiniBand partition of the pods. Default: the default partition."""
    gpu_resource: ExtendedResource | None = None
    """Resource by which pods ask for GPUs, on all nodes. Default: that of each node's `server`, else nvidia.com/gpu."""
    images: ImagesSpec = Field(default_factory=ImagesSpec)
    """Images that you build and push yourself."""
    versions: dict[str, str] = Field(default_factory=dict)
    """Component -> version of the release catalogue. Default: the newest release of each."""
    values: dict[str, Annotated[dict[str, Any], ANYTHING]] = Field(default_factory=dict)
    """Component -> Helm values of your own, merged over those of the stack. They are no place for secrets."""

    @field_validator("stack")
    @classmethod
    def _check_stack(cls, value: str) -> str:
        if value not in STACK_MODULES:
            raise make_error("stack-unknown", f"no stack is called {value!r}; {suggest_choice(value, STACK_MODULES)}")
        return value
