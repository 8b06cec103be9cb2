"""The GPUs that an observed build compiles for: those that its compilers get, and those that a project names."""
