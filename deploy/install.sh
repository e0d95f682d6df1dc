#!/bin/sh
# Installs Penstock from this source tree, with the dependencies that requirements/run.txt pins, into a folder of its
# own:  sh deploy/install.sh /opt/penstock
# The command is then /opt/penstock/bin/penstock. Needs Python 3.11 or newer; running it needs Java 17 as well.
set -eu
target=${1:?"usage: sh deploy/install.sh FOLDER"}
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")/.." && pwd)
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Penstock needs Python 3.11 or newer" >&2; exit 1; }
"$python" -m venv "$tools/uv"
"$tools/uv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$here/requirements/uv.txt"
# Compiled here: whoever runs it may not write into the folder, and would compile everything at every start.
unset PYTHONDONTWRITEBYTECODE
# What builds pyspark and Penstock itself is pinned by hash, too: uv refuses any other build tool.
export UV_BUILD_CONSTRAINT="$here/requirements/build.txt"
"$tools/uv/bin/uv" venv --quiet --python "$python" "$target"
"$tools/uv/bin/uv" pip install --quiet --compile-bytecode --python "$target" --require-hashes -r "$here/requirements/run.txt"
"$tools/uv/bin/uv" pip install --quiet --compile-bytecode --python "$target" --no-deps "$here"
