"""Apex's name for `amp_shim.amp.state`, from which scripts import.

The package's attribute of this name is the state itself, as in Apex.
"""

from amp_shim.amp.state import _amp_state, master_params, maybe_print, warn_or_err

__all__ = ["_amp_state", "master_params", "maybe_print", "warn_or_err"]
