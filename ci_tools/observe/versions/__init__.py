"""The version that a project's own tool gives: setuptools-scm, hatch-vcs, versioningit, dunamai and their like."""
