"""Links between leaves and spines, which the tests of a proof have to cross.

    uplinks: {spines: 16, links: 2, rate: 400}

A flow is hashed to one of the spines * links links of its leaf (ECMP). Leaves of one rail and pod share their spines.
"""

from pydantic import Field

from trackbed.fabric.bounds import LINK_GBPS, SPINE_LINKS, SPINES, UNITS_PER_POD
from trackbed.fabric.model.model import FabricModel


class UplinksSpec(FabricModel):
    """Links of each leaf to the spines of its rail. Nothing on hosts follows from them: they plan a proof.

    Example:
        spines: 16
        links: 2
        rate: 400
        unitsPerPod: 8
    """

    spines: int | None = Field(default=None, ge=SPINES.low, le=SPINES.high)
    """Spines of a rail in a pod. Default: as many as give a leaf a link for each of its hosts: nodesPerUnit / links."""
    links: int = Field(default=1, ge=SPINE_LINKS.low, le=SPINE_LINKS.high)
    """Parallel links between a leaf and each spine."""
    rate: int | None = Field(default=None, ge=LINK_GBPS.low, le=LINK_GBPS.high)
    """Rate of a link in Gb/s. Default: that of the hosts' ports."""
    units_per_pod: int | None = Field(default=None, ge=UNITS_PER_POD.low, le=UNITS_PER_POD.high)
    """Scalable units whose leaves share spines. Default: all."""

    def count_spines(self, nodes_per_unit: int) -> int:
        """Return the spines of a rail in a pod, with the default applied."""
        return self.spines or min(SPINES.high, -(-nodes_per_unit // self.links))
