"""Reading and staging of BIOS attributes over Redfish (DMTF DSP0266) with sushy. TLS is verified, waits are bounded."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import msgspec
from sushy import exceptions  # type: ignore[import-untyped] # sushy ships no types
from sushy.auth import BasicAuth  # type: ignore[import-untyped] # as above
from sushy.main import Sushy  # type: ignore[import-untyped] # as above
from sushy.resources.constants import ApplyTime  # type: ignore[import-untyped] # as above

from trackbed.host.bios.compare import BiosState, RegistryEntry, Value, find_vendor
from trackbed.host.bios.connection import Bmc, BmcConnector, BmcError
from trackbed.host.bios.files import Credentials

logging.getLogger("sushy").addHandler(logging.NullHandler())  # BmcError has the content of its messages

IDRAC_JOB = (
    "this iDRAC takes no apply time, so the values stay pending until a configuration job is there: create one with "
    "`racadm jobqueue create BIOS.Setup.1-1`, then reboot"
)

_MAX_QUOTED_CHARACTERS = 300
"""Longest part of a BMC's answer in a message."""


def read_bios_state(bmc: Bmc, credentials: Credentials) -> BiosState:
    """Read the manufacturer, the current and pending attributes, and the attribute registry. Raises BmcError."""
    with _as_bmc_errors(bmc), closing(BmcConnector(bmc)) as conn:
        system = _open_system(bmc, credentials, conn)
        bios = _get_bios(bmc, system)
        registry = _read_registry(conn, bios.json.get("AttributeRegistry"))
        return BiosState(
            _get_manufacturer(system),
            _convert_values(bios.attributes),
            _convert_values(bios.pending_attributes),
            registry,
        )


def stage_attributes(bmc: Bmc, credentials: Credentials, values: Mapping[str, Value]) -> str:
    """Stage `values` for the next boot, without rebooting the server. Raises BmcError.

    The apply time is OnReset if the BMC supports one (DSP0266, @Redfish.SettingsApplyTime). Return what the user must
    do before the reboot; empty if nothing.
    """
    with _as_bmc_errors(bmc), closing(BmcConnector(bmc)) as conn:
        system = _open_system(bmc, credentials, conn)
        bios = _get_bios(bmc, system)
        at_reset = ApplyTime.ON_RESET in (bios.supported_apply_times or ())
        bios.set_attributes(dict(values), ApplyTime.ON_RESET if at_reset else None)
        return "" if at_reset or find_vendor(_get_manufacturer(system)) != "dell" else IDRAC_JOB


def _open_system(bmc: Bmc, credentials: Credentials, conn: BmcConnector) -> Any:  # noqa: ANN401 - sushy has no types
    root = Sushy(f"https://{bmc.address}", auth=BasicAuth(credentials.user, credentials.password), connector=conn)
    systems = root.get_system_collection().get_members()
    if len(systems) != 1:
        raise BmcError(f"{bmc.address}: it names {len(systems)} systems, one was expected; name the BMC of one server")
    return systems[0]


def _get_bios(bmc: Bmc, system: Any) -> Any:  # noqa: ANN401 - sushy has no types
    if not system.json.get("Bios"):
        raise BmcError(f"{bmc.address}: it offers no BIOS attributes; update its firmware, or its licence lacks them")
    bios = system.bios
    if "@Redfish.Settings" not in bios.json:
        raise BmcError(f"{bmc.address}: it offers no settings for the next boot; set its BIOS by hand")
    return bios


def _get_manufacturer(system: Any) -> str:  # noqa: ANN401 - sushy has no types
    return str(system.json.get("Manufacturer") or next((c.manufacturer for c in system.chassis if c.manufacturer), ""))


def _convert_values(attributes: object) -> dict[str, Value]:
    return msgspec.convert(attributes or {}, dict[str, Value])


def _read_registry(conn: Any, name: object) -> dict[str, RegistryEntry]:  # noqa: ANN401 - sushy has no types
    """Read the attribute registry from the BMC; empty if absent. sushy's own method may query the Internet."""
    try:
        listed = conn.get("/redfish/v1/Registries").json().get("Members", [])
        paths = [str(member["@odata.id"]) for member in listed]
        path = next((path for path in paths if path.rstrip("/").rsplit("/", 1)[-1] == name), None)
        if path is None:
            return {}
        locations = conn.get(path).json()["Location"]
        location = next(
            (member for member in locations if str(member.get("Language", "")).startswith("en")), locations[0]
        )
        entries = conn.get(location["Uri"]).json()["RegistryEntries"]["Attributes"]
    except (exceptions.ResourceNotFoundError, KeyError, IndexError):
        return {}
    return {entry.name: entry for entry in msgspec.convert(entries, list[RegistryEntry])}


@contextmanager
def _as_bmc_errors(bmc: Bmc) -> Iterator[None]:
    """Translate sushy's exceptions into BmcError with a remedy."""
    try:
        yield
    except exceptions.AccessError as error:
        raise BmcError(f"{bmc.address}: it refused user or password; check the credentials and the rights") from error
    except exceptions.ConnectionError as error:
        raise BmcError(f"{bmc.address}: {_explain_connection_error(str(error), bmc)}") from error
    except exceptions.SushyError as error:
        raise BmcError(f"{bmc.address}: {str(error)[:_MAX_QUOTED_CHARACTERS]}") from error
    except (msgspec.MsgspecError, OSError, ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
        raise BmcError(
            f"{bmc.address}: it answered what is no Redfish ({str(error)[:_MAX_QUOTED_CHARACTERS]})"
        ) from error


def _explain_connection_error(text: str, bmc: Bmc) -> str:
    text = text[:_MAX_QUOTED_CHARACTERS]
    if "CERTIFICATE_VERIFY_FAILED" in text or "SSLError" in text:
        return "its certificate is not trusted; name the CA that signed it with --ca, or give the BMC a certificate"
    if "timed out" in text.lower() or "timeout" in text.lower():
        return f"no answer within {bmc.seconds:g} s; check its network, or wait longer with --timeout"
    return f"cannot be reached ({text}); check its name and network"
