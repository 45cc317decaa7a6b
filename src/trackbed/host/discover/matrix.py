"""Parser of `nvidia-smi topo -m`: the proximity of GPUs and NICs."""

import re
from collections.abc import Iterator, Mapping

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_DEVICE = re.compile(r"GPU\d+|NIC\d+|mlx\d+_\w+|bnxt_re\w+|rocep\w+|ibp\w+|irdma\w+|roce\w+|hns_\w+|efa_\w+|rdmap\w+")
"""Column names: newer versions of nvidia-smi number the NICs, older versions print the names of RDMA devices."""
_LEGEND = re.compile(r"^[ \t]*(NIC\d+):[ \t]*(\S+)[ \t]*$", re.MULTILINE)
_BUS_ID = re.compile(
    r"^[ \t]*(\d{1,6})[ \t]*,[ \t]*([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])[ \t]*$", re.MULTILINE
)


def parse_matrix(text: str) -> dict[int, dict[str, str]]:
    """Return GPU index -> RDMA device -> PIX, PXB, PHB, NODE or SYS; empty if the text has no such table."""
    plain = _ESCAPE.sub("", text)
    columns: list[str] = []
    names = dict(_LEGEND.findall(plain))
    rows: dict[int, dict[str, str]] = {}
    for words in (line.split() for line in plain.splitlines()):
        if not columns:
            columns = list(_iter_device_names(words)) if words[:1] == ["GPU0"] else []
        elif words and re.fullmatch(r"GPU\d{1,6}", words[0]):
            cells = zip(columns, words[1:], strict=False)
            rows[int(words[0][3:])] = {
                names.get(column, column): cell for column, cell in cells if not column.startswith("GPU")
            }
    return rows


def parse_bus_ids(text: str) -> dict[int, str]:
    """Parse `nvidia-smi --query-gpu=index,pci.bus_id --format=csv,noheader` into GPU index -> PCI address."""
    return {
        int(index): f"{int(domain, 16):04x}:{function.lower()}" for index, domain, function in _BUS_ID.findall(text)
    }


def key_by_address(
    matrix: Mapping[int, Mapping[str, str]], gpus: Mapping[int, str], nics: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """Return the matrix with PCI addresses as keys; unknown devices are left out.

    `gpus` maps GPU indexes to PCI addresses, `nics` maps RDMA devices to PCI addresses.
    """
    return {
        gpus[index]: {nics[name]: proximity for name, proximity in row.items() if name in nics}
        for index, row in matrix.items()
        if index in gpus
    }


def _iter_device_names(words: list[str]) -> Iterator[str]:
    """Yield the device names in a header line, which end before `CPU Affinity`."""
    for word in words:
        if not _DEVICE.fullmatch(word):
            return
        yield word
