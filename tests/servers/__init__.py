"""Servers on this machine that stand in for those of others, for tests.

jsonschema imports what checks the syntax of IRIs, whose grammars take most of a second to read, in each process that
has it: no process of the tests gets it. `tests/unit/build/test_sbom.py` checks by itself what that would check.
"""

import sys

sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
