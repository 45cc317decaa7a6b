"""Importers: configuration files of other tools, read as a Fabric whose plan reproduces their addresses.

registry.SOURCES  name of a source -> its module, which defines a `source.Source`
netplan ...       a module or package for each source; reads its files as `interface.Interface` values
values            parsing of names, addresses, routes, MTUs, MAC addresses for all sources
inference         rails, scheme and slots from the interfaces of all hosts, whatever their source
"""
