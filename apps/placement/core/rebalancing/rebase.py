"""Re-base a plan: keep, rewrite or drop each of its bundles on the present cluster.

Between the creation of a plan and its approval containers end, move and arrive. A bundle that can
still be carried out as it is, for at least `MIN_KEPT_SHARE` of its predicted gain, is kept. From
any other bundle the containers that are left are migrated, or it is built again around the same
server or job, whichever gains more. A bundle with neither is dropped, with the cause.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from apps.inventory.core.snapshot import Ints
from apps.placement.core.rebalancing.bundles import (
    MIN_GAIN,
    Bundle,
    BundleBuilder,
    BundleCandidate,
    BundlePurpose,
)
from apps.placement.core.rebalancing.cluster import RunningCluster
from apps.placement.core.solver.migrations import ContainerMigration

MIN_KEPT_SHARE: Final = 0.5  # of its predicted gain; a bundle with less is built again if possible


class ChangeCause(StrEnum):
    """Why a bundle could not be kept as it was."""

    GONE = "gone"
    FIXED = "fixed"
    NO_ROOM = "no_room"
    SLOWS = "slows"
    NO_GAIN = "no_gain"


@dataclass(frozen=True, slots=True)
class PlannedBundle:
    """A bundle of a plan, in the indices of the present cluster.

    Attributes
    ----------
    candidate : to build it again; None if its server or job is gone
    migrations : those whose container is still on its source
    missing : number of migrations whose container ended or moved
    gain : predicted decrease of F
    """

    number: int
    candidate: BundleCandidate | None
    migrations: tuple[ContainerMigration, ...]
    missing: int
    gain: float


@dataclass(frozen=True, slots=True)
class RebasedBundle:
    """What became of a bundle.

    Attributes
    ----------
    bundle : to carry out; None = dropped
    cause : why it was rewritten or dropped; None = kept
    subject : index of the container that cannot be migrated, or of the server without room; or -1
    """

    number: int
    bundle: Bundle | None
    cause: ChangeCause | None = None
    subject: int = -1


@dataclass(frozen=True, slots=True)
class RebasedBundles:
    """The bundles in execution order, the dropped ones last, and where they lead to.

    Attributes
    ----------
    assignment : (c,) server of each container afterwards
    """

    bundles: tuple[RebasedBundle, ...]
    assignment: Ints


@dataclass(frozen=True, slots=True)
class _Attempt:
    """Migrations of a bundle on the present state: decrease of F, or why they are impossible."""

    gain: float
    cause: ChangeCause | None = None
    subject: int = -1


def rebase(
    cluster: RunningCluster,
    weights: Mapping[str, float],
    bundles: Sequence[PlannedBundle],
    *,
    max_migrations: int,
    migration_cost: float = 0.0,
) -> RebasedBundles:
    """Keep, rewrite or drop each bundle. O(bundles x cost of building one).

    Parameters
    ----------
    bundles : in execution order
    max_migrations : over all bundles; limits those that are built again
    migration_cost : cost of migrating every container once, in F
    """
    rebaser = _Rebaser(cluster, dict(weights), migration_cost / max(cluster.job.size, 1))
    kept: list[RebasedBundle] = []
    others: list[tuple[PlannedBundle, _Attempt]] = []
    for planned in bundles:
        attempt = rebaser.attempt(planned.migrations)
        is_enough = attempt.gain >= MIN_KEPT_SHARE * planned.gain
        if is_enough and rebaser.net_gain(attempt, planned) is not None:
            kept.append(rebaser.keep(planned, attempt.gain))
        else:
            others.append((planned, attempt))
    left = max_migrations - sum(len(b.bundle.migrations) for b in kept if b.bundle is not None)
    rewritten: list[RebasedBundle] = []
    for planned, attempt in others:
        rewritten.append(rebaser.rewrite(planned, attempt, max(left, 0)))
        bundle = rewritten[-1].bundle
        left -= 0 if bundle is None else len(bundle.migrations)
    dropped = [rebased for rebased in rewritten if rebased.bundle is None]
    carried_out = [rebased for rebased in rewritten if rebased.bundle is not None]
    return RebasedBundles((*kept, *carried_out, *dropped), rebaser.assignment)


class _Rebaser(BundleBuilder):
    """Evaluates given migrations, and builds bundles again."""

    def attempt(self, migrations: Sequence[ContainerMigration]) -> _Attempt:
        """Evaluate given migrations; the state is the same afterwards."""
        if not migrations:
            return _Attempt(0.0, ChangeCause.GONE)
        state = self._state
        before = state.value
        done: list[ContainerMigration] = []
        obstacle: _Attempt | None = None
        for container, _, target in migrations:
            if self._is_fixed[container]:
                obstacle = _Attempt(0.0, ChangeCause.FIXED, container)
            elif not self._is_suitable(container)[target]:
                obstacle = _Attempt(0.0, ChangeCause.NO_ROOM, target)
            if obstacle is not None:
                break
            done.append(self._migrate(container, target))
        gain = before - state.value
        if obstacle is None and not self._guarantee.meets_expectations(done):
            obstacle = _Attempt(0.0, ChangeCause.SLOWS)
        self._undo(done)
        state.value = before  # discards the rounding errors of undone migrations
        return obstacle or _Attempt(gain)

    def keep(self, planned: PlannedBundle, gain: float) -> RebasedBundle:
        """Apply the migrations that are left of a bundle; at least one is."""
        first = BundleCandidate(BundlePurpose.IMPROVE, planned.migrations[0].container)
        candidate = planned.candidate or first  # its server or job may be gone
        bundle = Bundle(candidate.purpose, self._subject(candidate), planned.migrations, gain)
        self.apply(bundle)
        return RebasedBundle(planned.number, bundle, ChangeCause.GONE if planned.missing else None)

    def rewrite(self, planned: PlannedBundle, attempt: _Attempt, limit: int) -> RebasedBundle:
        """Apply what is left of a bundle, or the bundle built again; drop it if neither pays."""
        if attempt.cause in {None, ChangeCause.NO_ROOM, ChangeCause.SLOWS}:
            attempt = self.attempt(planned.migrations)  # other bundles were applied since
        built = None
        if planned.candidate is not None:
            built = self.evaluate(planned.candidate, limit)
        net = self.net_gain(attempt, planned)
        if net is not None and (
            built is None or net >= built.gain - self._cost(len(built.migrations))
        ):
            return self.keep(planned, attempt.gain)
        cause = ChangeCause.GONE if planned.missing else attempt.cause or ChangeCause.NO_GAIN
        subject = attempt.subject if cause is attempt.cause else -1
        if built is None:
            return RebasedBundle(planned.number, None, cause, subject)
        self.apply(built)
        return RebasedBundle(planned.number, built, cause, subject)

    def net_gain(self, attempt: _Attempt, planned: PlannedBundle) -> float | None:
        """Return the gain minus the cost; None if the migrations must not be carried out.

        An intact bundle stays in the plan unless it raises F. What is left of another must pay.
        """
        net = attempt.gain - self._cost(len(planned.migrations))
        least = 0.0 if planned.missing else -self._cost(len(planned.migrations))
        return net if attempt.cause is None and net >= least - MIN_GAIN else None

    def _cost(self, migrations: int) -> float:
        return self._price * migrations
