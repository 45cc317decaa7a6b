"""Any text that the API server stores, we can write: statuses quote what agents and kubelets say."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from trackbed.cluster.api.client import connect, encode_body

PATH = "/api/v1/namespaces/default/configmaps/hostile-text"


def _apply_and_read(kubeconfig: str, text: str) -> str:
    async def run() -> str:
        async with connect(kubeconfig) as client:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hostile-text"}, "data": {"x": text}}
            await client.apply(PATH, body, "test")
            data = (await client.get(PATH, dict[str, Any]))["data"]
            await client.delete(PATH)
            return str(data["x"])

    return asyncio.run(run())


def test_every_character_survives_an_apply(api_server: Path) -> None:
    """All of them at once: before each stands a letter, so that no two could form another."""
    planes = [*range(0x20, 0xD800), *range(0xE000, 0x10000), *range(0x10000, sys.maxunicode + 1, 0x101)]
    text = "".join(f"a{chr(code)}" for code in [*range(0x20), *planes] if code)
    assert _apply_and_read(str(api_server), text) == text


@settings(max_examples=200)
@given(st.text(st.characters(codec="utf-8")))
def test_a_body_is_json_of_the_same_value(text: str) -> None:
    import msgspec  # noqa: PLC0415 - nothing else here needs it

    assert msgspec.json.decode(encode_body({"x": text})) == {"x": text}
