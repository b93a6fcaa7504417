"""Which of PyTorch's operators compute matrix products and convolutions: forward and backward, on a CPU and a GPU."""

from __future__ import annotations

import re

PRODUCT = re.compile(r"^aten::(\w*mm|mv|dot|\w*convolution\w*|_scaled_dot_product_\w+|\w*rnn\w*|\w*attention\w*)$")
