"""The nouns of Fatwheel as frozen values: request, cell, evidence, job, plan, receipt, finding.

No code here reads a file, a clock or the environment.
"""
