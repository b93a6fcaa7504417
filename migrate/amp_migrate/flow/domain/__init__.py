"""What the interpreter computes with: values, tensors, contexts, the states of scalers and gradients; and joins."""
