"""What a host says of itself in files, links and programs, read once as one value.

    Wanted ──> take(machine) ──> Snapshot ──> checks (verify), inventory (discover), archive (trackbed capture)

Whoever judges a host says what it wants to see (Wanted) and gets a Snapshot: a frozen value that a live machine, an
unpacked archive and a test's dictionary make alike.
"""
