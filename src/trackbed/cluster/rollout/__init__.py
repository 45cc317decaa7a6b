"""The steps of a stack on a cluster: objects applied, gates waited for, the way back kept."""
