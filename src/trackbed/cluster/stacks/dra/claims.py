"""DeviceClass and ResourceClaimTemplate (resource.k8s.io/v1, Kubernetes 1.34 and later).

A claim has a named request for each rail (`rail0`, `rail1`), so that each rail can have its own settings; `count: 8`
would match any eight devices. There are templates for all rails, for each single rail (for pods that use some of the
rails), and for all rails with the GPUs. The template with the GPUs places each rail and its GPUs on the same PCIe root;
it requires NVIDIA's DRA driver for GPUs.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from trackbed.cluster.stacks.access import Claim
from trackbed.cluster.stacks.groups import group_nodes
from trackbed.cluster.stacks.objects import Manifest, build_manifest
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan

API = "resource.k8s.io/v1"
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
"""Standard attribute of devices: their PCIe root complex (KEP-4381)."""
GPU_CLASS = "gpu.nvidia.com"
"""DeviceClass of NVIDIA's DRA driver for GPUs."""
MAX_DEVICES = 32
"""Largest number of devices of a claim (AllocationResultsMaxSize), and of its requests, constraints and configs."""


def get_device_class_name(plan: Plan) -> str:
    """Return the name of the fabric's DeviceClass."""
    return f"{plan.common.fabric}-rails"


def build_device_class(plan: Plan, cel_expression: str) -> Manifest:
    """Return the DeviceClass of the fabric's rails: the devices for which the CEL expression holds."""
    return build_manifest(
        API, "DeviceClass", get_device_class_name(plan), spec={"selectors": [_build_cel_selector(cel_expression)]}
    )


def build_claim_templates(
    plan: Plan, cel_selectors: Iterable[str], driver_configs: list[dict[str, Any]]
) -> Iterator[Manifest]:
    """Yield the ResourceClaimTemplates for all rails, each single rail, and all rails with their GPUs.

    `cel_selectors` are expressions that select the devices of each rail, in rail order.
    """
    requests = [
        _build_device_request(
            f"rail{rail.rail}", get_device_class_name(plan), selectors=[_build_cel_selector(expression)]
        )
        for rail, expression in zip(plan.common.rails, cel_selectors, strict=True)
    ]
    yield _build_claim_template(plan, get_device_class_name(plan), {"requests": requests}, driver_configs)
    for request in requests if len(requests) > 1 else ():
        request_configs = [
            config for config in driver_configs if request["name"] in config.get("requests", (request["name"],))
        ]
        yield _build_claim_template(
            plan, f"{plan.common.fabric}-{request['name']}", {"requests": [request]}, request_configs
        )
    gpu_sets = _find_claimable_gpu_sets(plan)
    if gpu_sets is not None:
        devices = {
            "requests": [*requests, *_build_gpu_requests(gpu_sets)],
            "constraints": list(_build_pcie_constraints(plan, gpu_sets)),
        }
        yield _build_claim_template(plan, _get_gpu_template_name(plan), devices, driver_configs)


def build_pod_claims(plan: Plan) -> tuple[Claim, ...]:
    """Return the claims of a pod that uses no claim for GPUs: a single claim for all rails, or one for each of some."""
    namespace = plan.kubernetes.namespace
    if not plan.common.narrowed:
        with_gpus = (_get_gpu_template_name(plan),) if _find_claimable_gpu_sets(plan) is not None else ()
        return (Claim("rails", get_device_class_name(plan), namespace, with_gpus),)
    names = [f"rail{rail.rail}" for rail in plan.common.rails]
    return tuple(Claim(name, f"{plan.common.fabric}-{name}", namespace) for name in names)


def build_driver_config(driver: str, parameters: dict[str, Any], request_name: str | None = None) -> dict[str, Any]:
    """Return an element of a claim's `config`: parameters of a driver, for one request or (None) for all requests."""
    selection = {} if request_name is None else {"requests": [request_name]}
    return selection | {"opaque": {"driver": driver, "parameters": parameters}}


def check_rail_count(plan: Plan) -> Iterator[Problem]:
    """Yield a problem if the fabric has more rails than a claim can have devices."""
    count = len(plan.common.rails)
    if count > MAX_DEVICES:
        yield Problem(
            "stack-too-many-rails",
            f"a claim may get {MAX_DEVICES} devices and this fabric has {count} rails: choose a stack without claims",
            ("spec", "rails"),
        )


def _build_claim_template(plan: Plan, name: str, devices: dict[str, Any], configs: list[dict[str, Any]]) -> Manifest:
    spec = {"spec": {"devices": devices | ({"config": configs} if configs else {})}}
    return build_manifest(API, "ResourceClaimTemplate", name, plan.kubernetes.namespace, spec=spec)


def _build_device_request(name: str, device_class: str, **fields: object) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": device_class, **fields}}


def _build_cel_selector(expression: str) -> dict[str, Any]:
    return {"cel": {"expression": expression}}


def _get_gpu_template_name(plan: Plan) -> str:
    return f"{get_device_class_name(plan)}-gpus"


def _find_claimable_gpu_sets(plan: Plan) -> tuple[tuple[int, ...], ...] | None:
    """Return the sets of GPUs that share ports; None if there is no claim of them with all rails."""
    gpu_sets = _find_common_gpu_sets(plan)
    device_count = len(plan.common.rails) + sum(map(len, gpu_sets or ()))
    return gpu_sets if device_count <= MAX_DEVICES else None


def _find_common_gpu_sets(plan: Plan) -> tuple[tuple[int, ...], ...] | None:
    """Return the sets of GPUs that share ports, in rail order; None if nodes differ, or a port has no GPUs."""
    layouts = {tuple(port.gpus for port in group.ports) for group in group_nodes(plan)}
    gpu_sets = {tuple(dict.fromkeys(gpus)) for gpus in layouts}
    return next(iter(gpu_sets)) if len(layouts) == 1 and all(next(iter(gpu_sets))) else None


def _build_gpu_requests(gpu_sets: tuple[tuple[int, ...], ...]) -> Iterator[dict[str, Any]]:
    for number, gpu_set in enumerate(gpu_sets):
        yield _build_device_request(f"gpu{number}", GPU_CLASS, count=len(gpu_set))


def _build_pcie_constraints(plan: Plan, gpu_sets: tuple[tuple[int, ...], ...]) -> Iterator[dict[str, Any]]:
    """Yield a constraint for each set of GPUs: the GPUs and their rails must have the same PCIe root."""
    ports = group_nodes(plan)[0].ports
    for number, gpu_set in enumerate(gpu_sets):
        rails = [f"rail{port.rail}" for port in ports if port.gpus == gpu_set]
        yield {"requests": [*rails, f"gpu{number}"], "matchAttribute": PCIE_ROOT}
