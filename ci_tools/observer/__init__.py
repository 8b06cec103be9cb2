"""What runs beside a project's own build code, in a confined process, and writes down what that code does.

Nothing here is imported by the toolkit: `ci_tools.observation` starts `__main__` with a folder that holds only this
package, setuptools and packaging. The build is the project's real one, by its real backend; what is not real is the
machine it sees (`disguise`), the compilers it calls (`recorder`), and the packages it asks about them (`fakes`).
"""
