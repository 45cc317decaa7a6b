"""The functions of the boot script (`steps.boot`): the file `boot.sh`, in POSIX sh.

Each function returns 0, so that a failure of one port does not prevent the settings of the next; `failed` is the exit
status of the script. Hosts that are prepared over SSH get the text in place of this module (`fleet.archive`).
"""

from importlib.resources import files
from typing import Final

TEXT: Final = files("trackbed.host.steps").joinpath("boot.sh").read_text(encoding="utf-8")
