"""What runs beside a project's own build code, in a confined process, and writes down what that code does.

The toolkit imports nothing from here: `ci_tools.evidence.observe.run` starts `__main__` with a folder that holds only
this package, setuptools and packaging. The build is the project's real one, by its real backend; what is not real is
the machine it sees (`machine`), the compilers it calls (`build_ext`), and the packages it asks about them (`fakes`).
"""
