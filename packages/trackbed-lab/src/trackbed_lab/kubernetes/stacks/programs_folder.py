"""The folder with the programs and charts of other stacks, which `--programs` names.

DIR/bin/NAME                          a program
DIR/charts/RELEASE/.../Chart.yaml     an unpacked chart, or the manifests that an operator renders
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trackbed_lab.kubernetes.images import ImageError


class ProgramsError(ImageError):
    """The folder lacks something; the message names it."""


@dataclass(frozen=True, slots=True)
class ProgramsFolder:
    """The folder, and the folders with programs that the lab has built from Go modules."""

    folder: Path
    built: tuple[Path, ...] = ()

    def locate_program(self, name: str) -> Path:
        """Return the path of a program. Raises ProgramsError."""
        for folder in (self.folder / "bin", *self.built):
            if (folder / name).is_file():
                return folder / name
        raise ProgramsError(f"{self.folder}/bin has no program {name}")

    def locate_chart(self, release: str) -> Path:
        """Return the folder of the outermost chart below charts/RELEASE. Raises ProgramsError."""
        charts = sorted((self.folder / "charts" / release).rglob("Chart.yaml"), key=lambda path: len(path.parts))
        if not charts:
            raise ProgramsError(f"{self.folder}/charts/{release} holds no chart")
        return charts[0].parent

    def list_files(self, release: str, folder: str, target: str) -> Mapping[str, Path]:
        """Return the files of a folder below charts/RELEASE, by path below `target`. Raises ProgramsError."""
        base = self.folder / "charts" / release / folder
        files = {f"{target}/{path.relative_to(base)}": path for path in sorted(base.rglob("*")) if path.is_file()}
        if not files:
            raise ProgramsError(f"{base} holds no files")
        return files
