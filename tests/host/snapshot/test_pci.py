from trackbed.host.snapshot import pci
from trackbed.host.snapshot.secrets import mask_secrets

AER = 0x0001
PORT = "361b0c00070510000000040600000100"
"""pcie-root-port of an emulated server (QEMU, Linux 7.2), its header's first 16 bytes."""


def config(*parts: tuple[int, str], size: int = 4096) -> bytes:
    """A configuration space of zeros with some bytes in it."""
    made = bytearray(size)
    for place, text in parts:
        raw = bytes.fromhex(text)
        made[place : place + len(raw)] = raw
    return bytes(made)


BRIDGE = config(
    (0x00, PORT),
    (0x34, "54"),
    (0x54, "104842012080800000000f000004063000000011207b000a"),
    (0x48, "05400000"),
    (0x40, "0d000000"),
    (0x100, "010082140000000000400230204600000100000000e00000"),
    (0x148, "0d0001005f001d00"),
)
"""The root port's registers as `config` showed them: Express at 0x54, MSI at 0x48, AER at 0x100, ACS at 0x148."""

PF = config(
    (0x00, "8680c9100600100001"),
    (0x34, "40"),
    (0x40, "01500000"),
    (0x50, "05700000"),
    (0x70, "11a00000"),
    (0xA0, "1000020000000010000000001104000000001100"),
    (0x100, "0100011500000000"),
    (0x150, "0e00011600000000"),
    (0x160, "1000010000000000100000000800080007000000800002000000ca105305000001000000"),
    (0x184, "0c0080fe00000000000000000c0082fe"),
)
"""igb of the same server (82576): Express at 0xa0, SR-IOV at 0x160."""


def test_a_root_port_s_capabilities_are_found() -> None:
    assert pci.list_capabilities(BRIDGE) == {0x10: 0x54, 0x05: 0x48, 0x0D: 0x40}
    assert pci.find_extended_capabilities(BRIDGE) == {AER: 0x100, pci.ACS: 0x148}


def test_acs_control_says_what_is_redirected() -> None:
    assert pci.read_acs(BRIDGE) == 0x1D
    assert pci.read_acs(PF) is None


def test_link_and_device_registers_are_read() -> None:
    express = pci.read_express(PF)
    assert express == pci.Express(
        relaxed_ordering=False,
        max_payload_bytes=128,
        max_read_request_bytes=128,
        speed=2.5,
        max_speed=2.5,
        width=1,
        max_width=1,
    )


def test_a_raised_read_request_and_relaxed_ordering_are_seen() -> None:
    express = pci.read_express(config((0x00, "b315211006001000"), (0x34, "60"), (0x60, "10000200000000003059")))
    assert express is not None
    assert (express.max_read_request_bytes, express.max_payload_bytes, express.relaxed_ordering) == (4096, 256, True)


def test_ats_is_on_or_off_or_not_there() -> None:
    head = (0x00, "b315211006001000")
    assert pci.read_ats(config(head, (0x100, "0f00010000000080"))) is True
    assert pci.read_ats(config(head, (0x100, "0f00010000000000"))) is False
    assert pci.read_ats(BRIDGE) is None


def test_who_is_not_root_sees_no_capabilities() -> None:
    assert not pci.is_readable(BRIDGE[:64])
    assert pci.list_capabilities(BRIDGE[:64]) == {}
    assert pci.find_extended_capabilities(BRIDGE[:64]) == {}


def test_a_function_that_is_gone_has_no_capabilities() -> None:
    gone = b"\xff" * 4096
    assert not pci.is_readable(gone)
    assert pci.read_express(gone) is None
    assert pci.read_acs(gone) is None


def test_lists_that_lead_in_a_circle_or_out_of_the_space_end() -> None:
    circle = config((0x00, PORT), (0x34, "40"), (0x40, "0540"), (0x100, "01000110"))
    assert pci.list_capabilities(circle) == {0x05: 0x40}
    assert pci.find_extended_capabilities(circle) == {AER: 0x100}
    assert pci.read_acs(config((0x00, PORT), (0x100, "0100c1ff"), (0xFFC, "0d000100"))) is None


def test_the_serial_number_of_a_function_goes_and_the_rest_stays() -> None:
    head = (0x00, "b315211006001000")
    numbered = config(head, (0x100, "0300011500000000"), (0x104, "9851 03ab 012d b048"), (0x150, "0d00010000001c00"))
    blank = config(head, (0x100, "0300011500000000"), (0x104, "00" * 8), (0x150, "0d00010000001c00"))
    assert pci.mask_serial_number(numbered) == blank
    assert mask_secrets("/sys/bus/pci/devices/0000:18:00.0/config", numbered) == blank
    assert pci.mask_serial_number(BRIDGE) == BRIDGE
    assert len(pci.mask_serial_number(numbered[:0x108])) == 0x108
