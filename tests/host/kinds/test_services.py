import os
from pathlib import Path

import pytest

from tests.host.places import Host
from tests.host.steps.fabrics import P2P, node_plan
from tests.host.trees import Scripted, everything_below, grow, nic, with_programs
from trackbed.fabric.plan.node_document import decode_node
from trackbed.host.change import Change
from trackbed.host.kinds import file
from trackbed.host.kinds.cpu_state import STATE
from trackbed.host.setting import Setting
from trackbed.host.steps import iter_settings, kubelet, qos
from trackbed.host.transaction.apply import apply, undo
from trackbed.host.transaction.compare import compare

PORTS = '[{pci: "0000:18:00.0", netdev: eth0}, {netdev: eth1}]'
KUBELET = "  kubelet: {topologyManager: single-numa-node, reservedCpus: 0-3}\n"
CONFIG = {kubelet.CONFIG: "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"}


def wanted(step: str, spec: str = "") -> tuple[Setting, ...]:
    return iter_settings(node_plan(P2P, PORTS, spec=spec + "  names: {netdev: keep}\n"), {step})


def named(place: Host, step: str, spec: str = "") -> dict[str, Change]:
    return {change.subject: change for change in compare(place.machine, wanted(step, spec)).changes}


def process(root: Path, number: int, name: str, limit: str = "unlimited", arguments: str = "") -> None:
    grow(
        root / f"proc/{number}",
        {
            "comm": f"{name}\n",
            "limits": f"Limit                     Soft Limit           Hard Limit           Units     \n"
            f"Max locked memory         {limit:20} {limit:20} bytes     \n",
            "cmdline": arguments.replace(" ", "\0") + "\0",
            "stat": f"{number} ({name}) S " + " ".join(["0"] * 18) + " 500 0",
            "cgroup": f"0::/system.slice/{name}.service\n",
        },
    )


def runtime_host(place: Host, limit: str) -> tuple[Host, Scripted]:
    root = place.machine.root
    grow(root, {"/usr/lib/systemd/system/containerd.service": ""})
    (root / "run/systemd/system").mkdir(parents=True)
    process(root, 812, "containerd", limit)
    return with_programs(place, systemctl=lambda _: None)


def test_containers_get_the_limit_with_the_runtimes_next_start(place: Host) -> None:
    host, runner = runtime_host(place, "8388608")
    before = everything_below(host.machine.root)
    (first,) = (change for change in compare(host.machine, wanted("runtime")).changes if "memory" in change.subject)
    assert not first.reboot  # nothing would bring it yet
    (left,) = apply(host.machine, wanted("runtime"), host.records).remaining.changes
    assert left.reboot
    assert "LimitMEMLOCK=infinity" in host.machine.locate(file.RUNTIME_DROP_INS["containerd"]).read_text()
    assert decode_node(host.machine.locate(file.NODE_PLAN).read_bytes()).ports
    assert runner.ran == ["systemctl daemon-reload"]
    assert (left.subject, left.have) == ("locked memory of containerd", "8388608 bytes")
    assert left.advice.startswith("systemctl restart containerd (drain the node first), or reboot this host: ")
    process(host.machine.root, 812, "containerd")
    assert compare(host.machine, wanted("runtime")).changes == ()
    process(host.machine.root, 812, "containerd", "8388608")
    assert undo(host.machine, host.records) == ()
    assert everything_below(host.machine.root) == before
    assert runner.ran == ["systemctl daemon-reload"] * 2


@pytest.mark.support("runtime", "CRI-O", "modelled", "locked memory: a tree with its service and process")
@pytest.mark.support("runtime", "RKE2", "modelled", "locked memory: a tree with its service and process")
@pytest.mark.support("runtime", "k3s", "modelled", "locked memory: a tree with its service and process")
@pytest.mark.parametrize(
    ("unit", "name"),
    [
        ("crio", "crio"),
        ("rke2-agent", "containerd"),
        ("rke2-server", "containerd"),
        ("k3s", "containerd"),
        ("k3s-agent", "containerd"),
    ],
)
def test_the_service_of_every_runtime_gets_the_limit(place: Host, unit: str, name: str) -> None:
    root = place.machine.root
    grow(root, {f"/usr/local/lib/systemd/system/{unit}.service": ""})
    (root / "run/systemd/system").mkdir(parents=True)
    process(root, 812, name, "8388608")
    grow(root / "proc/812", {"cgroup": f"0::/system.slice/{unit}.service\n"})
    host, runner = with_programs(place, systemctl=lambda _: None)
    before = everything_below(root)
    (left,) = apply(host.machine, wanted("runtime"), host.records).remaining.changes
    drop_ins = [path for path in file.RUNTIME_DROP_INS.values() if host.machine.locate(path).exists()]
    assert drop_ins == [f"/etc/systemd/system/{unit}.service.d/90-trackbed.conf"]
    assert left.reboot
    assert left.advice.startswith(f"systemctl restart {unit} (drain the node first), or reboot this host: ")
    assert runner.ran == ["systemctl daemon-reload"]
    assert undo(host.machine, host.records) == ()
    assert everything_below(root) == before


