#!/bin/sh
case " $* " in
*" -V "* | *" -v "* | *" --version "* | *" -dumpversion "* | *" -dumpfullversion "* | "  ") echo '{answer}'
exit 0 ;;
esac
echo "{name} $*" >> "{noted}"
while [ $# -gt 0 ]; do
  if [ "$1" = -o ]; then : > "$2"; fi
  shift
done
