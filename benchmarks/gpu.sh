#!/usr/bin/env bash
# Measures everything that needs a GPU, in about ten minutes: benchmarks/gpu.sh [OPTIONS]; --help lists them.
# PYTHON: the interpreter that has torch and torchvision (default: python3). What else is missing comes from the wheels
# in wheels/ beside this file, or, where there is none, from the package index:
#     python3 -m pip download --no-deps --dest benchmarks/wheels libcst platformdirs
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
python=${PYTHON:-python3}
export PYTHONPATH="$root/migrate:$root/shim:$here${PYTHONPATH:+:$PYTHONPATH}"

# Looked for, not imported, which takes seconds.
missing=$("$python" -c '
import sys
from importlib.util import find_spec
if not (find_spec("torch") and find_spec("torchvision")):
    sys.exit(f"{sys.executable} has no torch and torchvision; name an interpreter that has with PYTHON=")
wanted = dict(libcst="libcst", platformdirs="platformdirs", click="click", rich="rich", pathspec="pathspec", jinja2="jinja2",
              matplotlib="matplotlib", sklearn="scikit-learn", pytest="pytest", hypothesis="hypothesis")
print(*(package for module, package in wanted.items() if find_spec(module) is None))') || exit 2
if [ -n "$missing" ]; then
    added=$(mktemp -d)
    trap 'rm -rf "$added"' EXIT
    if compgen -G "$here/wheels/*.whl" >/dev/null; then
        "$python" -m pip install --quiet --no-index --no-deps --target "$added" "$here"/wheels/*.whl
    else
        # Unquoted on purpose: the packages are words.
        "$python" -m pip install --quiet --target "$added" $missing
    fi
    export PYTHONPATH="$PYTHONPATH:$added"
fi

cd "$root"
"$python" -m gpu_suite "$@"
