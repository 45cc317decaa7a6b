"""The netplan file against PyYAML's emitter, and the settings that the files cover."""

from __future__ import annotations

import pytest
import yaml

from tests.host.steps.fabrics import SCHEMES, node_plan
from trackbed.fabric.plan.routes import PlannedRule
from trackbed.host.kinds import address, mtu, name, route, sysctl
from trackbed.host.render.netplan import FILE, render
from trackbed.host.setting import HEAD
from trackbed.host.steps import RENDERED, iter_settings


@pytest.mark.parametrize("addressing", SCHEMES.values(), ids=SCHEMES)
def test_netplans_file_is_written_as_pyyaml_writes_it(addressing: str) -> None:
    text = render(node_plan(addressing))[FILE].removeprefix(HEAD)
    assert text == yaml.dump(yaml.safe_load(text), Dumper=yaml.CSafeDumper, sort_keys=False, width=1 << 20)


@pytest.mark.parametrize("addressing", SCHEMES.values(), ids=SCHEMES)
def test_no_other_step_wants_what_the_files_say(addressing: str) -> None:
    kinds = name.Want | mtu.Want | address.Want | route.Want | PlannedRule | sysctl.Want
    wanted = {setting.step for setting in iter_settings(node_plan(addressing)) if isinstance(setting.want, kinds)}
    assert wanted <= set(RENDERED)
