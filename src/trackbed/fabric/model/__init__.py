"""Typed models of the Fabric file; every error has its place in the file."""
