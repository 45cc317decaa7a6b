"""The stack on Spiderpool (spiderpool.spidernet.io): its address pools and networks."""
