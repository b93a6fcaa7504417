"""Why a script is as fast as it is: what was measured, and the causes that it shows."""
