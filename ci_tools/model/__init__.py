"""The nouns of Fatwheel as frozen values: request, cell, evidence, job, plan, receipt, finding.

Nothing here reads a file, a clock or the environment.
"""
