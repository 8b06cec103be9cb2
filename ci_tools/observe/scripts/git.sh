#!/bin/sh
export PATH={path} GIT_CEILING_DIRECTORIES={folder} GIT_CONFIG_NOSYSTEM=1 GIT_OPTIONAL_LOCKS=0
exec {git} "$@"
