"""Runs in a confined process together with a project's own build code, and records what that code does.

The toolkit imports nothing from here: `ci_tools.observe.setup_py.run` starts `__main__` with a folder that holds only
this package, setuptools and packaging. The build and its backend are the project's real ones. Fake are the machine
that the build sees (`machine`), the compilers it calls (`build_ext`), and the packages it queries (`fakes`).
"""
