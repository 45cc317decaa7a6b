"""What the lab needs to run another project's stack: its images, its charts, and what the lab plays of it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trackbed.fabric.plan.plan import Plan
from trackbed_lab.kubernetes.blocking import BlockingClient
from trackbed_lab.kubernetes.images import ImageSpec
from trackbed_lab.kubernetes.programs import Program
from trackbed_lab.kubernetes.stacks.programs_folder import ProgramsFolder
from trackbed_lab.vm.furnish import ServerFile


@dataclass(frozen=True, slots=True)
class ImageParts:
    """What images are made of: the plan names their releases, `tools` is the root of the lab's fetched packages."""

    plan: Plan
    programs: ProgramsFolder
    tools: Path


@dataclass(frozen=True, slots=True)
class LabStack:
    """One stack in the lab."""

    name: str
    fabric: str
    """Name of the example Fabric in this folder."""
    charts: Mapping[str, str]
    """Name of a chart in its repository -> its folder below charts/ of the programs."""
    images: Callable[[ImageParts], Sequence[ImageSpec]]
    go_programs: Sequence[Program] = ()
    """Programs that are built from Go modules."""
    node_files: Mapping[str, ServerFile] = field(default_factory=dict)
    node_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that the lab gives the nodes, because nothing here has the hardware that they tell of."""
    after_chart: str = ""
    """Shell commands after a chart's installation; {kubectl} is the program."""
    without_rdma: str = ""
    """Why pods cannot use RDMA here; empty if they can."""
    held: str = "true"
    """Shell command that prints a line for each address that is held on a node."""
    moves_addresses: bool = False
    """Whether a port brings its own address into the pod."""
    held_in_api: Callable[[BlockingClient], int] = lambda _: 0
    """Counts the addresses that the API says are held."""
    leaves: str = ""
    """Why CDI files and other names of VFs stay on a node when a pod is gone; empty if none may."""
    skipped_charts: Collection[str] = ()
    """Releases of charts that are not installed, because there is no such hardware."""
    site_charts: Mapping[str, str] = field(default_factory=dict)
    """Release of a chart that the site installs, as no repository or the stack has it -> folder below charts/."""
    site_objects: str = ""
    """Name of a file in this folder with objects that the site applies, as the stack's charts bring no such thing."""
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Name of a chart, or release of a site's chart -> options of helm that the published one does not need."""
    runs_hooks: bool = False
    """Whether helm runs the hooks of the stack's charts; else their images are only in a registry."""
    has_rules: bool = True
    """Whether pods have rules by source address; else a route to another rail is asked for with its interface."""


@dataclass(frozen=True, slots=True)
class StackTools:
    """The programs and files with which a user installs a stack."""

    helm: Path
    kubectl: Path
    charts: Mapping[str, Path]
    """Name of a chart in its repository, or release of a site's chart -> its folder."""
    kubeconfig: Path
    folder: Path
    """Folder for files of this run; the Fabric is fabric.yaml in it."""
