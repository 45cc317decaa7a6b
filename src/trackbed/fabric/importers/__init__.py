"""Other people's files read as a Fabric."""
