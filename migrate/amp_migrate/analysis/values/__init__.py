"""What kind of thing a value is: an optimizer, a loss, a product, what a sigmoid gives."""
