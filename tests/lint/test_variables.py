"""Variables of NCCL wherever a manifest sets them."""

import json

import pytest

from trackbed.lint.corpus import index_documents
from trackbed.lint.manifests import parse_manifests
from trackbed.lint.run import lint

_HEAD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n"


def _lint(text: str) -> list[tuple[str, int]]:
    documents, early = parse_manifests(text.encode(), "a.yaml")
    return [(problem.rule, problem.line) for problem in lint(index_documents(documents), None, early)]


def _pod(command: object, extra: str = "") -> str:
    return f"{_HEAD}{extra}  containers:\n    - {{name: a, image: a, command: {json.dumps(command)}}}\n"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param(["mpirun", "-x", "NCCL_IB_GID_INDEX=3", "all_reduce_perf"], ["gid-index-fixed"], id="items"),
        pytest.param(["sh", "-c", "mpirun -x NCCL_IB_GID_INDEX=3 a"], ["gid-index-fixed"], id="option"),
        pytest.param(["sh", "-c", "mpirun -x 'NCCL_IB_GID_INDEX=3' a"], ["gid-index-fixed"], id="quoted"),
        pytest.param(["sh", "-c", "export NCCL_IB_HCA=mlx5; run"], ["hca-takes-all"], id="export"),
        pytest.param(["sh", "-c", 'export NCCL_IB_HCA="mlx5_1"'], ["hca-prefix"], id="quoted-value"),
        pytest.param(["sh", "-c", "NCCL_NET_GDR_LEVEL=2 run"], ["nccl-level-number"], id="prefix-of-command"),
        pytest.param(["sh", "-c", "# export NCCL_IB_HCA=mlx5"], [], id="comment"),
        pytest.param(["sh", "-c", "mpirun -x NCCL_IB_HCA -x NCCL_IB_GID_INDEX a"], [], id="no-value"),
        pytest.param(["sh", "-c", "export NCCL_IB_HCA=$HCA"], [], id="variable"),
        pytest.param(["sh", "-c", "echo NCCL_IB_HCA=mlx5"], [], id="no-assignment"),
    ],
)
def test_a_variable_in_a_command_is_read(command: list[str], expected: list[str]) -> None:
    assert [rule for rule, _ in _lint(_pod(command))] == expected


def test_a_variable_in_a_script_has_the_place_of_its_line() -> None:
    script = "      args:\n        - |\n          set -e\n          export NCCL_IB_GID_INDEX=3\n"
    assert _lint(f"{_HEAD}  containers:\n    - name: a\n      image: a\n{script}") == [("gid-index-fixed", 11)]


def test_a_launchers_options_are_for_workers_on_the_network_of_the_host() -> None:
    assert _lint(_pod(["mpirun", "-x", "NCCL_IB_GID_INDEX=3"], "  hostNetwork: true\n")) == []


_CONFIG = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: nccl}}\ndata:\n  {}\n"
_MOUNT = "  volumes: [{name: n, configMap: {name: nccl}}]\n"


@pytest.mark.parametrize(
    ("data", "extra", "expected"),
    [
        pytest.param("nccl.conf: |\n    NCCL_IB_GID_INDEX=3", "", ["gid-index-fixed"], id="nccl.conf"),
        pytest.param("run.sh: |\n    export NCCL_IB_GID_INDEX=3", _MOUNT, ["gid-index-fixed"], id="mounted"),
        pytest.param("run.sh: |\n    export NCCL_IB_GID_INDEX=3", "", [], id="of-nobody"),
    ],
)
def test_a_variable_of_a_config_map_is_read(data: str, extra: str, expected: list[str]) -> None:
    assert [rule for rule, _ in _lint(_pod(["a"], extra) + _CONFIG.format(data))] == expected


def test_the_keys_of_a_config_map_are_variables_of_a_pod_that_takes_them() -> None:
    pod = f"{_HEAD}  containers:\n    - {{name: a, image: a, envFrom: [{{configMapRef: {{name: nccl}}}}]}}\n"
    assert _lint(pod + _CONFIG.format("NCCL_IB_GID_INDEX: '3'")) == [("gid-index-fixed", 12)]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {name: a}\nspec:\n  predictor:\n"
            "    containers:\n      - {name: a, image: a, env: [{name: NCCL_IB_GID_INDEX, value: '3'}]}\n",
            id="kserve",
        ),
        pytest.param(
            "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {name: a}\n"
            "spec:\n  templates:\n    - name: t\n"
            "      container: {image: a, env: [{name: NCCL_IB_GID_INDEX, value: '3'}]}\n",
            id="argo",
        ),
    ],
)
def test_a_pod_spec_without_metadata_around_it_is_read(text: str) -> None:
    assert _lint(text) == [("gid-index-fixed", 7)]


