"""What a server's firmware must be set to, read and staged over Redfish."""
