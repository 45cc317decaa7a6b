"""Trackbed: a GPU cluster from bare metal to pods that ask for RDMA NICs and get them."""

__version__ = "0.1.0"
