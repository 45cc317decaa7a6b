"""What a machine is: an inventory made of a snapshot, and a Fabric made of inventories."""
