"""Facts about AMP that is in a script already, for the rules that look for what is wrong with it (AMP6xx).

Gradients and scalers are followed along the ways that a function can take: `events` says what each statement does to
them, `states` keeps it, `paths` walks, `course` answers. Regions of autocast are read from the text alone.
"""
