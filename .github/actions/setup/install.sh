#!/bin/sh
# Installs Fatwheel on this runner, in a place of its own: no Python of the runner's is changed, and of all that is
# installed only the command `fatwheel` can be found.
set -eu

here=$(cd "$(dirname "$0")" && pwd)

# The first Python that can run us: the runner's own, or one of a manylinux container's.
for python in python3 python python3.14 python3.13 python3.12 python3.11 python3.10 \
  /opt/python/cp313-cp313/bin/python /opt/python/cp312-cp312/bin/python /opt/python/cp311-cp311/bin/python; do
  if "$python" -I -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; then
    exec "$python" -I "$here/install.py" "$@"
  fi
done

echo "::error title=Fatwheel::there is no Python 3.10 or later with venv on this runner, expected one on PATH"
exit 3
