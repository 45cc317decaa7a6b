"""BIOS settings of servers, read and staged over Redfish."""
