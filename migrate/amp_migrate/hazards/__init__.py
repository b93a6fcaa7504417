"""What is wrong in AMP that a script has already: one file per rule (AMP6xx), found by being below this folder.

What the rules ask about is in `seen`: gradients and scalers are followed along the ways that a function can take
(`scaler_events` says what each statement does to them, `states` keeps it, `paths` walks, `course` answers); regions of
autocast are read from the text alone.
"""
