"""What the lab plays of other projects' stacks: names, wrappers, charts of a folder. It needs no program of theirs."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from trackbed_lab.cli.kubernetes_stack import locate_charts
from trackbed_lab.cli.vm_run import load_plan
from trackbed_lab.kubernetes.images import ImageError
from trackbed_lab.kubernetes.job import PodInspection
from trackbed_lab.kubernetes.stacks import STACKS, soft_rdma, spiderpool, whereabouts
from trackbed_lab.kubernetes.stacks.lab_stack import ImageParts, LabStack, StackTools
from trackbed_lab.kubernetes.stacks.programs_folder import ProgramsFolder
from trackbed_lab.kubernetes.stacks.run import WITHOUT_NAMES, find_strays, list_skipped, render_helm
from trackbed_lab.vm.machine import LabShape
from trackbed_lab.vm.run import derive_shape

from trackbed.cluster.stacks import load_stack
from trackbed.cluster.stacks.install.steps import list_release_names
from trackbed.fabric.model.ranges import V4, format_address

pytestmark = pytest.mark.needs("processes")

STACK_NAMES = sorted(STACKS)


def run_script(text: str, *arguments: str, path: Path, request: str = "") -> str:
    """Run a shell script with programs of a folder before all others; return its output."""
    environment = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["/bin/sh", "-c", text, "script", *arguments],
        input=request,
        env=environment,
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    return done.stdout


def write_program(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def write_wrapper(folder: Path, first_namespace: str = "mnt:[1]") -> Path:
    """Write the wrapper of plugin `sriov` with all that it writes and reads of a node below the folder.

    It runs in mount namespace mnt:[1]; `first_namespace` is that of the node's first process.
    """
    text = soft_rdma.WRAPPER.partition("\n")[2]
    for process, namespace in (("self", "mnt:[1]"), ("1", first_namespace)):
        (folder / f"proc/{process}/ns").mkdir(parents=True)
        (folder / f"proc/{process}/ns/mnt").symlink_to(namespace)
        text = text.replace(f"/proc/{process}/", f"{folder}/proc/{process}/")
    for path in ("/run/soft-roce", "/run/soft-rdma-names", "/var/log/soft-rdma.log", "/sys"):
        text = text.replace(path, f"{folder}{path}")
    for path in ("run", "var/log", "sys/class/infiniband"):
        (folder / path).mkdir(parents=True)
    return write_program(folder, "sriov", text)


@pytest.mark.parametrize(
    ("pci", "name"),
    [("0000:11:00.0", "rocep17s0"), ("0000:11:10.2", "rocep17s16f2"), ("0000:81:10.0", "rocep129s16f0")],
)
def test_an_rdma_device_is_named_by_its_pci_address(pci: str, name: str, tmp_path: Path) -> None:
    assert run_script(f'{soft_rdma.NAME}name "$1"', pci, path=tmp_path) == f"{name}\n"


def test_a_wrapped_plugin_gets_its_request_and_the_device_follows_the_interface(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = tmp_path / "calls"
    plugin = write_wrapper(tmp_path)
    write_program(tmp_path, "lab/sriov", 'read -r request; echo "answer to $request"')
    write_program(tmp_path, "nsenter", f'echo "$@" >>{calls}')
    for name, value in (("CNI_COMMAND", "ADD"), ("CNI_NETNS", "/run/netns/pod"), ("CNI_IFNAME", "rail0")):
        monkeypatch.setenv(name, value)
    request = '{"type": "sriov", "deviceID": "0000:11:10.2"}\n'
    answer = run_script(f"exec {plugin}", path=tmp_path, request=request)
    assert answer == f"answer to {request}"
    assert calls.read_text() == "--net=/run/netns/pod rdma link add rocep17s16f2 type rxe netdev rail0\n"


def test_a_wrapped_plugin_in_a_container_runs_where_the_nodes_first_process_does(tmp_path: Path) -> None:
    plugin = write_wrapper(tmp_path, "mnt:[2]")
    write_program(tmp_path, "nsenter", 'echo "$@"')
    assert run_script(f"exec {plugin}", path=tmp_path) == f"-t 1 -m -- {plugin}\n"


def test_a_device_that_was_renamed_is_found_by_the_mac_of_its_interface(tmp_path: Path) -> None:
    for path, text in (
        ("bus/pci/devices/0000:11:00.0/net/rail0/address", "02:54:42:00:01:00"),
        ("class/infiniband/rail1/node_guid", "0054:42ff:fe00:0200"),
        ("class/infiniband/rail0/node_guid", "0054:42ff:fe00:0100"),
    ):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(f"{text}\n")
    script = soft_rdma.NAME.replace("/sys/", f"{tmp_path}/")
    assert run_script(f'{script}name "$1"', "0000:11:00.0", path=tmp_path) == "rail0\n"


def test_a_wrapped_plugin_that_fails_keeps_its_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = write_wrapper(tmp_path)
    write_program(tmp_path, "lab/sriov", "exit 7")
    monkeypatch.setenv("CNI_COMMAND", "ADD")
    with pytest.raises(subprocess.CalledProcessError) as failure:
        run_script(f"exec {plugin}", path=tmp_path, request='{"deviceID": "0000:11:10.2"}')
    assert failure.value.returncode == 7


def test_helm_takes_charts_of_the_folder(tmp_path: Path) -> None:
    helm = write_program(tmp_path, "real-helm", 'echo "$@"')
    charts = {"network-operator": tmp_path / "charts dir/network-operator"}
    tools = StackTools(helm, tmp_path / "kubectl", charts, tmp_path / "kubeconfig", tmp_path)
    words = (
        "upgrade --install network-operator network-operator --namespace n --values - --timeout 15m --version 26.4.1"
    )
    words += " --repo https://charts.example.com --kubeconfig k"
    script = render_helm(replace(STACKS["network-operator-sriov"], after_chart="true"), tools)
    assert run_script(script, *words.split(), path=tmp_path) == (
        f"upgrade --install network-operator {charts['network-operator']} --namespace n --values - --timeout 15m "
        "--kubeconfig k --no-hooks\n"
    )


def test_helm_gets_the_options_of_its_chart_alone(tmp_path: Path) -> None:
    helm = write_program(tmp_path, "real-helm", 'echo "$@"')
    charts = {"one": Path("1"), "two": Path("2")}
    tools = StackTools(helm, tmp_path / "kubectl", charts, tmp_path / "kubeconfig", tmp_path)
    stack = replace(STACKS["sriov-operator"], after_chart="true", options={"one": ["--set", "images.operator=a:b"]})
    script = render_helm(stack, tools)
    for chart, expected in (("one", "r 1 --no-hooks --set images.operator=a:b"), ("two", "r 2 --no-hooks")):
        output = run_script(script, "upgrade", "--install", "r", chart, path=tmp_path)
        assert output == f"upgrade --install {expected}\n"


def test_helm_runs_the_hooks_of_a_stack_whose_images_the_lab_has(tmp_path: Path) -> None:
    helm = write_program(tmp_path, "real-helm", 'echo "$@"')
    tools = StackTools(helm, tmp_path / "kubectl", {"spiderpool": Path("1")}, tmp_path / "kubeconfig", tmp_path)
    script = render_helm(replace(STACKS["spiderpool"], after_chart="true"), tools)
    assert run_script(script, "upgrade", "--install", "r", "spiderpool", path=tmp_path) == "upgrade --install r 1\n"


def test_an_ipv4_address_in_brackets_reaches_multus_without_them(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "multus.kubeconfig"
    kubeconfig.write_text("server: https://[10.0.0.1]:443\nserver: https://[fd00::1]:443\n")
    real = write_program(tmp_path, "multus-4.3.0", f'cat {kubeconfig}; echo "$@"')
    script = spiderpool.MULTUS.replace("/etc/cni/net.d/multus.d/multus.kubeconfig", str(kubeconfig))
    script = script.replace("/opt/cni/bin/multus-4.3.0", str(real))
    output = run_script(script, "--version", path=tmp_path)
    assert output == "server: https://10.0.0.1:443\nserver: https://[fd00::1]:443\n--version\n"


def test_only_the_names_of_vfs_are_left_out_of_a_listing(tmp_path: Path) -> None:
    listing = "rail0 virtfn1 dev29 0e:7d:00:00:00:01 9000 0x1002\nrail0 02:54:42:00:00:00 9000 0x1003\nrocep17s16f0\n"
    assert run_script(WITHOUT_NAMES, path=tmp_path, request=listing) == listing.replace(" dev29", "")


@pytest.mark.parametrize("name", STACK_NAMES)
def test_the_example_of_a_stack_fits_the_stack_and_the_servers(name: str) -> None:
    _, plan = load_plan(None, "trackbed_lab.kubernetes.stacks", STACKS[name].fabric)
    assert list(load_stack(name).refusals(plan)) == []
    shape = derive_shape(plan, LabShape())
    assert (shape.servers, shape.rails, len(shape.gateways)) == (2, 8, 8)


@pytest.mark.parametrize("name", STACK_NAMES)
def test_a_program_that_the_folder_lacks_is_named(name: str, tmp_path: Path) -> None:
    _, plan = load_plan(None, "trackbed_lab.kubernetes.stacks", STACKS[name].fabric)
    parts = ImageParts(plan, ProgramsFolder(tmp_path), tmp_path)
    with pytest.raises(ImageError, match=rf"{tmp_path}/(bin has no program \w+|charts/\S+ holds no files)"):
        list(STACKS[name].images(parts))


@pytest.mark.parametrize(("ipam", "count"), [("nv-ipam", 0), ("whereabouts", 1)])
def test_whereabouts_is_there_where_the_fabric_chooses_it(ipam: str, count: int, tmp_path: Path) -> None:
    for program in ("bin/whereabouts", "usr/bin/busybox"):
        (tmp_path / program).parent.mkdir(parents=True)
        (tmp_path / program).write_text("")
        (tmp_path / program).chmod(0o755)
    _, plan = load_plan(None, "trackbed_lab.kubernetes.stacks", STACKS["network-operator-sriov"].fabric)
    chosen = plan._replace(kubernetes=plan.kubernetes._replace(ipam=ipam))
    images = list(whereabouts.iter_images(ImageParts(chosen, ProgramsFolder(tmp_path), tmp_path)))
    assert [image.name for image in images] == ["ghcr.io/k8snetworkplumbingwg/whereabouts:v0.9.4"] * count


def test_the_outermost_chart_is_taken(tmp_path: Path) -> None:
    for folder in ("deployment/operator", "deployment/operator/charts/inner"):
        (tmp_path / "charts/operator-1" / folder).mkdir(parents=True)
        (tmp_path / "charts/operator-1" / folder / "Chart.yaml").write_text("")
    programs = ProgramsFolder(tmp_path)
    assert programs.locate_chart("operator-1") == tmp_path / "charts/operator-1/deployment/operator"
    with pytest.raises(ImageError, match="charts/none holds no chart"):
        programs.locate_chart("none")


def test_a_chart_that_the_folder_lacks_is_wrong_use(tmp_path: Path) -> None:
    stack = STACKS["network-operator-sriov"]
    with pytest.raises(SystemExit) as end:
        locate_charts(stack, ProgramsFolder(tmp_path))
    assert end.value.code == 2


def inspect_rails(addresses: dict[int, str]) -> PodInspection:
    return PodInspection("".join(f"address rail{rail} {address}\n" for rail, address in addresses.items()))


def test_an_address_that_is_a_ports_or_of_no_pod_is_a_stray() -> None:
    _, plan = load_plan(None, "trackbed_lab.kubernetes.stacks", "sriov.yaml")
    node, peer = plan.nodes[:2]
    blocks = {port.rail: port.v4 for port in peer.ports if port.v4}
    addresses = {rail: format_address(V4, block.pods_first) for rail, block in blocks.items()}
    assert list(find_strays(plan, node, inspect_rails(addresses))) == []
    addresses[0], addresses[1] = (format_address(V4, number) for number in (blocks[0].address, blocks[2].pods_first))
    del addresses[3]
    strays = list(find_strays(plan, node, inspect_rails(addresses)))
    assert [stray.partition(":")[0] for stray in strays] == [f"node-0 rail {rail}" for rail in (0, 1, 3)]


@pytest.mark.parametrize("lab_stack", STACKS.values(), ids=STACKS)
def test_only_charts_that_a_stack_installs_are_skipped(lab_stack: LabStack) -> None:
    """`apply cluster` refuses to skip another: node-feature-discovery is the site's with three stacks."""
    assert set(list_skipped(lab_stack)) <= set(list_release_names())
    assert set(list_skipped(lab_stack)) >= set(lab_stack.skipped_charts)


def test_a_port_that_moves_into_a_pod_brings_its_own_addresses() -> None:
    _, plan = load_plan(None, "trackbed_lab.kubernetes.stacks", "dranet.yaml")
    node = plan.nodes[0]
    addresses = {port.rail: format_address(V4, port.v4.address) for port in node.ports if port.v4}
    assert len(addresses) == 8
    assert list(find_strays(plan, node, inspect_rails(addresses), moved=True)) == []
    addresses[5] = addresses[4]
    strays = list(find_strays(plan, node, inspect_rails(addresses), moved=True))
    assert [stray.partition(":")[0] for stray in strays] == ["node-0 rail 5"]
