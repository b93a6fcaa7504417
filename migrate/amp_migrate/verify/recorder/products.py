"""What computes matrix products and convolutions: PyTorch's operators on a CPU and a GPU, and functions of scripts."""

from __future__ import annotations

import re

PRODUCT = re.compile(r"^aten::(\w*mm|mv|dot|\w*convolution\w*|_scaled_dot_product_\w+|\w*rnn\w*|\w*attention\w*)$")

# Calls of scripts that a GPU runs on its matrix units: low precision that touches none of them is no mixed precision.
MATRIX_OPERATIONS = frozenset(
    """addbmm addmm addmv baddbmm bilinear bmm conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
    einsum gru gru_cell linear lstm lstm_cell matmul mm multi_head_attention_forward mv rmatmul rnn_relu rnn_tanh
    scaled_dot_product_attention""".split()
)
