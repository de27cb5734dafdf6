"""What `synth predict --sweep` may vary: words of a command line only where a main() reads them."""

from __future__ import annotations

import pytest

from hipsynth.cli.predict import check_swept_names
from hipsynth.core.errors import UsageError
from hipsynth.training.analytic.predict import LaunchAssumptions

KERNEL = "__global__ void scale(float* x, int n) { x[threadIdx.x] *= n; }\n"
NOTHING = LaunchAssumptions()


def test_names_of_arguments_and_words_of_a_main() -> None:
    check_swept_names(KERNEL, NOTHING, ("n=1,2", "grid=4,8", "block = 64,128"))
    check_swept_names(KERNEL + "int main(int argc, char** argv) {}\n", NOTHING, ("arg1=1,2", "n=4"))


@pytest.mark.parametrize("sweep", ["arg1=1,2", "m=1,2"])
def test_names_that_nothing_reads_are_refused(sweep: str) -> None:
    with pytest.raises(UsageError, match=": no kernel has an argument of this name"):
        check_swept_names(KERNEL, NOTHING, (sweep,))


def test_arguments_that_no_main_reads_are_refused() -> None:
    with pytest.raises(UsageError, match="no arguments after --"):
        check_swept_names(KERNEL, LaunchAssumptions(arguments=("4096",)), ("n=1,2",))
