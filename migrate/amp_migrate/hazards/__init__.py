"""What is wrong in AMP that a script has already: one file per rule (AMP6xx), found by being below this folder.

What the rules ask about is in `seen`: the analysis of values (`flowing`) knows what each statement does to gradients
and scalers, and in which states (`states`), and `course` says it of one scaler in one function; regions of autocast are
read from the text alone.
"""
