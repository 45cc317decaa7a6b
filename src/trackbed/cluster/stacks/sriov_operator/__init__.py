"""The stacks on the SR-IOV network operator without NVIDIA's: the community's operator, and OpenShift's."""
