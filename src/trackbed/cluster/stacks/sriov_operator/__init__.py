"""The stacks on the SR-IOV network operator by itself: the community's, and OpenShift's."""