def test_no_boot_brings_the_limit_to_a_containerd_of_another_unit(place: Host) -> None:
    host, _ = runtime_host(place, "8388608")
    process(host.machine.root, 813, "containerd", "8388608")
    grow(host.machine.root / "proc/813", {"cgroup": "0::/system.slice/my-own.service\n"})
    (left,) = apply(host.machine, wanted("runtime"), host.records).remaining.changes
    assert not left.reboot
    assert left.advice.startswith("systemctl restart containerd (drain the node first): ")


def test_without_a_runtime_the_plan_is_written_all_the_same(place: Host) -> None:
    comparison = compare(place.machine, wanted("runtime"))
    assert [change.subject for change in comparison.changes] == [f"file {file.NODE_PLAN}"]
    assert {skipped.reason for skipped in comparison.skipped} == {
        "no such container runtime is installed here",
        "no containerd runs here",
        "no crio runs here",
    }


def test_who_logs_in_may_lock_memory_where_pam_has_limits(place: Host) -> None:
    (place.machine.root / "etc/security/limits.d").mkdir(parents=True)
    apply(place.machine, wanted("limits"), place.records)
    assert "* hard memlock unlimited\n" in place.machine.locate(file.MEMLOCK).read_text()
    assert f"file {file.MEMLOCK}" not in named(place, "limits")


def test_a_file_of_ours_that_somebody_edited_is_shown_and_written_anew(place: Host) -> None:
    grow(place.machine.root, {file.MEMLOCK: "* soft memlock 64\n"})
    change = named(place, "limits")[f"file {file.MEMLOCK}"]
    assert (change.have, change.want, change.action) == ("other content", "4 lines", "change")
    apply(place.machine, wanted("limits"), place.records)
    assert f"file {file.MEMLOCK}" not in named(place, "limits")
    assert undo(place.machine, place.records) == ()
    assert place.machine.locate(file.MEMLOCK).read_text() == "* soft memlock 64\n"


@pytest.mark.parametrize(
    ("running", "do", "advice"),
    [
        pytest.param(True, False, "drain this node, systemctl stop kubelet, apply again", id="kubelet runs"),
        pytest.param(False, True, "", id="kubelet is stopped"),
    ],
)
def test_the_cpu_managers_state_goes_only_while_kubelet_is_stopped(
    place: Host, advice: str, *, running: bool, do: bool
) -> None:
    state = '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
    grow(place.machine.root, {STATE: state, **CONFIG})
    if running:
        process(place.machine.root, 900, "kubelet", arguments=f"/usr/bin/kubelet --config-dir={kubelet.FOLDER}")
    change = named(place, "kubelet", KUBELET)["state of kubelet's CPU manager"]
    assert (change.have, change.want, bool(change.operations)) == ("none", "static", do)
    assert advice in change.advice
    apply(place.machine, wanted("kubelet", KUBELET), place.records)
    assert place.machine.locate(STATE).exists() is not do
    undo(place.machine, place.records)
    assert place.machine.locate(STATE).read_text() == state


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param('{"policyName":"static"}', "", id="the planned policy"),
        pytest.param("torn", f"{STATE} cannot be read", id="torn"),
    ],
)
def test_a_state_that_needs_no_change_is_left(place: Host, text: str, reason: str) -> None:
    grow(place.machine.root, {STATE: text, **CONFIG})
    comparison = compare(place.machine, wanted("kubelet", KUBELET))
    assert "state of kubelet's CPU manager" not in [change.subject for change in comparison.changes]
    assert reason in {"", *(skipped.reason for skipped in comparison.skipped)}


@pytest.mark.support("runtime", "kubeadm", "modelled", "kubelet's drop-in: its configuration file and arguments")
@pytest.mark.parametrize(
    ("arguments", "ticks_later", "have"),
    [
        pytest.param("/usr/bin/kubelet --config=/x", 0, "not read", id="not told of the folder"),
        pytest.param(f"kubelet --config-dir={kubelet.FOLDER}", 0, "older than its drop-in", id="older than the file"),
        pytest.param(f"kubelet --config-dir={kubelet.FOLDER}", 1, "", id="younger"),
        pytest.param(f"kubelet --config-dir {kubelet.FOLDER}", 1, "", id="the folder as a word of its own"),
    ],
)
def test_whether_kubelet_has_read_its_drop_in(place: Host, arguments: str, ticks_later: int, have: str) -> None:
    root = place.machine.root
    grow(root, CONFIG)
    process(root, 900, "kubelet", arguments=arguments)
    apply(place.machine, wanted("kubelet", KUBELET), place.records)
    text = place.machine.locate(file.KUBELET_DROP_IN).read_text()
    assert 'topologyManagerPolicy: single-numa-node\ncpuManagerPolicy: static\nreservedSystemCPUs: "0-3"\n' in text
    written = place.machine.locate(file.KUBELET_DROP_IN).stat().st_mtime
    began = int(written) + (100 if ticks_later else -100) - 500 // os.sysconf("SC_CLK_TCK")
    grow(root, {"/proc/stat": f"cpu 1 2\nbtime {began}\n"})
    change = named(place, "kubelet", KUBELET).get("kubelet's drop-ins")
    assert (change.have if change else "") == have


