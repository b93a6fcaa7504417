"""A port of the run's own: scripts that write one into their text could not run beside one another."""

from __future__ import annotations

import functools
import os
import re
from typing import Any

import torch.distributed

_HERE = frozenset({"", "localhost", "127.0.0.1", "0.0.0.0", "::1"})
_ADDRESS = re.compile(r"^tcp://(localhost|127\.0\.0\.1|0\.0\.0\.0):\d+")


def install(port: int) -> None:
    """Let process groups of one machine meet at `port`, whichever the script names; a launcher's own stays."""
    distributed: Any = torch.distributed
    if not distributed.is_available():
        return
    init = distributed.init_process_group

    @functools.wraps(init)
    def at_own_port(backend: Any = None, init_method: Any = None, *args: Any, **kwargs: Any) -> Any:
        launched = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        if isinstance(init_method, str):
            init_method = _ADDRESS.sub(rf"tcp://\1:{port}", init_method)
        if not launched and "MASTER_PORT" in os.environ and os.environ.get("MASTER_ADDR", "") in _HERE:
            os.environ["MASTER_PORT"] = str(port)
        return init(backend, init_method, *args, **kwargs)

    distributed.init_process_group = at_own_port
