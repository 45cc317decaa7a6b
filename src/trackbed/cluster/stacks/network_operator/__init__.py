"""The stacks on NVIDIA's Network Operator: what its NicClusterPolicy deploys, and the networks beside it."""
