#!/bin/sh
case "$*" in
--version | -version) echo 'cmake version 4.1.2' ;;
"-E capabilities") echo '{"version": {"string": "4.1.2", "major": 4, "minor": 1, "patch": 2}}' ;;
"-E "*) shift; exec "PYTHON" -s -S -c '
import pathlib, shutil, sys, tarfile
command, *words = sys.argv[1:]
names = [word for word in words if not word.startswith("-")]
if command == "tar":
    tarfile.open(names[-1]).extractall(".") if "x" in names[0] else None
elif command == "copy":
    [shutil.copy(name, names[-1]) for name in names[:-1]]
elif command == "copy_directory":
    shutil.copytree(*names, dirs_exist_ok=True)
elif command == "make_directory":
    [pathlib.Path(name).mkdir(parents=True, exist_ok=True) for name in names]
elif command == "rm":
    [shutil.rmtree(name) if pathlib.Path(name).is_dir() else pathlib.Path(name).unlink() for name in names]
elif command == "touch":
    [pathlib.Path(name).touch() for name in names]
' "$@" ;;
esac
