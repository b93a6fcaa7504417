"""The commands of `amp-verify`: from what was asked for to an exit status."""
