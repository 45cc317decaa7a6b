"""Emulated servers: real kernels with SR-IOV NICs, NUMA nodes, an IOMMU and reboots, on one machine without root."""
