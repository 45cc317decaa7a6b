import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from tests.host.export.fabrics import planned
from trackbed.host.export.arguments import find_arguments, render_script
from trackbed.host.export.cloud_init import render_meta_data, render_user_data
from trackbed.host.export.files import list_files

SCHEMAS = sorted(Path("/usr/lib/python3").glob("*-packages/cloudinit/config/schemas/schema-cloud-config-v1.json"))


def read(spec: str | None = None) -> dict[str, Any]:
    plan = planned() if spec is None else planned(spec=spec)
    text = render_user_data(plan.nodes[1], "netplan")
    assert text.startswith("#cloud-config\n")
    document: dict[str, Any] = yaml.safe_load(text)
    return document


def test_it_writes_every_file_with_its_permissions() -> None:
    wanted = [(file.path, f"{file.mode:04o}", file.content) for file in list_files(planned().nodes[1], "netplan")]
    assert [(f["path"], f["permissions"], f["content"]) for f in read()["write_files"]] == wanted
    assert {f["owner"] for f in read()["write_files"]} == {"root:root"}


def test_it_sees_to_kernel_arguments_and_boots_once_more() -> None:
    wanted = find_arguments(planned().nodes[1])
    assert wanted is not None
    assert read()["runcmd"] == [["sh", "-c", render_script(wanted)]]
    assert read()["power_state"]["mode"] == "reboot"


def test_without_arguments_nothing_is_run() -> None:
    assert set(read(spec="")) == {"merge_how", "write_files", "power_state"}


def test_its_lists_join_those_of_the_site() -> None:
    assert {"name": "list", "settings": ["append"]} in read()["merge_how"]


def test_the_host_is_called_as_in_the_plan() -> None:
    assert yaml.safe_load(render_meta_data(planned().nodes[2])) == {"instance-id": "gpu-2", "local-hostname": "gpu-2"}


@pytest.mark.may_skip("cloud-init's own schema: only where cloud-init is installed")
def test_cloud_init_finds_nothing_wrong() -> None:
    if not SCHEMAS:
        pytest.skip("cloud-init is not installed here")
    validator = jsonschema_rs.validator_for(json.loads(SCHEMAS[0].read_text()))
    assert [error.message for error in validator.iter_errors(read())] == []
