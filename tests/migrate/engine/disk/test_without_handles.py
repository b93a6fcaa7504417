"""Where the system has no handles of folders, and lacks what only POSIX has, as on Windows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

OLD = "from torch.cuda.amp import autocast\n\nwith autocast():\n    pass\n"
# Taken away before the first import of ours. What Windows has in another form (locks) stays as it is here.
START = """
import os, signal, sys

for name in ("O_NOFOLLOW", "O_DIRECTORY", "O_PATH", "O_NONBLOCK", "O_CLOEXEC", "fchmod", "fchown", "posix_fallocate",
             "getxattr", "setxattr", "listxattr", "mkfifo"):
    if hasattr(os, name):
        delattr(os, name)
if hasattr(signal, "SIGHUP"):
    del signal.SIGHUP
os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks = set(), set(), set()
from amp_migrate.__main__ import main
main()
"""


def run(folder: Path, *args: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-c", START, *args]
    result = subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def test_files_are_written_and_restored(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(OLD)
    assert "1 changed" in run(tmp_path, ".")
    assert "torch.amp" in script.read_text()
    assert "1 restored" in run(tmp_path, "--undo")
    assert script.read_text() == OLD
    run(tmp_path, "train.py", "--output", "copy.py")
    assert "torch.amp" in (tmp_path / "copy.py").read_text()
    assert {path.name for path in tmp_path.glob("*.*")} == {"train.py", "copy.py"}
