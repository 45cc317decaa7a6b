"""The stacks on NVIDIA's Network Operator: each renders a NicClusterPolicy and the networks of pods."""
