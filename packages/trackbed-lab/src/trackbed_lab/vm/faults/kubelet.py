"""Faults of the step kubelet, made in an emulated server.

It has no kubelet: the files that kubelet would have stand for it. With the configuration below alone the server is
sound; swap, states and policies are looked at as on a host whose kubelet does not start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed_lab.vm.faults.fault import VmFault

if TYPE_CHECKING:
    from trackbed_lab.vm.faults.fault import FaultyServer

_FOLDER = "/var/lib/kubelet"
_CONFIG = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def _configured(server: FaultyServer, *lines: str) -> None:
    server.write(f"{_FOLDER}/config.yaml", _CONFIG + "".join(f"{line}\n" for line in lines))


def _cpu_state(server: FaultyServer) -> None:
    _configured(server, "cpuManagerPolicy: static", 'reservedSystemCPUs: "0"')
    server.write(f"{_FOLDER}/cpu_manager_state", '{"policyName":"none","defaultCpuSet":"","checksum":1}')


def _memory_state(server: FaultyServer) -> None:
    _configured(server, "memoryManagerPolicy: Static")
    server.write(f"{_FOLDER}/memory_manager_state", '{"policyName":"None","machineState":{},"checksum":1}')


def _unreserved(server: FaultyServer) -> None:
    _configured(server, "cpuManagerPolicy: static")


def _on_rail(server: FaultyServer) -> None:
    _configured(server)
    own = str(server.port.addressed[0]).partition("/")[0]
    server.write(f"{_FOLDER}/kubeadm-flags.env", f'KUBELET_KUBEADM_ARGS="--node-ip={own}"\n')


FAULTS: tuple[VmFault, ...] = (
    VmFault("kubelet-static-policy-without-reservation", _unreserved),
    VmFault("kubelet-cpu-manager-state-conflict", _cpu_state),
    VmFault("kubelet-memory-manager-state-conflict", _memory_state),
    VmFault("kubelet-node-address-on-rail", _on_rail),
)
