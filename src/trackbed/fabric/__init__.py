"""The Fabric file, the plan computed from it, and the import of other tools' files. Nothing here reads a host."""
