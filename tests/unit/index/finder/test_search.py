"""The machine that a search is for: this one, or another by a few names."""

from __future__ import annotations

import pytest

from ci_tools.errors import InputError
from ci_tools.index.finder.search import GivenMachine, describe_machine
from ci_tools.install.fatwheel_backend import Facts

HERE = Facts(python="3.12", libc="glibc 2.36", driver="580.65.06", driver_cuda="13.0", gpus=("9.0",))
WITH_TORCH = HERE._replace(torch="2.10.0+cu130", torch_cuda="13.0", cxx11abi=True)
ROCM = HERE._replace(torch="2.10.0+rocm7.1", torch_rocm="7.1.25424", driver=None, driver_cuda=None)


@pytest.mark.parametrize(
    ("facts", "wanted", "four"),
    [
        pytest.param(WITH_TORCH, GivenMachine(), ("linux-x86_64", "cu130", "2.10", "3.12"), id="this-machine"),
        pytest.param(HERE, GivenMachine(), ("linux-x86_64", "cu130", "", "3.12"), id="no-torch-but-a-driver"),
        pytest.param(HERE, GivenMachine(cuda="none"), ("linux-x86_64", "", "", "3.12"), id="no-cuda-wanted"),
        pytest.param(
            HERE, GivenMachine(torch="2.11"), ("linux-x86_64", "cu130", "2.11", "3.12"), id="a-torch-for-the-driver"
        ),
        pytest.param(
            WITH_TORCH, GivenMachine(cuda="12.6"), ("linux-x86_64", "cu126", "2.10", "3.12"), id="another-cuda"
        ),
        pytest.param(
            WITH_TORCH, GivenMachine(cuda="none"), ("linux-x86_64", "", "2.10", "3.12"), id="torch-without-cuda"
        ),
        pytest.param(ROCM, GivenMachine(), ("linux-x86_64", "rocm7.1", "2.10", "3.12"), id="rocm"),
        pytest.param(
            WITH_TORCH, GivenMachine(python="3.14t"), ("linux-x86_64", "cu130", "2.10", "3.14t"), id="free-threaded"
        ),
        pytest.param(
            WITH_TORCH,
            GivenMachine(system="linux-arm64", cuda="13.0"),
            ("linux-arm64", "cu130", "2.10", "3.12"),
            id="arm",
        ),
        pytest.param(
            HERE._replace(platform="macosx_14_0_arm64"), GivenMachine(), ("macos-arm64", "cu130", "", "3.12"), id="mac"
        ),
    ],
)
def test_a_machine_has_the_four_names_of_the_page(facts: Facts, wanted: GivenMachine, four: tuple[str, ...]) -> None:
    machine = describe_machine(facts, wanted)
    assert (machine.system, machine.accelerator, machine.torch, machine.python) == four


def test_the_gpus_and_the_driver_are_those_of_this_machine_only() -> None:
    assert describe_machine(WITH_TORCH, GivenMachine(python="3.13")).facts.gpus == ("9.0",)
    other = describe_machine(WITH_TORCH, GivenMachine(cuda="12.6")).facts
    assert (other.gpus, other.driver, other.driver_cuda) == ((), None, None)
    assert describe_machine(WITH_TORCH, GivenMachine(cuda="12.6", gpu="8.9")).facts.gpus == ("8.9",)


def test_a_system_that_is_not_known_is_an_error_with_the_nearest() -> None:
    with pytest.raises(InputError, match='--system: "linux-arm" is not known, did you mean "linux-arm64"'):
        describe_machine(HERE, GivenMachine(system="linux-arm"))
