"""install.sh, run with a helm and a kubectl that write down how they were called."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.cluster.stacks.bundles import HOSTDEVICE, LABEL, files, site
from tests.cluster.stacks.fabric_of import FLAT, SHARED, fabric
from tests.cluster.stacks.sites import alike
from trackbed.cluster.stacks import load_stack
from trackbed.cluster.stacks.releases import load_catalogue
from trackbed.cluster.stacks.stack import Chart

pytestmark = pytest.mark.needs("processes")

STUB = """\
#!/bin/sh
echo "$(basename "$0") $*" >> "$LOG"
case "$(basename "$0") $*" in
  $FAIL) echo again >> "$LOG.failed"; [ "$(wc -l < "$LOG.failed")" -gt "$TIMES" ] || exit 1 ;;
  "kubectl get nodes --no-headers"*) echo "8   <none>"; echo "0   8"
    i=0; while [ $i -lt "$NODES" ]; do echo "8   10"; i=$((i + 1)); done ;;
  "kubectl get OperatorGroup"*) printf '%b' "$OPERATORS" ;;
  "kubectl get nodes"*) i=0; while [ $i -lt "$NODES" ]; do echo "node/gpu-$i"; i=$((i + 1)); done ;;
esac
"""


@dataclass(frozen=True)
class Ran:
    """One run of install.sh: exit status, its output, and the calls it made."""

    status: int
    output: str
    wrong: str
    calls: list[str]


Runner = Callable[..., Ran]


@pytest.fixture
def run(tmp_path: Path) -> Runner:
    """Runs a bundle's install.sh from another folder; `fail` is a shell pattern of calls that fail, so many times."""
    tools, log = tmp_path / "bin", tmp_path / "log"
    tools.mkdir()
    for name in ("helm", "kubectl"):
        (tools / name).write_text(STUB)
        (tools / name).chmod(0o755)
    (tools / "sleep").write_text("#!/bin/sh\nexec /bin/sleep 0.05\n")
    (tools / "sleep").chmod(0o755)

    def go(contents: dict[str, str], *, nodes: int = 2, fail: str = "none", times: int = 1000, **env: str) -> Ran:
        for name, text in contents.items():
            place = tmp_path / "bundle" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        log.write_text("")
        stub = {"LOG": str(log), "NODES": str(nodes), "FAIL": fail, "TIMES": str(times), "OPERATORS": ""}
        environment = {"PATH": f"{tools}:{os.environ['PATH']}", **stub, **env}
        script = str(tmp_path / "bundle" / "install.sh")
        done = subprocess.run(
            ["bash", script], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        return Ran(done.returncode, done.stdout, done.stderr, log.read_text().splitlines())

    return go


APPLY = "kubectl apply --server-side --field-manager=trackbed-network-operator-hostdevice -f"


def helm(name: str, namespace: str) -> str:
    """How helm is called for one of NVIDIA's operators."""
    version = load_catalogue()[f"nvidia-{name}"].releases[-1].chart
    return (
        f"helm upgrade --install {name} {name} --repo https://helm.ngc.nvidia.com/nvidia --version {version} "
        f"--namespace {namespace} --create-namespace --values values-nvidia-{name}.yaml --timeout 15m"
    )


def test_the_script_installs_applies_and_waits_in_order(run: Runner) -> None:
    operator = "network-operator"
    ran = run(files(HOSTDEVICE, site(namespace="training")))
    assert (ran.status, ran.wrong) == (0, "")
    assert ran.calls == [
        f"{APPLY} 00-namespace.yaml",
        helm(operator, f"nvidia-{operator}"),
        f"kubectl wait --for=condition=Available --timeout=600s deployment/{operator} --namespace nvidia-{operator}",
        helm("gpu-operator", "gpu-operator"),
        "kubectl wait --for=condition=Available --timeout=600s deployment/gpu-operator --namespace gpu-operator",
        f"{APPLY} 10-nfd.yaml",
        f"kubectl get nodes -l {LABEL} -o name",
        f"{APPLY} 20-operator.yaml",
        "kubectl wait --for=jsonpath={.status.state}=ready --timeout=1800s nicclusterpolicy/nic-cluster-policy",
        f"{APPLY} 30-cni-plugins.yaml",
        f"kubectl rollout status --timeout=600s daemonset/rail-cni-plugins --namespace nvidia-{operator}",
        f"{APPLY} 40-pools.yaml",
        *(
            "kubectl wait --for=jsonpath={.status.allocations} --timeout=600s "
            f"cidrpools.nv-ipam.nvidia.com/rail{rail} --namespace nvidia-network-operator"
            for rail in range(2)
        ),
        f"{APPLY} 50-networks.yaml",
        *(
            rf"kubectl wait --for=jsonpath={{.status.allocatable.nvidia\.com/rail{rail}}}=1 --timeout=600s "
            f"nodes --selector={LABEL}"
            for rail in range(2)
        ),
    ]
    assert (
        "== waiting up to 1800 s for nicclusterpolicy/nic-cluster-policy: jsonpath={.status.state}=ready" in ran.output
    )


def test_a_second_run_says_the_same_to_the_cluster(run: Runner) -> None:
    contents = files(HOSTDEVICE, site())
    assert run(contents).calls == run(contents).calls


def test_the_first_failure_stops_everything(run: Runner) -> None:
    ran = run(files(HOSTDEVICE, site()), fail="*apply*20-operator.yaml")
    assert ran.status == 1
    assert ran.calls[-1].endswith("-f 20-operator.yaml")


def test_what_does_not_get_ready_ends_the_script_with_what_to_look_at(run: Runner) -> None:
    ran = run(files(HOSTDEVICE, site()), fail="*nicclusterpolicy*", WAIT_SECONDS="1")
    assert ran.status == 1
    assert ran.wrong.splitlines()[-1] == (
        "install.sh: nicclusterpolicy/nic-cluster-policy did not get to jsonpath={.status.state}=ready in 1 s; "
        "see kubectl describe, then run this again"
    )


def test_what_does_not_exist_yet_is_waited_for(run: Runner) -> None:
    ran = run(files(HOSTDEVICE, site()), fail="*nicclusterpolicy*", times=2)
    assert ran.status == 0
    assert sum("nicclusterpolicy" in call for call in ran.calls) == 3
    assert any(call.endswith("-f 50-networks.yaml") for call in ran.calls)


def test_without_any_labelled_node_the_script_stops_before_the_stack(run: Runner) -> None:
    ran = run(files(HOSTDEVICE, site()), nodes=0, WAIT_SECONDS="1")
    assert ran.status == 1
    assert f"no node has label {LABEL}" in ran.wrong
    assert not any("20-operator" in call for call in ran.calls)


def test_with_some_nodes_labelled_it_goes_on_and_says_how_many(run: Runner) -> None:
    ran = run(files(HOSTDEVICE, site(4)), nodes=3, WAIT_SECONDS="1")
    assert (ran.status, ran.wrong) == (
        0,
        f"install.sh: 3 of 4 nodes have label {LABEL}; the others get it once they are up\n",
    )


def test_an_agent_is_waited_for_on_all_nodes_and_all_rails_by_one_question(run: Runner) -> None:
    ran = run(files(load_stack("native"), fabric(2, 300, addressing=FLAT)), nodes=300)
    assert (ran.status, ran.wrong.partition("[agent-image]\n")[2]) == (0, "")
    columns = ",".join(rf":.status.allocatable.trackbed\.dev/rail{rail}" for rail in range(2))
    assert ran.calls[-2:] == [
        "kubectl rollout status --timeout=1800s daemonset/trackbed-agent --namespace trackbed-system",
        f"kubectl get nodes --no-headers -o custom-columns={columns}",
    ]


def test_nodes_with_fewer_rails_are_asked_for_apart(run: Runner) -> None:
    nodes = [*alike(3, 2), {"hosts": "small-[0-1]", "ports": [{"pci": "0000:11:00.0"}, None]}]
    ran = run(files(load_stack("native"), fabric(2, nodes, addressing=FLAT)), nodes=9)
    waited = [line for line in ran.output.splitlines() if "nodes that offer" in line]
    assert waited == [
        "== waiting up to 1800 s for 3 nodes that offer trackbed.dev/rail0, trackbed.dev/rail1",
        "== waiting up to 1800 s for 5 nodes that offer trackbed.dev/rail0",
    ]


def test_a_rail_that_too_few_nodes_offer_ends_the_script_with_what_to_look_at(run: Runner) -> None:
    ran = run(files(load_stack("native"), fabric(2, 3, addressing=FLAT)), nodes=2, WAIT_SECONDS="1")
    assert ran.status == 1
    assert ran.wrong.partition("[agent-image]\n")[2] == (
        "install.sh: 2 of 3 nodes offer trackbed.dev/rail0, trackbed.dev/rail1; "
        "trackbed doctor on the others says why, then run this again\n"
    )


def test_charts_that_are_there_already_can_be_left_out(run: Runner) -> None:
    ran = run(files(HOSTDEVICE, site()), SKIP="gpu-operator other")
    assert [call.split()[3] for call in ran.calls if call.startswith("helm")] == ["network-operator"]


def test_what_the_site_must_say_is_asked_before_anything_is_installed(run: Runner) -> None:
    contents = files(HOSTDEVICE, site(management="cilium"))
    ran = run(contents, CILIUM_VERSION="1.18.0")
    assert (ran.status != 0, ran.calls) == (True, [])
    assert "name the management interface" in ran.wrong
    message = run(contents, CILIUM_VERSION="1.18.0", CILIUM_DEVICES="eno1,eno2")
    assert message.calls[0] == (
        "helm upgrade --install cilium cilium --repo https://helm.cilium.io --version 1.18.0 "
        "--set devices={eno1,eno2} --namespace kube-system --create-namespace --values values-cilium.yaml --timeout 15m"
    )


def test_a_component_that_is_published_nowhere_as_a_chart_is_asked_for(run: Runner) -> None:
    item = replace(HOSTDEVICE, charts=lambda _: (Chart("dra-driver-sriov", "dra"),))
    contents = files(item, site())
    assert "say the path of yours" in run(contents).wrong
    assert (
        run(contents, DRA_DRIVER_SRIOV_CHART="/charts/d")
        .calls[0]
        .startswith("helm upgrade --install dra-driver-sriov /charts/d")
    )


def test_without_helm_the_script_says_so(run: Runner, tmp_path: Path) -> None:
    contents = files(HOSTDEVICE, site())
    run(contents)
    (tmp_path / "bin" / "helm").unlink()
    slim = tmp_path / "slim"
    slim.mkdir()
    for tool in ("bash", "dirname"):
        (slim / tool).symlink_to(str(shutil.which(tool)))
    ran = run(contents, PATH=f"{tmp_path / 'bin'}:{slim}")
    assert (ran.status, ran.wrong, ran.calls) == (2, "install.sh: helm is not on PATH\n", [])


OPENSHIFT_OPERATORS = ["nfd", "sriov-network-operator", "nvidia-network-operator"]
GROUP, SUBSCRIPTION = "operatorgroup.operators.coreos.com", "subscription.operators.coreos.com"


@pytest.mark.parametrize(
    ("operators", "applied"),
    [
        ("", OPENSHIFT_OPERATORS),
        (f"{GROUP}/nfd\n{SUBSCRIPTION}/nfd\n", ["nfd"]),
        (f"{GROUP}/openshift-nfd\n{SUBSCRIPTION}/nfd\n", []),
        (f"{GROUP}/nfd\n{GROUP}/openshift-nfd\n", []),
    ],
    ids=["none", "applied before", "group of another name", "two groups"],
)
def test_an_operator_that_is_installed_under_another_name_is_left_out(
    run: Runner, operators: str, applied: list[str]
) -> None:
    ran = run(openshift_files(), OPERATORS=operators.replace("\n", "\\n"))
    assert ran.status == 0
    subscriptions = [call.split("-subscription-")[1] for call in ran.calls if "-subscription-" in call]
    assert subscriptions == [f"{name}.yaml" for name in applied]


def test_a_line_names_what_takes_the_place_of_a_subscription(run: Runner) -> None:
    ran = run(openshift_files(), OPERATORS=f"{GROUP}/a\\n{SUBSCRIPTION}/b\\n")
    assert "== leaving out subscription nfd (10-subscription-nfd.yaml), as namespace openshift-nfd has " in ran.output
    assert f"openshift-nfd has {GROUP}/a, {SUBSCRIPTION}/b\n" in ran.output


def test_a_cluster_that_cannot_list_its_operators_gets_none(run: Runner) -> None:
    ran = run(openshift_files(), fail="*get OperatorGroup*")
    assert ran.status == 1
    assert not any("apply" in call for call in ran.calls)


def test_only_the_platforms_list_of_sysctls_is_taken_over(run: Runner) -> None:
    ran = run(openshift_files())
    forced = [call for call in ran.calls if "--force-conflicts" in call]
    assert forced == [
        "kubectl apply --server-side --field-manager=trackbed-openshift --force-conflicts -f 35-sysctls.yaml"
    ]


def openshift_files() -> dict[str, str]:
    """The files of stack openshift for two nodes."""
    return files(load_stack("openshift"), fabric(2, 2, addressing=SHARED, vfs={"count": 8}))


@pytest.mark.parametrize("management", [None, "calico", "cilium"])
def test_bash_reads_the_script(management: str | None) -> None:
    text = files(HOSTDEVICE, site(management=management))["install.sh"]
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("management", [None, "calico", "cilium"])
def test_shellcheck_finds_nothing(management: str | None) -> None:
    program = Path(sys.prefix, "bin/shellcheck")
    text = files(HOSTDEVICE, site(management=management))["install.sh"]
    done = subprocess.run([program, "-"], input=text, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == ""
