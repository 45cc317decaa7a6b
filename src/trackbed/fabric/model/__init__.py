"""What the user wants: the Fabric, typed, every error with its place in the file."""
