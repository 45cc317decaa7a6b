"""GPUs by vendor: their PCI vendor, and the extended resources by which pods request them."""

import re

GPU_RESOURCE = "nvidia.com/gpu"
"""The extended resource of GPUs where neither the Fabric nor its server says otherwise."""
GPU_RESOURCES = {"10de": GPU_RESOURCE, "1002": "amd.com/gpu"}
"""PCI vendor (pci.ids) -> extended resource of its device plugin, which is the key of its taint too."""
GPU_PATTERN = r"^[^/]+/(p?gpu|gpu[.]shared|gaudi|mig-.*)$"
"""Extended resources that are GPUs or parts of them, of any vendor: a regular expression for Python and for CEL."""
_GPU = re.compile(GPU_PATTERN)


def is_gpu_resource(resource: str) -> bool:
    """Return whether an extended resource is GPUs or parts of them, of any vendor."""
    return _GPU.match(resource) is not None
