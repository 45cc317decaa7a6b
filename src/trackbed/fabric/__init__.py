"""What is wanted: the Fabric, the plan that follows from it, and other formats that it is read from. Pure."""
