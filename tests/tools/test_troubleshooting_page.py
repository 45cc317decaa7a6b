"""The page of symptoms leads from what a person sees to every fault of the catalogue."""

import re

from tools.pages.troubleshooting_page import load_symptoms, render_troubleshooting_page
from trackbed.doctor.catalogue import load_catalogue, load_unchecked_faults

LISTS = {title: symptom.faults.split() for title, symptom in load_symptoms().items()}


def test_every_fault_has_a_symptom_and_no_symptom_an_unknown_fault() -> None:
    assert {fault for faults in LISTS.values() for fault in faults} == set(load_catalogue())


def test_a_symptom_names_a_fault_once() -> None:
    assert [title for title, faults in LISTS.items() if len(set(faults)) < len(faults)] == []


def test_no_placeholder_of_a_fix_is_left() -> None:
    assert re.findall(r"\{\w+\}", render_troubleshooting_page()) == []


def test_a_value_that_only_a_host_has_is_named_by_what_it_is() -> None:
    values = {"address", "gateway", "leaf", "mac", "mtu", "netdev", "node", "pci", "priority", "source", "table", "vfs"}
    assert set(re.findall(r"<(\w+)>", render_troubleshooting_page())) <= values


def test_what_doctor_cannot_see_is_on_the_page() -> None:
    assert [fault for fault in load_unchecked_faults() if f"`{fault}`" not in render_troubleshooting_page()] == []
