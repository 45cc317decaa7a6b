"""Spiderpool (spiderpool.spidernet.io): its pools, its networks, and the stack made of them."""
