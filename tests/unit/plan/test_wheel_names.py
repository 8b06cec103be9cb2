"""The names of wheels and of what is in them."""

from ci_tools.model.evidence import OWN_SUFFIX
from ci_tools.plan.wheel_names import library_path


def test_a_library_has_the_suffix_that_the_pythons_of_its_system_look_for() -> None:
    on_linux, on_windows = ".cpython-312-x86_64-linux-gnu.so", ".cp312-win_amd64.pyd"
    assert library_path(f"demo/_C{OWN_SUFFIX}", on_windows) == "demo/_C.cp312-win_amd64.pyd"
    assert library_path("demo/_C.abi3.so", on_linux) == "demo/_C.abi3.so"
    assert library_path("demo/_C.abi3.so", on_windows) == "demo/_C.pyd"
