"""Scripts that train with Apex or with native AMP, as they are told."""
