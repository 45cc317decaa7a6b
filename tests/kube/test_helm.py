"""What helm is asked, and what is made of its refusals. The program stands in: it writes down its words and input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trackbed.kube.helm import Helm, HelmError
from trackbed.stacks.install.steps import Install
from trackbed.stacks.releases import ChartSource
from trackbed.stacks.stack import Chart

CHART = Chart("spiderpool", "spiderpool", {"ipam": {"enableIPv6": False}})
STEP = Install(CHART, ChartSource("spiderpool", "https://charts.example.com"), "1.2.3")


def program(folder: Path, script: str) -> str:
    path = folder / "helm"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_chart_is_installed_or_upgraded_with_its_values_on_standard_input(tmp_path: Path) -> None:
    told = program(tmp_path, f'echo "$@" >{tmp_path}/words; cat >{tmp_path}/values')
    Helm("/etc/kubeconfig", "site", told).install(STEP)
    assert (tmp_path / "words").read_text() == (
        "upgrade --install spiderpool spiderpool --namespace spiderpool --create-namespace --values - --timeout 15m "
        "--version 1.2.3 --repo https://charts.example.com --kubeconfig /etc/kubeconfig --kube-context site\n"
    )
    assert json.loads((tmp_path / "values").read_text()) == {"ipam": {"enableIPv6": False}}


def test_a_chart_of_an_oci_registry_is_named_by_its_address() -> None:
    step = Install(CHART, ChartSource("x", "oci://registry.example.com/charts"), None)
    words = Helm().words(step)
    assert words[3] == "oci://registry.example.com/charts/x"
    assert not {"--repo", "--version", "--kubeconfig"} & set(words)


def test_helms_own_words_are_told_when_it_fails(tmp_path: Path) -> None:
    fails = program(tmp_path, "echo 'Error: UPGRADE FAILED: another operation is in progress' >&2; exit 1")
    with pytest.raises(
        HelmError, match=r"chart spiderpool: Error: UPGRADE FAILED: another .*; `helm status spiderpool"
    ):
        Helm(program=fails).install(STEP)


def test_a_machine_without_helm_is_told_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(HelmError, match=r"chart spiderpool needs the program .*; install it, or say --skip spiderpool"):
        Helm(program=str(tmp_path / "none")).install(STEP)
