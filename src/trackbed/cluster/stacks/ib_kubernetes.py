"""ib-kubernetes: it gives the VFs of pods a GUID, and requests UFM to add them to an InfiniBand partition.

Source: github.com/Mellanox/ib-kubernetes, README "Configuration reference", pkg/drivers/http and pkg/sm/plugins/ufm.
"""

UFM_SECRET = "ib-kubernetes-ufm-secret"  # noqa: S105 - the name of a Secret that the user makes, not its content
_PARTITION_BITS = 0x7FFF
"""Mask of a PKey without its membership bit, which ib-kubernetes refuses and UFM sets."""


def format_pkey(pkey: int) -> str:
    """Return a PKey as ib-kubernetes reads it from a network: hexadecimal, 15 bits."""
    return f"{pkey & _PARTITION_BITS:#x}"


def describe_ufm_secret(namespace: str) -> str:
    """Return how to make the Secret with UFM's address, login and CA certificate.

    Without the certificate ib-kubernetes accepts any server for https, and sends it the password. The values are files,
    since a certificate has several lines, which `--from-env-file` does not take, and no command line shows them.
    """
    return (
        f"with kubernetes.pkey: the Secret {UFM_SECRET}. Write one file for each of UFM_USERNAME, UFM_PASSWORD, "
        "UFM_ADDRESS, UFM_HTTP_SCHEMA (https), UFM_PORT (443) and UFM_CERTIFICATE (the PEM certificate of UFM's CA; "
        "without it ib-kubernetes sends the password to any server) in a folder ufm (mode 0700), without a line feed "
        f"at the end, then kubectl -n {namespace} create secret generic {UFM_SECRET} --from-file=ufm"
    )
