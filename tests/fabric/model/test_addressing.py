"""Bounds of the addressing schemes that are valid values, so that no message tells them."""

import pytest
from pydantic import TypeAdapter, ValidationError

from trackbed.fabric.model.addressing import Addressing, NoAddresses

ADDRESSING: TypeAdapter[Addressing] = TypeAdapter(Addressing)


@pytest.mark.parametrize(("scheme", "most"), [("shared-subnet", 65535), ("node-subnet", 65535), ("point-to-point", 1)])
def test_a_rail_may_have_no_addresses_for_pods(scheme: str, most: int) -> None:
    def read(pod_addresses: int) -> int | None:
        document = {"scheme": scheme, "ipv4": "10.0.0.0/13", "podAddresses": pod_addresses}
        addressing = ADDRESSING.validate_python(document)
        assert not isinstance(addressing, NoAddresses)
        return addressing.pod_addresses

    assert (read(0), read(most)) == (0, most)
    for outside in (-1, most + 1):
        with pytest.raises(ValidationError):
            read(outside)
