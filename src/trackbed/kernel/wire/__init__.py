"""Questions asked of the network itself: is this address taken, does this gateway answer."""
