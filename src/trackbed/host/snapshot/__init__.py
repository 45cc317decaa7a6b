"""Snapshots: the files, links and program outputs of a host, read once as one value.

    Wanted ──> read_snapshot(machine) ──> Snapshot ──> checks (doctor), inventory (discover), archive (trackbed capture)

A check declares what it reads (Wanted) and gets a Snapshot, a frozen value. A live machine, an unpacked archive and a
test's dictionary all yield such a value.
"""
