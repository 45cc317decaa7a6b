"""The functions of the boot script (`steps.boot`): `boot.sh`, in sh as POSIX has it.

Each function ends with 0, so that trouble with one port does not keep the next from its settings; `failed` is the exit
status. A host that is prepared over SSH gets the text in place of this module (`fleet.archive`).
"""

from importlib.resources import files
from typing import Final

TEXT: Final = files("trackbed.host.steps").joinpath("boot.sh").read_text(encoding="utf-8")
