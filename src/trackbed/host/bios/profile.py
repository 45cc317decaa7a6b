"""The vendors' profiles, which map wanted settings to attributes."""

from __future__ import annotations

from importlib.resources import files

import msgspec
import yaml

from trackbed.host.bios.compare import Profile


def load_profile(vendor: str) -> Profile:
    """Load the profile of dell, hpe, lenovo or supermicro."""
    text = files("trackbed.host.bios").joinpath("profiles", f"{vendor}.yaml").read_text(encoding="utf-8")
    return msgspec.convert(yaml.safe_load(text), Profile)