@pytest.mark.support("runtime", "RKE2", "modelled", "kubelet's drop-in: a link into its folder, as advised")
@pytest.mark.support("runtime", "k3s", "modelled", "kubelet's drop-in: a link into its folder, as advised")
@pytest.mark.parametrize(
    ("name", "arguments", "folder"),
    [
        ("kubelet", "kubelet --config-dir=/var/lib/rancher/rke2/agent/etc/kubelet.conf.d", "rke2"),
        ("k3s-server", "k3s server", "k3s"),
        ("k3s-agent", "k3s agent", "k3s"),
    ],
)
def test_rke2_and_k3s_read_the_drop_in_by_a_link_in_their_own_folder(
    place: Host, name: str, arguments: str, folder: str
) -> None:
    reads = place.machine.root / f"var/lib/rancher/{folder}/agent/etc/kubelet.conf.d"
    reads.mkdir(parents=True)
    process(place.machine.root, 900, name, arguments=arguments)
    apply(place.machine, wanted("kubelet", KUBELET), place.records)
    (left,) = named(place, "kubelet", KUBELET).values()
    link = f"ln -s {file.KUBELET_DROP_IN} /{reads.relative_to(place.machine.root)}/"
    assert (left.have, link in left.advice) == ("not read", True)
    (reads / "90-trackbed.conf").write_text(place.machine.locate(file.KUBELET_DROP_IN).read_text())
    assert named(place, "kubelet", KUBELET) == {}


@pytest.mark.support("runtime", "OpenShift", "refused", "kubelet's drop-in: write a KubeletConfig")
def test_the_kubelet_of_openshift_is_left_to_its_operator(place: Host) -> None:
    (place.machine.root / "etc/machine-config-daemon").mkdir(parents=True)
    process(place.machine.root, 900, "kubelet", arguments="kubelet --config=/etc/kubernetes/kubelet.conf")
    change = named(place, "kubelet", KUBELET)["kubelet's drop-ins"]
    assert (change.operations, change.advice.partition(":")[0]) == ((), "OpenShift configures kubelet")


def test_the_fabric_that_says_nothing_of_kubelet_leaves_it_alone(place: Host) -> None:
    assert wanted("kubelet") == ()
    assert named(place, "kubelet") == {}


def mlx5(place: Host) -> dict[str, str]:
    """A port of DOCA-OFED's driver: every QoS file, each with the driver's default."""
    folder = nic(place.machine.root, "eth0", "0000:18:00.0", rdma="mlx5_0")
    base = "/sys/class/net/eth0"
    files = {
        f"{base}/qos/trust": "pcp\n",
        f"{base}/ecn/roce_np/enable/3": "0\n",
        f"{base}/ecn/roce_rp/enable/3": "1\n",
        f"{base}/ecn/roce_np/cnp_dscp": "0\n",
        f"{base}/ecn/roce_np/cnp_802p_prio": "6\n",
    }
    grow(place.machine.root, files)
    return {**files, str(folder / "infiniband/mlx5_0/tc/1/traffic_class"): ""}


def test_the_traffic_class_is_set_in_the_drivers_files_and_undone(place: Host) -> None:
    mlx5(place)
    before = everything_below(place.machine.root)
    result = compare(place.machine, wanted("qos"))
    assert [(row.subject.removeprefix("/sys/class/net/eth0/"), row.have, row.want) for row in result.changes[:4]] == [
        ("qos/trust", "pcp", "dscp"),
        ("ecn/roce_np/enable/3", "0", "1"),
        ("ecn/roce_np/cnp_dscp", "0", "48"),
        ("device/infiniband/mlx5_0/tc/1/traffic_class", "0", "106"),
    ]
    apply(place.machine, wanted("qos"), place.records)
    assert place.machine.locate("/sys/class/net/eth0/qos/trust").read_text() == "dscp"
    assert compare(place.machine, wanted("qos")).changes == ()
    assert undo(place.machine, place.records) == ()
    after = everything_below(place.machine.root)
    assert {path: text.strip().rpartition("=")[2] for path, (text, _) in after.items()} == {
        path: text.strip().rpartition("=")[2] for path, (text, _) in before.items()
    }


def test_a_driver_without_qos_files_is_skipped_in_one_line(place: Host) -> None:
    result = compare(place.machine, wanted("qos"))
    assert result.changes == ()
    assert [skipped.reason for skipped in result.skipped] == [
        "this port's driver has no such file",
        "this port's driver has no DCB",
        "this port has no RDMA device",
        "no port has RDMA or QoS files",
    ]
    assert result.skipped[0].subject.endswith("and 11 more of step qos")


def test_the_traffic_class_carries_ecn_only_where_ecn_is_planned() -> None:
    with_ecn, without = (node_plan(P2P, PORTS, spec=f"  qos: {{ecn: {ecn}}}\n") for ecn in ("true", "false"))
    assert (qos.compute_traffic_class(with_ecn), qos.compute_traffic_class(without)) == (106, 104)
