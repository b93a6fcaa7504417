"""Where PyTorch and Apex say what the rules rest on."""

from __future__ import annotations

TORCH = "https://docs.pytorch.org/docs/stable"
AMP = f"{TORCH}/amp.html"
EXAMPLES = f"{TORCH}/notes/amp_examples.html"
RECIPE = "https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html"
DEPRECATIONS = "https://github.com/pytorch/pytorch/releases/tag/v2.4.0"
APEX = "https://nvidia.github.io/apex"
APEX_AMP = f"{APEX}/amp.html"
APEX_TRANSITION = f"{APEX_AMP}#transition-guide-for-old-api-users"
# "remove old features: amp, ddp, and rnn", May 2025
APEX_REMOVAL = "https://github.com/NVIDIA/apex/pull/1896"