@pytest.mark.parametrize(
    ("kind", "container", "expected"),
    [
        ("batch/v1 Job", "{name: a}", ["image-missing"]),
        ("batch/v1 Job", "{name: a, image: ''}", ["image-missing"]),
        ("batch/v1 Job", "{name: a, image: b}", []),
        ("apps/v1 Deployment", "{name: a}", []),
        ("trainer.kubeflow.org/v1alpha1 TrainingRuntime", "{name: a}", []),
    ],
)
def test_a_container_has_an_image_unless_another_object_gives_it(
    kind: str, container: str, expected: list[str]
) -> None:
    version, name = kind.split()
    text = f"apiVersion: {version}\nkind: {name}\nmetadata: {{name: a}}\nspec:\n  template:\n    spec:\n"
    text += "      restartPolicy: Never\n"
    assert [rule for rule, _ in _lint(f"{text}      containers: [{container}]\n")] == expected


@pytest.mark.parametrize(
    ("value", "gpus", "expected"),
    [
        pytest.param("mlx5_0,mlx5_1", 8, ["hca-prefix"], id="ten devices more begin so"),
        pytest.param("^mlx5_1:1", 8, ["hca-prefix"], id="excluded"),
        pytest.param("mlx5_5,mlx5_10", 8, [], id="a server has no fifty devices"),
        pytest.param("mlx5_11", 8, [], id="nor a hundred"),
        pytest.param("rocep1s0f1,roceP2p1s0f1", 8, [], id="functions of one NIC"),
        pytest.param("mlx5_0,mlx5_1", 1, [], id="a server with one GPU has no ten devices"),
    ],
)
def test_a_device_is_a_prefix_where_a_server_has_such_devices(value: str, gpus: int, expected: list[str]) -> None:
    resources = f"resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}"
    env = f"env: [{{name: NCCL_IB_HCA, value: '{value}'}}]"
    text = f"{_HEAD}  containers:\n    - {{name: a, image: a, {resources}, {env}}}\n"
    assert [rule for rule, _ in _lint(text) if rule == "hca-prefix"] == expected


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        pytest.param("{name: NCCL_SOCKET_IFNAME, value: ib0}", [], id="an interface of IPoIB"),
        pytest.param("{name: NCCL_TOPO_FILE, value: /opt/topo/h100-ib-vm.xml}", [], id="a topology for InfiniBand"),
        pytest.param("{name: NCCL_TOPO_FILE, value: /opt/libibverbs.xml}", ["gid-index-fixed"], id="part of a word"),
        pytest.param("{name: NCCL_SOCKET_IFNAME, value: eth0}", ["gid-index-fixed"], id="Ethernet"),
    ],
)
def test_a_gid_index_counts_on_roce_alone(other: str, expected: list[str]) -> None:
    env = f"env: [{{name: NCCL_IB_GID_INDEX, value: '3'}}, {other}]"
    text = f"{_HEAD}  containers:\n    - {{name: a, image: a, {env}}}\n"
    assert [rule for rule, _ in _lint(text) if rule == "gid-index-fixed"] == expected


@pytest.mark.parametrize(("plugin", "severity"), [("macvlan", "warning"), ("host-device", "note")])
def test_a_gid_index_is_a_warning_where_pods_share_ports(plugin: str, severity: str) -> None:
    config = json.dumps({"cniVersion": "1.0.0", "name": "rail0", "type": plugin})
    network = "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {name: rail0}\n"
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {k8s.v1.cni.cncf.io/networks: rail0}}\n"
    spec = "spec: {containers: [{name: a, image: a, env: [{name: NCCL_IB_GID_INDEX, value: '3'}]}]}\n"
    documents, early = parse_manifests(f"{network}spec: {{config: '{config}'}}\n---\n{pod}{spec}".encode(), "a.yaml")
    problems = lint(index_documents(documents), None, early)
    assert [problem.severity for problem in problems if problem.rule == "gid-index-fixed"] == [severity]
