"""``compile_kernels``: compiles the kernels that jobs need, before the first job."""

from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand

from apps.classification.core import inference
from apps.common.infrastructure.warm_up import Kernels, warming_up
from apps.execution.backends.emulated.warm_up import warm_up as run_a_job
from apps.scheduling.core import warm_up as decisions

COMPILERS: Final[Mapping[Kernels, Callable[[], None]]] = {
    Kernels.SCHEDULING: decisions.compile_kernels,
    Kernels.CLASSIFICATION: inference.compile_kernels,
    Kernels.EMULATION: lambda: run_a_job(settings.EMULATED_WORLD),
}


class Command(BaseCommand):
    """Compile groups of kernels, or load those that are compiled already."""

    help = "Compile kernels, so that the processes that start next load them in a second."
    requires_system_checks = ()  # neither database nor web process

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the groups."""
        parser.add_argument("kernels", nargs="+", choices=[str(group) for group in COMPILERS])

    def handle(self, *args: Any, **options: Any) -> None:
        """Compile one group after the other."""
        for name in options["kernels"]:
            group = Kernels(name)
            with warming_up(group):
                COMPILERS[group]()
            self.stdout.write(f"compiled the kernels of {name}")
