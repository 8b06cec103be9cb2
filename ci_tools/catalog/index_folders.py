"""The names of the folders of an index: one for each accelerator's label, also with a torch."""

from __future__ import annotations

import re

from ci_tools.catalog.accelerators import KINDS

NUMBER = r"[0-9]+(\.[0-9]+)*"
LABELS = "|".join(f"{kind.label_start or kind}{NUMBER if kind.is_versioned else ''}" for kind in KINDS.values())
# Such as `cu130torch2.10`; `variants` has the wheel variants (PEP 825). The empty one is the root: every folder lists
# its files.
FOLDER = re.compile(rf"((cpu|{LABELS})(torch{NUMBER}(\.dev[0-9]+)?)?|variants)?")
