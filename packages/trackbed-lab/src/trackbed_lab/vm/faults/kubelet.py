"""Faults of the step kubelet, injected in an emulated server.

There is no kubelet; its files stand in for it. With only the configuration below doctor finds nothing. Swap, states and
policies are checked as on a host whose kubelet does not start.
"""

from trackbed_lab.vm.faults.fault import FaultyServer, VmFault

_FOLDER = "/var/lib/kubelet"
_CONFIG = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def _write_config(server: FaultyServer, *lines: str) -> None:
    server.write_file(f"{_FOLDER}/config.yaml", _CONFIG + "".join(f"{line}\n" for line in lines))


def _write_cpu_state(server: FaultyServer) -> None:
    _write_config(server, "cpuManagerPolicy: static", 'reservedSystemCPUs: "0"')
    server.write_file(f"{_FOLDER}/cpu_manager_state", '{"policyName":"none","defaultCpuSet":"","checksum":1}')


def _write_memory_state(server: FaultyServer) -> None:
    _write_config(server, "memoryManagerPolicy: Static")
    server.write_file(f"{_FOLDER}/memory_manager_state", '{"policyName":"None","machineState":{},"checksum":1}')


def _omit_reservation(server: FaultyServer) -> None:
    _write_config(server, "cpuManagerPolicy: static")


def _set_node_ip(server: FaultyServer) -> None:
    """Make the port's address the node's."""
    _write_config(server)
    address = str(server.port.addresses[0]).partition("/")[0]
    server.write_file(f"{_FOLDER}/kubeadm-flags.env", f'KUBELET_KUBEADM_ARGS="--node-ip={address}"\n')


FAULTS: tuple[VmFault, ...] = (
    VmFault("kubelet-static-policy-without-reservation", _omit_reservation),
    VmFault("kubelet-cpu-manager-state-conflict", _write_cpu_state),
    VmFault("kubelet-memory-manager-state-conflict", _write_memory_state),
    VmFault("kubelet-node-address-on-rail", _set_node_ip),
)
