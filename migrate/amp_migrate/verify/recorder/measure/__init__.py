"""What is measured for questions other than the verdict: times, profiles, parts of models."""
