"""Differences that are small beside their terms: what rounding leaves of them may be nothing, or of another sign."""
