"""Scripts of NVIDIA Apex: its calls, followed and forced off."""
