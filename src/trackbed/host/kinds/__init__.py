"""The kinds of setting: one module each, and one line each in `registry.NAMES`.

    steps ── Setting(step, Want, rail, why) ──> compare ──> Change | Skipped | None
                            │                      ^
                  registry finds the Kind          └── View: the state of the machine, read once

A kind's module defines the following (`kind.Kind` documents parameters, results and defaults):

    Want                the wanted value, a NamedTuple with `netdev` if it belongs to a port and `version` if it belongs
                        to an IP version; str(want) describes it in a few words
    compare             returns the change of a machine that differs, with the operations that make it
    find_stale          yields the removal of leftovers of earlier plans
    read_undo_data, restore   return the data that undo needs, from the state that was compared; restore that state
    render_boot_line    renders the line of the boot script that repeats the setting, if the kernel does not store it
    KIND                all of these

To add a kind, write its module and its test, and add a line to `registry.NAMES`. Several kinds share `view` (the state
and its ports), `entries` (addresses, routes, rules for undo), `links`, `sysfs`, `processes`, `arguments`, `bootloader`.
"""
