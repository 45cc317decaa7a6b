"""Generators of reference pages, golden files and files of the chart: each module renders text and writes nothing."""
