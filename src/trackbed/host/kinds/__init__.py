"""The kinds of setting: one module each, and one line each in `registry.NAMES`.

    steps ── Setting(step, Want, rail, why) ──> compare ──> Change | Skipped | None
                            │                      ^
                  registry finds the Kind          └── View: the machine as it was read once

A kind's module defines (`kind.Kind` says what each is given and returns, and what the optional ones default to):

    Want                what is wanted, a frozen dataclass: with `netdev` if of a port, `version` if of an IP version;
                        str(want) is the setting in a few words
    compare             how the machine differs from it, and the operations that mend it
    find_stale          what an earlier plan left
    keep, restore       what undo needs, as JSON, from the state that was compared; how it is put back
    render_boot_line    the line of the boot script that sets it again, where the kernel keeps it nowhere
    KIND                these together

To add a kind, write its module, its line in `registry.NAMES` and its test. Shared by several kinds: `view` (the state
and its ports), `entries` (addresses, routes, rules for undo), `links`, `sysfs`, `processes`, `arguments`, `bootloader`.
"""
