#!/bin/sh
# Finds a Python of the image that can run Fatwheel, and becomes it: the first arguments are a version such as 3.12,
# which is preferred, and the script that ends with the run; all others are what Python is to run.
set -eu

version=$1
lifeline=$2
shift 2
digits=$(echo "$version" | tr -d .)
for python in "/opt/python/cp$digits-cp$digits/bin/python" "python$version" python3 python3.14 python3.13 python3.12 \
  python3.11 python3.10 /opt/python/cp313-cp313/bin/python /opt/python/cp312-cp312/bin/python \
  /opt/python/cp311-cp311/bin/python /opt/python/cp310-cp310/bin/python; do
  if "$python" -I -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; then
    exec "$python" -I -S "$lifeline" "$python" -I "$@"
  fi
done

echo "there is no Python 3.10 or later with venv in the image" >&2
exit 3
