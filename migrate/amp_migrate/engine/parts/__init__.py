"""Projects planned in parts: by processes of their own, or from the scripts that were named."""
