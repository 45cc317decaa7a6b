"""`trackbed webhook`: admission webhooks that add rails to pods and reject invalid objects."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import METRICS, cluster_options, exit_unknown, listen_option, prepare_daemon, refuse

if TYPE_CHECKING:
    from trackbed.cluster.daemon.http_server import ListenAddress


@click.command("webhook")
@listen_option("--listen", "Listening address; without HOST, all addresses.", ":8443")
@click.option(
    "--namespace",
    default="trackbed-system",
    show_default=True,
    help="Namespace of the webhook; its pods are never reviewed.",
)
@click.option("--service", default="trackbed-webhook", show_default=True, help="Service of the webhook.")
@click.option("--url", metavar="URL", help="https://HOST:PORT of the webhook instead, from outside the cluster.")
@click.option(
    "--certificates",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder with tls.crt and tls.key that cert-manager keeps. Default: our own, in a Secret.",
)
@click.option(
    "--client-ca",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="PEM file with authorities; reviews are then only for clients with a certificate of one of them.",
)
@listen_option("--metrics", METRICS)
@cluster_options
def command(
    listen: ListenAddress,
    namespace: str,
    service: str,
    url: str | None,
    certificates: Path | None,
    client_ca: Path | None,
    metrics: ListenAddress | None,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Register the admission webhooks, and serve reviews until SIGTERM.

    Pods with the annotation trackbed.dev/rails, their own or their namespace's, get the rails of their Fabric; invalid
    Fabrics, RailNodes and pods are refused with the reason. While it is down, only namespaces with the annotation are
    blocked. Exits with 3 when the cluster cannot be reached.

    \b
    Examples:
      trackbed webhook
      trackbed webhook --certificates /var/run/certificates
      trackbed webhook --kubeconfig admin.kubeconfig --listen 127.0.0.1:8443 \\
          --url https://127.0.0.1:8443
    """
    import asyncio

    from trackbed.cluster.api.client import PERSISTENT
    from trackbed.cluster.api.dynamic import connect
    from trackbed.cluster.api.errors import ConfigurationError, KubeError
    from trackbed.cluster.daemon.http_server import ListenError
    from trackbed.cluster.webhook.configuration import WebhookEndpoint
    from trackbed.cluster.webhook.run import WebhookSettings, serve
    from trackbed.cluster.webhook.server import CertificateError

    if url is not None and not url.startswith("https://"):
        refuse(f"--url {url}: the API server calls webhooks by https only")
    settings = WebhookSettings(
        listen, WebhookEndpoint(namespace, service, url.rstrip("/") if url else None), certificates, client_ca, metrics
    )
    prepare_daemon()
    try:
        asyncio.run(serve(connect(kubeconfig, context, PERSISTENT), settings, partial(_print_address, listen)))
    except (ConfigurationError, CertificateError, ListenError) as error:
        refuse(error)
    except KubeError as error:
        exit_unknown(error)


def _print_address(address: ListenAddress, port: int) -> None:
    click.echo(f"serving reviews at {address._replace(port=port)}")
