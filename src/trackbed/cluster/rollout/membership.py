"""Objects of other ApplySets, which a run leaves alone.

A tool must refuse an object that is part of another set (KEP-3659, "Labels and annotations on members"). Two Fabrics or
two stacks in a cluster may have objects of the same name: if a run took such an object over, the removal of either set
would delete an object that the other set uses.
"""

from collections.abc import Iterable

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout.applyset import PART_OF, ApplySet, find_applyset
from trackbed.cluster.rollout.options import ForeignMemberError, format_object_name, is_shared_kind

_SINGLE_POLICY = (
    "; the Network Operator reads a single NicClusterPolicy, so Trackbed applies one of the stacks that need it: "
    "`trackbed render stack STACK -f FILE` writes the objects of a further one, such as nic-configuration, for "
    "`kubectl apply --server-side`"
)


class MembershipCheck:
    """Finds the objects that belong to other sets; the parent of each such set is read once."""

    def __init__(self, client: DynamicClient, applyset: ApplySet) -> None:
        self._client, self._applyset = client, applyset
        self._owners: dict[str, str] = {}

    async def describe_owner(self, live: Object | None) -> str:
        """Return an object and the other set that it belongs to, as text; empty if there is no other set.

        A set of the same name in another namespace is accepted: it is the set of the same Fabric and stack before the
        Fabric's namespace changed. Raises KubeError.
        """
        if live is None or is_shared_kind(live["kind"]):
            return ""
        set_id = live["metadata"].get("labels", {}).get(PART_OF, self._applyset.id)
        if set_id == self._applyset.id:
            return ""
        if set_id not in self._owners:
            self._owners[set_id] = await self._describe_set(set_id)
        owner = self._owners[set_id]
        suffix = _SINGLE_POLICY if live["kind"] == "NicClusterPolicy" else ""
        return f"{format_object_name(live)} is part of {owner}{suffix}" if owner else ""

    async def _describe_set(self, set_id: str) -> str:
        """Return the name of a set as text, empty for the same Fabric and stack. Raises KubeError."""
        try:
            other = await find_applyset(self._client, set_id)
        except ApiRefusedError:
            return f"{set_id}, whose parent this account may not read"
        if other is None:
            return f"{set_id}, which has no ConfigMap as its parent"
        return "" if other.name == self._applyset.name else f"{other.name} in namespace {other.namespace}"


def build_membership_error(title: str, lines: Iterable[str]) -> ForeignMemberError:
    """Return the error for objects of other sets; `lines` are texts of `MembershipCheck.describe_owner`."""
    listed = "".join(f"\n  {line}" for line in lines)
    return ForeignMemberError(
        f"{title}: objects belong to other ApplySets and are left alone, also with --force; first remove what they "
        f"belong to (`trackbed apply cluster STACK -f FILE --remove`, with its Fabric and stack):{listed}"
    )
