"""Importers: configuration files of other tools, read as a Fabric."""
