"""DeviceClass and ResourceClaimTemplate (resource.k8s.io/v1, Kubernetes 1.34 and later).

A claim has one named request a rail (`rail0`, `rail1`): only so is it known which device is which rail, and only so can
each have settings of its own; `count: 8` would take any eight. Beside the template of all rails stands one that asks
for the GPUs too and ties each to its rail by PCIe root, for clusters whose GPUs come from NVIDIA's DRA driver, and one
for each single rail: a pod that wants some of them has a claim for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from trackbed.cluster.stacks.access import Claim
from trackbed.cluster.stacks.groups import groups
from trackbed.cluster.stacks.objects import Manifest, manifest
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan

API = "resource.k8s.io/v1"
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
"""Standard attribute: the root complex that a device hangs on (KEP-4381)."""
GPU_CLASS = "gpu.nvidia.com"
"""DeviceClass of NVIDIA's DRA driver for GPUs."""
DEVICES = 32
"""Devices that one claim may get (AllocationResultsMaxSize); requests, constraints and configs have the same limit."""


def class_name(plan: Plan) -> str:
    """The fabric's DeviceClass."""
    return f"{plan.common.fabric}-rails"


def device_class(plan: Plan, expression: str) -> Manifest:
    """The devices that are rails of this fabric, by a CEL expression."""
    return manifest(API, "DeviceClass", class_name(plan), spec={"selectors": [_cel(expression)]})


def templates(plan: Plan, selectors: Iterable[str], configs: list[dict[str, Any]]) -> Iterator[Manifest]:
    """The claim templates: of all rails, of each alone, of all with their GPUs; a CEL expression for each, in order."""
    requests = [
        _request(f"rail{rail.rail}", class_name(plan), selectors=[_cel(expression)])
        for rail, expression in zip(plan.common.rails, selectors, strict=True)
    ]
    yield _template(plan, class_name(plan), {"requests": requests}, configs)
    for request in requests if len(requests) > 1 else ():
        own = [one for one in configs if request["name"] in one.get("requests", (request["name"],))]
        yield _template(plan, f"{plan.common.fabric}-{request['name']}", {"requests": [request]}, own)
    gpus = _gpus(plan)
    if gpus is not None and len(requests) + sum(len(shared) for shared in gpus) <= DEVICES:
        both = {"requests": [*requests, *_gpu_requests(gpus)], "constraints": list(_alignments(plan, gpus))}
        yield _template(plan, f"{class_name(plan)}-gpus", both, configs)


def claims(plan: Plan) -> tuple[Claim, ...]:
    """The claims of a pod that gets its GPUs from the device plugin: one for all rails; of some, one for each."""
    if not plan.common.narrowed:
        return (Claim("rails", class_name(plan)),)
    names = [f"rail{rail.rail}" for rail in plan.common.rails]
    return tuple(Claim(name, f"{plan.common.fabric}-{name}") for name in names)


def opaque(driver: str, parameters: dict[str, Any], request: str | None = None) -> dict[str, Any]:
    """Settings that a driver reads: of one request, or of all."""
    named = {} if request is None else {"requests": [request]}
    return named | {"opaque": {"driver": driver, "parameters": parameters}}


def too_many_rails(plan: Plan) -> Iterator[Problem]:
    """More rails than one claim may hold devices."""
    count = len(plan.common.rails)
    if count > DEVICES:
        message = f"a claim may get {DEVICES} devices and this fabric has {count} rails: choose a stack without claims"
        yield Problem("stack-too-many-rails", message, ("spec", "rails"))


def _template(plan: Plan, name: str, devices: dict[str, Any], configs: list[dict[str, Any]]) -> Manifest:
    spec = {"spec": {"devices": devices | ({"config": configs} if configs else {})}}
    return manifest(API, "ResourceClaimTemplate", name, plan.kubernetes.namespace, spec=spec)


def _request(name: str, wanted: str, **more: object) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": wanted, **more}}


def _cel(expression: str) -> dict[str, Any]:
    return {"cel": {"expression": expression}}


def _gpus(plan: Plan) -> tuple[tuple[int, ...], ...] | None:
    """The sets of GPUs that ports serve, in order of first appearance; None where nodes have unlike ones."""
    found = {tuple(port.gpus for port in group.ports) for group in groups(plan)}
    kinds = {tuple(dict.fromkeys(gpus)) for gpus in found}
    return next(iter(kinds)) if len(found) == 1 and all(next(iter(kinds))) else None


def _gpu_requests(gpus: tuple[tuple[int, ...], ...]) -> Iterator[dict[str, Any]]:
    for number, shared in enumerate(gpus):
        yield _request(f"gpu{number}", GPU_CLASS, count=len(shared))


def _alignments(plan: Plan, gpus: tuple[tuple[int, ...], ...]) -> Iterator[dict[str, Any]]:
    """One constraint for each set of GPUs: they and the rails whose ports serve them hang on one PCIe root."""
    ports = groups(plan)[0].ports
    for number, shared in enumerate(gpus):
        rails = [f"rail{port.rail}" for port in ports if port.gpus == shared]
        yield {"requests": [*rails, f"gpu{number}"], "matchAttribute": PCIE_ROOT}
